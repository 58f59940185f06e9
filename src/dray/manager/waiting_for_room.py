"""Streams that the computer's quota had no room for, and the word that there is room again (R61).

What found no room is left with its source, which tries again by the resend schedule: after half a
minute at the soonest, after hours in the end. So that nothing waits so long for a message that was
received in the meantime, the source is told at the end of the turn in which room came: by a
StreamState that says so. It is told when the rest of the frame that found no room would fit, or one
part in eight of the quota is free: a source told of each single message that leaves would send the
same frame again for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dray.manager.accounts import Account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dray.manager.accounts import Ledger
    from dray.manager.context import Session
    from dray.manager.queues import Queue

_QUOTA_SHARE: Final = 8


class Waiting(NamedTuple):
    """A stream on one connection, the queue it leads to, and the bytes that found no room."""

    session: Session
    stream: int
    queue: Queue
    first: int
    """Of the first message: with less nothing would be gained."""
    rest: int


class WaitingForRoom:
    """Which streams wait; volatile, for a source that connects anew tries again at once."""

    def __init__(self, ledger: Ledger) -> None:
        """Begin with none."""
        self._ledger = ledger
        self._waiting: dict[tuple[int, int], Waiting] = {}
        self._seen: tuple[int, int | None] = (0, None)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """Note it, in place of what was noted of the stream before."""
        self._waiting[waiting.session.number, waiting.stream] = waiting
        self._seen = self._use()

    def admitted(self, session: Session, stream: int) -> None:
        """The stream goes on by itself."""
        self._waiting.pop((session.number, stream), None)

    def forget(self, session: Session) -> None:
        """A connection has ended."""
        for key in [key for key in self._waiting if key[0] == session.number]:
            del self._waiting[key]

    def take(self) -> Iterator[Waiting]:
        """Those for which there is room now; they wait no more."""
        used, limit = self._use()
        came = used < self._seen[0] or limit != self._seen[1]
        self._seen = (used, limit)
        if not came:
            return
        enough = 0 if limit is None else limit // _QUOTA_SHARE
        for key, each in list(self._waiting.items()):
            if self._ledger.has_account_room(each.queue, max(each.first, min(each.rest, enough))):
                del self._waiting[key]
                yield each

    def _use(self) -> tuple[int, int | None]:
        ledger = self._ledger
        used = ledger.stored[Account.COMPUTER] + ledger.staged[Account.COMPUTER]
        return used, ledger.limits[Account.COMPUTER]
