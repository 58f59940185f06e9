"""Work on more messages than one turn may tell of: done portion by portion, each in a fact.

A purge, a deletion or an expiry may be of a million messages, and the log may be of 16 KiB. The
facts of a turn must fit one group of the log; so such work continues with the next tick when the
turn has enough, and its asker is answered when it ends. Work that looks at many messages for few
facts says when a turn has looked at enough.

    begun      in the turn that asks for it: as many portions as fit; mostly that is all
    parked     the group is full, or a turn of looking is over: goes on at the next tick at which
               there is room again
    ended      answered
    crash      what was done stays done, the rest stays as it was, and who asked does not know

Works go on in the order in which they were begun. Each looks again, after each of its portions, at
what has become of its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from dray.errors import DrayError, StorePoisoned
from dray.manager.context import Context
from dray.manager.notices import NoticeKind
from dray.manager.session import Session

Steps = Iterator[bool | None]
"""Each step records one fact at the most; one that gives True leaves the rest to the next tick, for
it has taken long. An asker is answered with the frame that the steps return, if they return one."""


class Work(NamedTuple):
    """Something begun."""

    steps: Steps
    asker: tuple[Session, int] | None
    """The session that asked for it, and the number of its request."""


class Works:
    """Work that has begun and not ended, in the order in which it was begun."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.begun: deque[Work] = deque()
        """Work that is parked."""

    def carry_on(self, steps: Steps, asker: tuple[Session, int] | None = None) -> None:
        """Do a work, now as far as the turn has room, the rest with the next ticks.

        A later error is told to the asker, or to the operator.
        """
        self.begun.append(Work(steps, asker))
        if len(self.begun) == 1:
            self._go_on_with_first(now=True)

    def begin(self, steps: Steps) -> None:
        """Do some of a work now, also while others are parked, and park the rest behind them.

        Errors are raised as long as it is not parked.
        """
        while True:
            try:
                if next(steps) or self.context.room.has_said_enough:
                    break
            except StopIteration:
                return
        self.begun.append(Work(steps, None))

    def go_on(self) -> None:
        """Go on with what was parked, as far as there is room."""
        while self.begun and not self.context.room.has_said_enough:
            if self._go_on_with_first():
                return

    def _go_on_with_first(self, *, now: bool = False) -> bool:
        """Do some of the first work; whether it is parked."""
        context = self.context
        steps, asker = self.begun[0]
        try:
            while not (next(steps) or context.room.has_said_enough):
                pass
        except StopIteration as ended:
            self.begun.popleft()
            if asker is not None and ended.value is not None:
                context.answer(*asker, ended.value)
            return False
        except DrayError as error:
            self.begun.popleft()
            if now or isinstance(error, StorePoisoned):
                raise
            if asker is not None:
                context.refuse(*asker, error)
            else:
                sentence = f"work that was done in portions stopped before its end: {error}"
                context.notices.add(NoticeKind.WORK_STOPPED, "storage", sentence)
            return False
        return True
