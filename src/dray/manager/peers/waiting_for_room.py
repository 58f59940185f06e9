"""Streams of which something found no room here, and the word that there is room again (R61).

A message without room stays at its source, which tries again by the resend schedule: after half a
minute at the soonest, after hours in the end. So that nothing waits so long for a message that was
received in the meantime, the source is told at the end of the turn in which room came: by a
StreamState that says so.

    found no room in       is told when                                    who looks
    the computer's quota   the rest of its frame fits, or an eighth of     each turn that made room
                           the quota is free
    the disk               the rest of its frame and a heap file more      each turn, and every two
                           leave the low-water mark                        seconds while one waits

A source that was told of each single message that leaves would send the same frame again for each.
Nobody tells a manager that another program deleted files on the disk, so it looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dray.manager.disk import RoomLeft
from dray.manager.queue import Account, StoredQueue
from dray.manager.session import Session
from dray.manager.state import State
from dray.model.limits import ROOM_LOOK_S

_QUOTA_SHARE: Final = 8


class Waiting(NamedTuple):
    """A stream on one connection, the queue it leads to, and the bytes that found no room."""

    session: Session
    stream: int
    queue: StoredQueue
    first: int
    """Bytes of the first message: with less nothing would be gained."""
    rest: int


class WaitingForRoom:
    """The streams that wait; volatile, for a source that connects anew tries again at once."""

    def __init__(self, state: State, disk: RoomLeft) -> None:
        self._ledger = state.ledger
        self._disk = disk
        self.for_quota: dict[tuple[int, int], Waiting] = {}
        """Streams that the quota has no room for."""
        self.for_disk: dict[tuple[int, int], tuple[Waiting, int]] = {}
        """Streams that the disk has no room for, with how much must be free on it."""
        self._seen: tuple[int, int | None] = (0, None)
        self._look_at = 0.0

    def add(self, session: Session, stream: int, queue: StoredQueue, left_out: list[int]) -> None:
        """Note that the quota had no room for messages of these lengths; forget an older note."""
        self.admitted(session, stream)
        waiting = Waiting(session, stream, queue, left_out[0], sum(left_out))
        self.for_quota[session.number, stream] = waiting

    def add_for_disk(
        self, session: Session, stream: int, queue: StoredQueue, left_out: list[int]
    ) -> None:
        """Note that the disk had no room for messages of these lengths; forget an older note."""
        self.admitted(session, stream)
        waiting = Waiting(session, stream, queue, left_out[0], sum(left_out))
        self.for_disk[session.number, stream] = waiting, self._disk.free_for(waiting.rest)

    def admitted(self, session: Session, stream: int) -> None:
        """The stream goes on by itself."""
        self.for_quota.pop((session.number, stream), None)
        self.for_disk.pop((session.number, stream), None)

    def forget(self, session: Session) -> None:
        """A connection has ended."""
        for each in (self.for_quota, self.for_disk):
            for key in [key for key in each if key[0] == session.number]:
                del each[key]

    def deadline(self) -> float | None:
        """When to look at the disk, if one waits for it."""
        return self._look_at if self.for_disk else None

    def take(self, now: float) -> Iterator[Waiting]:
        """Give the streams for which there is room now; they wait no more."""
        if self.for_quota:
            yield from self._take_for_quota()
        if self.for_disk:
            yield from self._take_for_disk(now)

    def _take_for_quota(self) -> Iterator[Waiting]:
        used, limit = self._use()
        came = used < self._seen[0] or limit != self._seen[1]
        self._seen = (used, limit)
        if not came:
            return
        for key, each in list(self.for_quota.items()):
            enough = each.first if limit is None else limit // _QUOTA_SHARE
            if self._ledger.has_account_room(each.queue, max(each.first, min(each.rest, enough))):
                del self.for_quota[key]
                yield each

    def _take_for_disk(self, now: float) -> Iterator[Waiting]:
        if self._look_at <= now:
            self._look_at = now + ROOM_LOOK_S
        free = self._disk.free
        for key, (each, wanted) in list(self.for_disk.items()):
            if free >= wanted:
                del self.for_disk[key]
                yield each

    def _use(self) -> tuple[int, int | None]:
        ledger = self._ledger
        used = ledger.stored[Account.COMPUTER] + ledger.staged[Account.COMPUTER]
        return used, ledger.limits[Account.COMPUTER]
