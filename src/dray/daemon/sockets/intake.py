"""How much memory all connections of a daemon may hold for frames that are not whole yet.

A frame's length is known when 24 bytes of it have come, and its memory is taken then: without a
bound, ten thousand callers who each begin a frame and say no more would hold forty gigabytes. So a
connection asks; when the share is used up it stands in line and is not read from, which leaves what
comes in the kernel's own buffers and slows its sender down.

Small frames have a share that large ones leave free, so that requests pass while large bodies
stand in line. A connection that holds its share too long while others wait is ended: whoever
sends a frame at all sends it on. Without a line nobody is hurried.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from dray.daemon.limits import (
    FRAME_S,
    INTAKE_BYTES_MAX,
    INTAKE_BYTES_OF_SMALL,
    INTAKE_SMALL_BYTES_MAX,
    READ_BYTES_WHILE_TIGHT,
)
from dray.daemon.pacing.backlog import DiskBacklog
from dray.wire.stream import READ_BYTES


class BodyOwner(Protocol):
    """A connection."""

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
        self._held: dict[BodyOwner, int] = {}
        self._since: dict[BodyOwner, float] = {}
        self._small: dict[BodyOwner, int] = {}
        self._large: dict[BodyOwner, int] = {}
        self._promised: dict[BodyOwner, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.bytes_held = 0

    @property
    def read_bytes(self) -> int:
        """How much to read at a time: while some wait for memory, little is read ahead of it."""
        return READ_BYTES_WHILE_TIGHT if self._small or self._large else READ_BYTES

    def grant(self, taker: BodyOwner, size: int) -> bool:
        """Give `size` bytes more, or put `taker` into the line."""
        if self._promised.pop(taker, 0) == size:
            return True
        if _is_large(size) and not self._backlog.admits(taker.room_came):
            return False
        line = self._large if _is_large(size) else self._small
        if line or not self._fits(size):
            line[taker] = size
            self._watch()
            return False
        self._add(taker, size)
        return True

    def holds(self, taker: BodyOwner, size: int, *, anew: bool) -> None:
        """Note what `taker` truly holds now; `anew` says that its last frame became whole."""
        if not size and not self._held:
            # Small frames that came whole, and nobody who waits.
            return
        if taker not in self._promised:
            self._add(taker, size - self._held.get(taker, 0))
            if anew and taker in self._since:
                self._since[taker] = self._loop.time()
            self._serve()

    def forget(self, taker: BodyOwner) -> None:
        """A connection is gone."""
        self._small.pop(taker, None)
        self._large.pop(taker, None)
        self._promised.pop(taker, None)
        self._backlog.forget(taker.room_came)
        self._add(taker, -self._held.get(taker, 0))
        self._serve()

    def _fits(self, size: int) -> bool:
        most = INTAKE_BYTES_MAX + (0 if _is_large(size) else INTAKE_BYTES_OF_SMALL)
        return self.bytes_held + size <= most

    def _add(self, taker: BodyOwner, size: int) -> None:
        self.bytes_held += size
        held = self._held.get(taker, 0) + size
        if held:
            self._held[taker] = held
            self._since.setdefault(taker, self._loop.time())
        else:
            self._held.pop(taker, None)
            self._since.pop(taker, None)

    def _serve(self) -> None:
        """Give what is free to those in line, in their order."""
        for line in (self._small, self._large):
            while line and self._fits(next(iter(line.values()))):
                taker, size = next(iter(line.items()))
                del line[taker]
                self._promised[taker] = size
                self._add(taker, size)
                # Not at once: it may be served in the middle of what another one does.
                self._loop.call_soon(taker.room_came)

    def _watch(self) -> None:
        if self._timer is None and self._since:
            at = min(self._since.values()) + FRAME_S
            self._timer = self._loop.call_at(at, self._hurry)

    def _hurry(self) -> None:
        """End those who held their share too long, if others still wait for it."""
        self._timer = None
        late = self._loop.time() - FRAME_S
        for taker, since in list(self._since.items()):
            if (self._small or self._large) and since <= late:
                self._since[taker] = self._loop.time()
                taker.hold_up(
                    f"one frame took longer than {FRAME_S:.0f} s and others wait for its room"
                )
        if self._small or self._large:
            self._watch()

    def close(self) -> None:
        """Hurry nobody any more."""
        if self._timer is not None:
            self._timer.cancel()


def _is_large(size: int) -> bool:
    return size > INTAKE_SMALL_BYTES_MAX
