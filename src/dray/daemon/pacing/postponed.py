"""Requests that came while the log was full: kept in order, and decided when there is room again.

A checkpoint makes room, in some milliseconds mostly; on a full disk it may be a long time. Nobody
is read from meanwhile, so what is here was read before: the rest of one read, and single events
that come from elsewhere (a file was copied, a link is up, somebody hung up).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from dray.machine import Tick
from dray.manager.events import Effect, Event, LinkFrame, Request
from dray.wire.stream import Frame


class Follow(NamedTuple):
    """Effects of nobody's event, to be done behind what was decided before."""

    effects: tuple[Effect, ...]


Item: TypeAlias = Event | Follow


class Postponed:
    """A line of events and effects."""

    def __init__(self) -> None:
        self.line: deque[Item] = deque()
        """Events and effects that stand in it."""
        self._ticks = 0

    def add(self, item: Item) -> None:
        """Put it behind the others; its body is copied, for its memory is used again at once.

        One look at the time is enough, however often its timer went off.
        """
        if isinstance(item, Tick):
            if self._ticks:
                return
            self._ticks += 1
        elif isinstance(item, Request | LinkFrame):
            item = item._replace(frame=_on_its_own(item.frame))
        self.line.append(item)

    def take(self) -> Item:
        """The first of them."""
        item = self.line.popleft()
        if isinstance(item, Tick):
            self._ticks -= 1
        return item

    def give_up(self) -> Iterator[Request]:
        """Empty the line, for nothing will be decided any more; the requests that were in it."""
        line, self.line = self.line, deque()
        return (item for item in line if isinstance(item, Request))


def _on_its_own(frame: Frame) -> Frame:
    return frame._replace(body=memoryview(bytes(frame.body)))
