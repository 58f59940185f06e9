"""The one shape of a core: events and the time go in, effects come out, nothing else happens.

A core reads no clock, opens no file, draws no random number and never waits. Its caller passes
`now` (seconds since the epoch) with every event and asks `deadline()` when to call again if nothing
arrives before.

A core with states is a `Machine`. Its table decides everything: in a state, on an event, the first
transition whose condition holds names the action to run and the next state. Conditions and actions
are functions of the core. The documentation is drawn from the same table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Effect = TypeVar("Effect", covariant=True)
Owner = TypeVar("Owner")
Occurred = TypeVar("Occurred")
Wanted = TypeVar("Wanted")
S = TypeVar("S", bound=enum.Enum)


class Tick(NamedTuple):
    """The event that the deadline has come, or may have."""


class Core(Protocol[Event, Effect]):
    """A core: it decides. The shell around it acts."""

    def handle(self, event: Event, now: float) -> Sequence[Effect]:
        """Take one event; say what is to be done about it."""
        ...

    def deadline(self) -> float | None:
        """When to call again if nothing happens, or None for never."""
        ...


class Transition(NamedTuple):
    """One line of a state table; it stands for one line for each of its states."""

    states: tuple[enum.Enum, ...]
    event: type
    when: Callable[..., bool]
    does: Callable[..., Any]
    next: enum.Enum | None
    """The next state; None keeps the state."""


class Step(NamedTuple):
    """One line of a table whose states nobody keeps: they follow from what is there.

    A test brings a manager into the state, lets the event happen, and requires that of all
    functions of the table exactly these ran, and that the next state follows.
    """

    state: str
    event: str
    does: tuple[Callable[..., Any], ...]
    next: str


def always(_core: object, _event: object, _now: float) -> bool:
    """Hold in every case: the last line of a state and an event."""
    return True


def nothing(_core: object, _event: object, _now: float) -> list[Any]:
    """Do nothing."""
    return []


def on(  # noqa: PLR0917 - a line of a table reads from left to right
    states: S | tuple[S, ...],
    event: type[Occurred],
    when: Callable[[Owner, Occurred, float], bool],
    does: Callable[[Owner, Occurred, float], Sequence[Wanted]],
    next: S | None = None,  # noqa: A002 - the column of that name
) -> Transition:
    """Write one line of a table."""
    return Transition(states if isinstance(states, tuple) else (states,), event, when, does, next)


def but(states: tuple[S, ...], *left_out: S) -> tuple[S, ...]:
    """The states without some of them."""
    return tuple(state for state in states if state not in left_out)


class Machine(Generic[S, Occurred, Wanted]):
    """A core whose table decides what it does."""

    table: ClassVar[tuple[Transition, ...]] = ()
    _steps: ClassVar[_Steps]

    def __init_subclass__(cls) -> None:
        """Compile the table; a subclass may override its conditions and actions."""
        super().__init_subclass__()
        if cls.table:
            cls.run(cls.table)

    @classmethod
    def run(cls, table: tuple[Transition, ...]) -> None:
        """Take every decision from a table; a state without a line is final."""
        cls.table = table
        cls._steps = _compiled(table, cls)

    def __init__(self, state: S) -> None:
        """Begin in a state."""
        self._stage = state
        self._here = self._steps[state]

    @property
    def stage(self) -> S:
        """The state in which the machine is."""
        return self._stage

    def handle(self, event: Occurred, now: float) -> list[Wanted]:
        """Take one event: run the first transition whose condition holds."""
        for when, does, goal, there in self._here[type(event)]:
            if when is None or when(self, event, now):
                if there is not None:
                    self._stage = goal  # type: ignore[assignment]  # states of one kind
                    self._here = there
                return [] if does is None else does(self, event, now)
        raise AssertionError("the last line of each state and event holds always")


class _Compiled(NamedTuple):
    """One line for one state, so that `handle` looks up no state and calls nothing in vain."""

    when: Callable[..., bool] | None
    """None holds always."""
    does: Callable[..., Any] | None
    """None does nothing."""
    goal: enum.Enum | None
    there: _Lines | None
    """The lines of the next state; None keeps the state."""


_Lines = dict[type, tuple[_Compiled, ...]]
_Steps = dict[enum.Enum, _Lines]


def _compiled(table: Iterable[Transition], owner: type) -> _Steps:
    """Look up the lines by state and event; every case must have a line."""
    table = tuple(table)
    events = dict.fromkeys(line.event for line in table)
    states = type(table[0].states[0])
    begun = {state for line in table for state in line.states}
    steps: _Steps = {state: {} for state in states}
    for state, by_event in steps.items():
        for event in events:
            lines = [line for line in table if state in line.states and line.event is event]
            if state not in begun:
                lines = [on(state, event, always, nothing)]
            last = [line.when is always for line in lines]
            assert last.count(True) == 1, f"{state} on {event.__name__}: not one line holds always"
            assert last[-1], f"{state} on {event.__name__}: a line behind the last one"
            by_event[event] = tuple(_compiled_line(line, state, owner, steps) for line in lines)
    return steps


def _compiled_line(line: Transition, state: enum.Enum, owner: type, steps: _Steps) -> _Compiled:
    when = None if line.when is always else _of(owner, line.when)
    does = None if line.does is nothing else _of(owner, line.does)
    goal = None if line.next is state else line.next
    return _Compiled(when, does, goal, None if goal is None else steps[goal])


def _of(owner: type, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of that name in the class of the owner; any other function as it is."""
    return getattr(owner, function.__name__, function)
