"""Quotas: how many bytes may lie where, and who is told when no more fit (S3-1, R60 to R69).

    account     what counts                                        limit
    computer    users' queues, outgoing queues, queue journals     the manager's quota
    journal     computer journal, both dead-letter queues          the manager's journal quota
    exempt      internal queues                                    none

A message counts with its whole record, from the moment it is placed: staged in a transaction, then
in its queue. The computer's quota is looked at first, then the queue's; sub-queues and parents
share one. A reservation counts like staged bytes, so that a large message that has begun cannot
fail for want of room. Arrivals are refused, never what is stored: a quota may be set below what is
used.
"""

from __future__ import annotations

from dray.errors import QuotaExceeded
from dray.manager.queue import Account, StoredQueue, account_of


class Ledger:
    """Use of the quotas of the manager, and the quotas themselves. Sizes in bytes.

    `stored` changes by facts only; `staged` is what open transactions have placed or reserved.
    """

    def __init__(self) -> None:
        self.stored = dict.fromkeys(Account, 0)
        self.staged = dict.fromkeys(Account, 0)
        self.limits: dict[Account, int | None] = dict.fromkeys(Account, None)

    def check(self, queue: StoredQueue, requested: int) -> None:
        """Raise `QuotaExceeded` if that many more bytes do not fit, the computer's first (S3-7)."""
        if not self.has_account_room(queue, requested):
            limit, used = self._of_account(queue)
            quota, whose = queue.account.value, "this queue manager"
        elif not self.has_own_room(queue, requested):
            limit, used = self._of_queue(queue)
            quota, whose = queue.counted.quota_name, f"queue {queue.counted.name!r}"
        else:
            return
        # More than all of it fits no empty queue either.
        remedy = (
            "raise the quota" if requested > (limit or 0) else "receive messages or raise the quota"
        )
        raise QuotaExceeded(
            f"the {quota} quota of {whose} would be exceeded: {used} of {limit} bytes are used"
            f" and {requested} more were asked for; {remedy}",
            quota=quota,
            limit=limit or 0,
            used=used,
            requested=requested,
        )

    def stage(self, queue: StoredQueue, count: int) -> None:
        """Count bytes (fewer, if negative) that are placed or reserved, in no queue yet.

        Nobody sends to a sub-queue: what the manager says to one is staged while its fact is made.
        """
        self.staged[queue.account] += count
        queue.staged_bytes += count

    def give_back(self, number: int, queue: StoredQueue | None, count: int) -> None:
        """Count bytes no longer that were staged for a queue, which may have been deleted since."""
        self.staged[account_of(number)] -= count
        if queue is not None:
            queue.counted.staged_bytes -= count

    def has_account_room(self, queue: StoredQueue, requested: int) -> bool:
        """Whether the manager's quota that the queue is under has room."""
        account = queue.account
        limit = self.limits[account]
        return limit is None or self.stored[account] + self.staged[account] + requested <= limit

    def room(self, queue: StoredQueue, most: int) -> int:
        """The bytes that still fit, up to `most`."""
        for limit, used in (self._of_account(queue), self._of_queue(queue)):
            most = most if limit is None else min(most, limit - used)
        return most

    def has_own_room(self, queue: StoredQueue, requested: int) -> bool:
        """Whether the queue's own quota has room."""
        counted, limit = queue, queue.options.quota
        if queue.parent is not None:
            counted = queue.counted
            limit = counted.quota
        # The bytes of a queue and its sub-queues are added up only for a quota.
        return limit is None or counted.bytes_used + counted.staged_bytes + requested <= limit

    def _of_account(self, queue: StoredQueue) -> tuple[int | None, int]:
        account = queue.account
        return self.limits[account], self.stored[account] + self.staged[account]

    @staticmethod
    def _of_queue(queue: StoredQueue) -> tuple[int | None, int]:
        counted = queue.counted
        return counted.quota, counted.bytes_used + counted.staged_bytes
