"""The roles in a daemon: one decides, the other performs effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from dray.machine import Core
from dray.manager.events import Body, Effect, Event, Into, Peer
from dray.manager.notices import Notice
from dray.model.callers import Caller
from dray.model.ids import ManagerId
from dray.store.heap.heap import Extent
from dray.store.log.checkpoint import Snapshots
from dray.wire.frames import Hello
from dray.wire.head import Head
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


class Serving(Deciding, Protocol):
    """The part of a manager that a server needs."""

    @property
    def id(self) -> ManagerId:
        """Its id, for ever."""
        ...

    @property
    def name(self) -> str:
        """The name for people."""
        ...

    @property
    def knows_tokens(self) -> bool:
        """Whether a caller can show a token."""
        ...

    def hello(self, peer: Peer) -> Hello:
        """How it begins a conversation with another manager."""
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


class ServedConnection(Protocol):
    """The part of an accepted connection that a server needs."""

    caller: Caller | None

    def __hash__(self) -> int:
        """Each is one of its own."""
        ...

    def start(self) -> None:
        """Take frames."""
        ...

    def send(
        self, head: Head, request_id: int = 0, body: Body = (), *, in_kernel: bool = False
    ) -> None:
        """Answer with a frame whose extents are pinned; `flush` makes it go."""
        ...

    def copy(self, head: Head, request_id: int, extent: Extent, into: Into) -> None:
        """Copy a pinned extent into the file that a request lent, then answer."""
        ...

    def flush(self) -> None:
        """Let go what was answered."""
        ...

    def finish(self, *, linger: bool = True) -> None:
        """Take no more frames, give what is answered, then end."""
        ...

    def abort(self, reason: str) -> None:
        """End at once."""
        ...

    def reconsider(self) -> None:
        """Take frames, or wait, as the owner now says."""
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
