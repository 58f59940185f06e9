"""The roles in a daemon: one decides, the other performs effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from dray.machine import Core
from dray.manager.events import Effect, Event
from dray.manager.notices import Notice
from dray.store.log.checkpoint import Snapshots
from dray.wire.stream import Frame

_Connection = TypeVar("_Connection", contravariant=True)


class Deciding(Core[Event, Effect], Protocol):
    """The part of a manager that turns need: a core, which wants Tick at its deadline."""

    def snapshot(self) -> Snapshots:
        """Everything, for a checkpoint."""
        ...

    def notices(self) -> list[Notice]:
        """Notices for the operator since the last call."""
        ...


class Performing(Protocol):
    """Carries out what was decided."""

    def perform(self, effects: Iterable[Effect]) -> None:
        """Do it all now; takes over the pins of their extents."""
        ...

    def reconsider(self) -> None:
        """Stop reading everywhere, or go on, as `Turns.overfull` now says."""
        ...

    def described(self, session: int) -> str:
        """The caller of a session, for the log."""
        ...

    def failed(self, error: Exception) -> None:
        """Nothing more can be made durable: end."""
        ...


class FrameOwner(Protocol[_Connection]):
    """Takes the events of a connection or session."""

    def frame_came(self, connection: _Connection, frame: Frame) -> None:
        """A whole frame; its body is valid during the call only."""
        ...

    def connection_closed(self, connection: _Connection, reason: str) -> None:
        """It is over. Told once, also after `finish`."""
        ...

    def reads(self) -> None:
        """Frames are about to be passed on; `has_read` follows."""
        ...

    def has_read(self) -> None:
        """They were, as far as the connection's share of a pass went."""
        ...

    @property
    def overfull(self) -> bool:
        """Whether so much waits for the disk that nothing more should come."""
        ...
