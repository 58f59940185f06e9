"""One accepted connection, as the manager knows it, and a receive that waits on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dray.model.callers import Caller
from dray.model.ids import Incarnation
from dray.wire.frames import LargeReceive, Receive, ReceiveTransaction

if TYPE_CHECKING:
    from dray.delivery.keys import ConnectionKey


class Session:
    """One accepted connection. `role` is empty until its Hello."""

    def __init__(self, number: int, caller: Caller) -> None:
        """Begin before the Hello; the daemon vouches for `caller`."""
        self.number = number
        self.caller = caller
        self.role = ""
        self.peer_id = ""
        self.incarnations: list[Incarnation] = []
        """For a peer manager: the incarnations of its store, the present one last."""
        self.key: ConnectionKey | None = None
        """For a peer manager: the secret by which it shows its key."""
        self.proven: set[int] = set()
        """Streams of which it has shown on this connection that they are its own."""
        self.transactions: dict[int, None] = {}
        """Numbers of those that are open on it, in the order in which they began."""
        self.streams: dict[int, int] = {}
        """Streams a peer manager has opened, and the queue each leads to."""
        self.questions: dict[int, int] = {}
        """By stream, the number of the last question that was asked when it was opened."""
        self.waiting_at: dict[int, None] = {}
        """Queues, by number, at which a receive waited, and perhaps still waits."""
        self.told: dict[int, int] = {}
        """How far the source of each stream was told of its messages on this connection."""
        self.opened: set[int] = set()
        """Sub-queues, by number, that were opened on it."""
        self.ended: set[int] = set()
        """Streams that have ended on a newer connection: what still comes of them on this one is
        not taken."""
        self.granted: set[tuple[str, int]] = set()
        """Rights, and numbers of queues, that its caller was found to have at them."""
        self.kept: set[str] = set()
        """Journals and dead-letter queues that were read on it."""
        self.posts_to: set[str] = set()
        """Queues to which its caller was found to be allowed to post."""
        self.boxes: set[str] = set()
        """Boxes of file transfers that are attached on this connection."""

    @property
    def incarnation(self) -> int:
        """For a peer manager: the number of its store's present incarnation; 0 if it names none."""
        return self.incarnations[-1].number if self.incarnations else 0


class Waiter(NamedTuple):
    """A receive that found nothing yet."""

    session: Session
    request_id: int
    head: Receive | LargeReceive | ReceiveTransaction
    deadline: float | None
