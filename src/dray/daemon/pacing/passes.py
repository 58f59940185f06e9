"""The pass: events that are decided together, before their facts are written as one group.

As a rule the loop comes round and ends it. If a session has the daemon to itself, the pass ends as
soon as its connection was read.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from dray.machine import Machine, always, nothing, on


class Decided(NamedTuple):
    """The manager decided about something."""


class ReadingBegan(NamedTuple):
    """A connection is read: more will be decided at once."""


class ReadingEnded(NamedTuple):
    """All that came on a connection was delivered."""


class LoopCameRound(NamedTuple):
    """The loop has done everything that was ready when the end was scheduled."""


class GivenUp(NamedTuple):
    """Nothing more can be made durable."""


class PassState(enum.Enum):
    """From the first decision of a pass to its end."""

    EMPTY = "nothing was decided"
    READING = "a connection is read, and nothing was decided yet"
    DECIDING = "a connection is read, and something was decided"
    DUE = "the loop will come round and end it"
    OVER = "there is no other"


DECIDED, READING_BEGAN, READING_ENDED = Decided(), ReadingBegan(), ReadingEnded()
_CAME_ROUND = LoopCameRound()


class Pass(Machine[PassState, Any, Any]):
    """Ends each pass, by the table at the end of this module."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        is_lone: Callable[[float], bool],
        ended: Callable[[], None],
    ) -> None:
        """Begin with nothing decided; `ended` is called at the end of each pass."""
        super().__init__(PassState.EMPTY)
        self._loop = loop
        self._lone = is_lone
        self._ended = ended
        self._scheduled: asyncio.Handle | None = None
        self.is_due = False
        """Whether the loop will come round; until then only the end of a lone reading matters."""

    @property
    def is_open(self) -> bool:
        """Whether something was decided since the last pass."""
        return self._stage in _OPEN

    def is_lone(self, _event: ReadingEnded, now: float) -> bool:
        """No other session is likely to come."""
        return self._lone(now)

    def schedule(self, _event: object, _now: float) -> list[Any]:
        """Have the loop come round."""
        self._scheduled = self._loop.call_soon(self._came_round)
        self.is_due = True
        return []

    def end(self, _event: object, _now: float) -> list[Any]:
        """Release the effects that wait for nothing, and begin the sync."""
        self.is_due = False
        self._ended()
        return []

    def end_early(self, _event: object, _now: float) -> list[Any]:
        """The same; the loop need not come round."""
        assert self._scheduled is not None, "an end that is due was scheduled"
        self._scheduled.cancel()
        self.is_due = False
        self._ended()
        return []

    def _came_round(self) -> None:
        self.handle(_CAME_ROUND, self._loop.time())


_EMPTY, _READING = PassState.EMPTY, PassState.READING
_DECIDING, _DUE = PassState.DECIDING, PassState.DUE
_OPEN = (_DECIDING, _DUE)
_EVERY = (_EMPTY, _READING, *_OPEN)
PASS: Final = (
    on(_EMPTY, Decided, always, Pass.schedule, _DUE),
    on(_READING, Decided, always, nothing, _DECIDING),
    on(_OPEN, Decided, always, nothing),
    on(_EMPTY, ReadingBegan, always, nothing, _READING),
    on((_READING, *_OPEN), ReadingBegan, always, nothing),
    on(_DECIDING, ReadingEnded, Pass.is_lone, Pass.end, _EMPTY),
    on(_DECIDING, ReadingEnded, always, Pass.schedule, _DUE),
    on(_DUE, ReadingEnded, Pass.is_lone, Pass.end_early, _EMPTY),
    on(_DUE, ReadingEnded, always, nothing),
    on((_EMPTY, _READING), ReadingEnded, always, nothing, _EMPTY),
    on(_DUE, LoopCameRound, always, Pass.end, _EMPTY),
    on((_EMPTY, _READING, _DECIDING), LoopCameRound, always, nothing),
    on(_EVERY, GivenUp, always, nothing, PassState.OVER),
)
Pass.run(PASS)
