"""When a turn's sync begins, and who waits for it: learned from what the last turns were like.

Two questions, each a small core that is told what happened and what time it is.

*How long to gather.* Sessions that committed in the last few turns will mostly come again. While
many of them are on their way, a sync that began now would serve the few that are here and make the
others wait for it and for their own; so half of them are waited for, for a bounded time. Few
sessions are never waited for: a lone commit is synced at once.

*Who waits.* Handing a sync to a worker and hearing back costs two wake-ups of threads, about as
much as the sync of one small group itself. Where the answer of one request is all that a sync will
release, and little is to be written, and the disk is quick on the whole, the loop runs it itself.
Quick syncs of the workers first make good the time that a slow sync took too long, so a
slow disk holds the loop once in a while, and a quick one no longer than it takes to tell.

If only the log is to be synced, both workers sync it on a quick disk: one of them is awake sooner.
A slow disk would do one sync behind the other, so there one worker syncs it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from dray.daemon.limits import (
    GATHER_S_MAX,
    GATHER_SESSIONS_MIN,
    GATHER_TURNS,
    QUICK_SYNC_BYTES,
    QUICK_SYNC_S,
    QUICK_SYNCS,
    SLOW_SYNCS,
    STALE_TURN_S,
)

NEVER: Final = float("-inf")
"""Before any time."""


class Gathering:
    """The number of sessions that wait for the next sync, and whether to wait for more."""

    def __init__(self) -> None:
        self._here: set[int] = set()
        self._since = 0.0
        self._turns: deque[set[int]] = deque(maxlen=GATHER_TURNS)
        self._last_turn = NEVER
        self._lately: deque[set[int]] = deque(maxlen=GATHER_TURNS)
        self.alone_until = NEVER
        """Until then the last turns, with a sync or without, were all of one session."""

    def joined(self, session: int, now: float) -> None:
        """Note that a session waits for the next sync."""
        if not self._here:
            self._since = now
        self._here.add(session)

    def left(self, session: int) -> None:
        """Note that a session is over: it will not come again."""
        for turn in (self._here, *self._turns):
            turn.discard(session)

    def began(self, now: float) -> None:
        """Note that the sync of those who are here begins."""
        if self._here:
            self._turns.append(self._here)
            self._last_turn = now
            self._took_leave(now)

    def dismissed(self, now: float) -> None:
        """Note that nothing had to be synced for those who are here."""
        if self._here:
            self._took_leave(now)

    def wait_s(self, now: float) -> float:
        """For how many seconds more others are worth waiting for; 0 to begin at once."""
        if now - self._last_turn > STALE_TURN_S:
            return 0.0
        wanted = len(set().union(*self._turns)) // 2
        if wanted < GATHER_SESSIONS_MIN or len(self._here) >= wanted:
            return 0.0
        return max(0.0, self._since + GATHER_S_MAX - now)

    def _took_leave(self, now: float) -> None:
        self._lately.append(self._here)
        alone = len(set().union(*self._lately)) == 1
        self.alone_until = now + STALE_TURN_S if alone else NEVER
        self._here = set()


class SyncPace:
    """Whether the loop may wait for a sync itself.

    An account in seconds: each small sync, whoever ran it, pays in QUICK_SYNC_S and draws what it
    took. While it is overdrawn the workers wait, so the loop is held up for no longer than that by
    one sync with another, but for the last one that was slow.
    """

    def __init__(self) -> None:
        """Begin without trust: as if that many syncs had taken twice as long as may be."""
        self._overdrawn_s = QUICK_SYNCS * QUICK_SYNC_S
        self._lately: deque[float] = deque(maxlen=SLOW_SYNCS)

    def took(self, seconds: float, heap_bytes: int) -> None:
        """Note how long a sync took, from its beginning to when the loop knew of its end."""
        if heap_bytes <= QUICK_SYNC_BYTES:
            self._overdrawn_s = max(0.0, self._overdrawn_s + seconds - QUICK_SYNC_S)
            self._lately.append(seconds)

    @property
    def is_slow(self) -> bool:
        """Whether the disk takes long for every sync, whatever else the machine does."""
        return len(self._lately) == SLOW_SYNCS and min(self._lately) >= QUICK_SYNC_S

    def is_quick(self, heap_bytes: int) -> bool:
        """Whether a sync of so many dirty bytes is likely to be over in a moment."""
        return heap_bytes <= QUICK_SYNC_BYTES and self._overdrawn_s < QUICK_SYNC_S
