"""The memory that all connections of a daemon may hold for frames that are not whole yet.

A frame's length is known when 24 bytes of it have come, and its memory is taken then: without a
bound, ten thousand callers who each begin a frame and say no more would hold forty gigabytes. So a
connection asks; when the share is used up it stands in line and is not read from, which leaves what
comes in the kernel's own buffers and slows its sender down.

Small frames have a share that large ones leave free, so that requests pass while large bodies
stand in line. A connection whose frame comes too slowly while others wait is ended after seconds:
whoever sends a frame at all sends it on. Without a line nobody is hurried. No caller but the owner
has more than its share of all, so that slow ones do not take it in turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Protocol

from dray.daemon.limits import (
    FRAME_GRACE_S,
    FRAME_LOOK_S,
    FRAME_S,
    INTAKE_BYTES_MAX,
    INTAKE_BYTES_OF_SMALL,
    INTAKE_SHARE,
    INTAKE_SMALL_BYTES_MAX,
    READ_BYTES_WHILE_TIGHT,
)
from dray.daemon.pacing.backlog import DiskBacklog
from dray.model.places import Amounts, Places
from dray.wire.stream import READ_BYTES


class BodyOwner(Hashable, Protocol):
    """A connection."""

    @property
    def place(self) -> str:
        """The caller that has a share; empty for one that may have all."""
        ...

    @property
    def progress(self) -> float:
        """The part of the incoming frame that is there, from 0 to 1."""
        ...

    def room_came(self) -> None:
        """Ask again: what was asked for is kept free."""
        ...

    def hold_up(self, reason: str) -> None:
        """Others wait for what this one holds: end it, if it is not we who keep it waiting."""
        ...


class Intake:
    """One for each daemon; driven in its loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, backlog: DiskBacklog) -> None:
        """Begin with all of it free; large bodies wait while `backlog` is full."""
        self._loop = loop
        self._backlog = backlog
        self.held: dict[BodyOwner, int] = {}
        """By connection, the bytes that it holds."""
        self._since: dict[BodyOwner, float] = {}
        self._held_at: Amounts[str] = Amounts()
        self._at: dict[BodyOwner, str] = {}
        self._small, self._large = _MemoryLine(), _MemoryLine()
        self._promised: dict[BodyOwner, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.bytes_held = 0

    @property
    def read_bytes(self) -> int:
        """The bytes to read at a time: few while some wait for memory."""
        return READ_BYTES_WHILE_TIGHT if self._small.asked or self._large.asked else READ_BYTES

    def grant(self, taker: BodyOwner, size: int) -> bool:
        """Give `size` bytes more, or put `taker` into the line."""
        if self._promised.pop(taker, 0) == size:
            return True
        if _is_large(size) and not self._backlog.admits(taker.room_came):
            return False
        line = self._large if _is_large(size) else self._small
        if self._next(line) is not None or not self._may_have(taker, size):
            line.add(taker, size)
            self._watch()
            return False
        self._add(taker, size)
        return True

    def admits(self, told: Callable[[], None]) -> bool:
        """Whether a large body that is in memory already may come; if not, `told` says when."""
        return self._backlog.admits(told)

    def admits_no_more(self, told: Callable[[], None]) -> None:
        """Nobody is to be told any more."""
        self._backlog.forget(told)

    def holds(self, taker: BodyOwner, size: int, *, anew: bool) -> None:
        """Note what `taker` truly holds now; `anew` says that its last frame became whole."""
        if taker in self._promised:
            return
        more = size - self.held.get(taker, 0)
        if more:
            self._add(taker, more)
        if anew and taker in self._since:
            self._since[taker] = self._loop.time()
        if more < 0:
            # Else nothing became free: a small frame that came whole costs the same whoever waits.
            self._serve()

    def forget(self, taker: BodyOwner) -> None:
        """A connection is gone."""
        self._small.discard(taker)
        self._large.discard(taker)
        self._promised.pop(taker, None)
        self._backlog.forget(taker.room_came)
        self._add(taker, -self.held.get(taker, 0))
        self._serve()

    def _fits(self, size: int) -> bool:
        most = INTAKE_BYTES_MAX + (0 if _is_large(size) else INTAKE_BYTES_OF_SMALL)
        return self.bytes_held + size <= most

    def _may_have(self, taker: BodyOwner, size: int) -> bool:
        """Whether there is room, and the caller has not had its share."""
        return self._fits(size) and self._in_share(taker.place, size)

    def _in_share(self, place: str, size: int) -> bool:
        held = self._held_at[place] if place else 0
        return not held or held + size <= INTAKE_BYTES_MAX // INTAKE_SHARE

    def _next(self, line: _MemoryLine) -> BodyOwner | None:
        """The first in a line whose caller has not had its share."""
        return line.first(self._in_share) if len(line) else None

    def _add(self, taker: BodyOwner, size: int) -> None:
        self.bytes_held += size
        # A caller that proves who it is meanwhile gives back at the place where it took.
        place = self._at.setdefault(taker, taker.place)
        if place:
            self._held_at.add(place, size)
        held = self.held.get(taker, 0) + size
        if held:
            self.held[taker] = held
            self._since.setdefault(taker, self._loop.time())
        else:
            self.held.pop(taker, None)
            self._since.pop(taker, None)
            self._at.pop(taker, None)

    def _serve(self) -> None:
        """Give what is free to those in line, in their order."""
        for line in (self._small, self._large):
            while (taker := self._next(line)) is not None and self._fits(line.size(taker)):
                size = line.discard(taker)
                self._promised[taker] = size
                self._add(taker, size)
                # Not at once: it may be served in the middle of what another one does.
                self._loop.call_soon(taker.room_came)

    def _watch(self) -> None:
        if self._timer is None and self._since:
            self._timer = self._loop.call_at(self._loop.time() + FRAME_LOOK_S, self._hurry)

    def _hurry(self) -> None:
        """End those whose frames come too slowly, if others still wait for their room."""
        self._timer = None
        now = self._loop.time()
        for taker, since in list(self._since.items()):
            wanted = (now - since - FRAME_GRACE_S) / (FRAME_S - FRAME_GRACE_S)
            if (len(self._small) or len(self._large)) and taker.progress < wanted:
                self._since[taker] = now
                taker.hold_up(
                    f"at its rate one frame takes longer than {FRAME_S:.0f} s, and others wait for"
                    " its room"
                )
        if len(self._small) or len(self._large):
            self._watch()

    def close(self) -> None:
        """Hurry nobody any more."""
        if self._timer is not None:
            self._timer.cancel()


class _MemoryLine:
    """Connections that wait for memory, in the order in which they came.

    A question about the first one looks at one connection of each caller, however many it has.
    """

    def __init__(self) -> None:
        self._takers: Places[BodyOwner] = Places()
        self.asked: dict[BodyOwner, tuple[int, int]] = {}
        """By connection: its number in line, and the bytes."""
        self._next_number = 0

    def __len__(self) -> int:
        return len(self.asked)

    def add(self, taker: BodyOwner, size: int) -> None:
        """Have a connection wait for `size` bytes, behind the others if it is new."""
        if taker in self.asked:
            self.asked[taker] = (self.asked[taker][0], size)
            return
        self.asked[taker] = (self._next_number, size)
        self._next_number += 1
        self._takers.add(taker, taker.place)

    def discard(self, taker: BodyOwner) -> int:
        """Have a connection wait no more; the bytes that it asked for."""
        self._takers.discard(taker)
        return self.asked.pop(taker, (0, 0))[1]

    def size(self, taker: BodyOwner) -> int:
        """The bytes that a connection asked for."""
        return self.asked[taker][1]

    def first(self, in_share: Callable[[str, int], bool]) -> BodyOwner | None:
        """The connection that has waited longest, of the callers that may have more."""
        may = [
            (self.asked[taker][0], taker)
            for place, taker in self._takers.firsts()
            if in_share(place, self.size(taker))
        ]
        return min(may, key=lambda each: each[0])[1] if may else None


def _is_large(size: int) -> bool:
    return size > INTAKE_SMALL_BYTES_MAX
