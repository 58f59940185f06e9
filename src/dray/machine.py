"""The one shape of a core: events and the time go in, effects come out, nothing else happens.

A core reads no clock, opens no file, draws no random number and never waits. Whoever drives it
passes `now` (seconds since the epoch) with every event and asks `deadline()` when to call again if
nothing arrives before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Effect = TypeVar("Effect", covariant=True)


class Core(Protocol[Event, Effect]):
    """What decides. The shell around it acts."""

    def handle(self, event: Event, now: float) -> Sequence[Effect]:
        """Take one event; say what is to be done about it."""
        ...

    def deadline(self) -> float | None:
        """When to call again if nothing happens, or None for never."""
        ...
