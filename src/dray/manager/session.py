"""One accepted connection, as the manager knows it, and the receives that wait at a queue."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dray.delivery.keys import ConnectionKey
from dray.model.callers import Caller
from dray.model.ids import Incarnation
from dray.model.places import Amounts
from dray.wire.large_frames import LargeReceive
from dray.wire.message_frames import Receive, ReceiveTransaction


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
        self.wanted: dict[int, str] = {}
        """By stream, the queue that was wanted when it was opened, unless it was refused since."""
        self.questions: dict[int, int] = {}
        """By stream, the number of the last question that was asked when it was opened."""
        self.heard: dict[int, int] = {}
        """By stream, up to which ordinal its source has heard confirmations of another store, until
        the first message comes."""
        self.waiting_at: dict[int, None] = {}
        """Queues, by number, at which a receive waited, and perhaps still waits."""
        self.told: dict[int, int] = {}
        """The last message of each stream that its source was told of on this connection."""
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


class IdKind(enum.Enum):
    """The ids by which a receive may name a message."""

    MESSAGE = enum.auto()
    CORRELATION = enum.auto()


@dataclass(slots=True, eq=False)
class Waiter:
    """A receive that found nothing yet."""

    session: Session
    request_id: int
    head: Receive | LargeReceive | ReceiveTransaction
    deadline: float | None
    id: tuple[IdKind, int] | None = None
    """The id by which it names a message, if it does: which kind of id, and its hash."""
    place: str = ""
    """The caller of whose share it takes a part; one that proves who it is later gives it back."""


class WaitingReceives:
    """The receives that wait at one queue, in the order in which they came.

    A receive that names a message stands under its id, so that an arrival looks at no receive that
    waits for another message.
    """

    def __init__(self) -> None:
        self.places: dict[Waiter, int] = {}
        """All that wait, in their order."""
        self._last_place = 0
        self._without_id: dict[Waiter, None] = {}
        self._by_id: dict[IdKind, dict[int, dict[Waiter, None]]] = {}
        self._of_place: Amounts[str] = Amounts()

    def __iter__(self) -> Iterator[Waiter]:
        """Go through all of them; none may come or go meanwhile."""
        return iter(self.places)

    def __len__(self) -> int:
        """The number of those that wait."""
        return len(self.places)

    @property
    def last(self) -> Waiter:
        """The one that came last; there must be one."""
        return next(reversed(self.places))

    @property
    def kinds(self) -> tuple[IdKind, ...]:
        """The kinds of ids by which some of them name a message."""
        return tuple(self._by_id)

    def add(self, waiter: Waiter) -> None:
        """Let one more wait, behind all others."""
        self._last_place += 1
        self.places[waiter] = self._last_place
        waiter.place = waiter.session.caller.place
        self._of_place.add(waiter.place, 1)
        self._beside(waiter)[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        """Let one wait no longer."""
        del self.places[waiter]
        self._of_place.add(waiter.place, -1)
        beside = self._beside(waiter)
        del beside[waiter]
        if waiter.id is not None and not beside:
            kind, key = waiter.id
            del self._by_id[kind][key]
            if not self._by_id[kind]:
                del self._by_id[kind]

    def count_of(self, place: str) -> int:
        """The number of those of one caller that wait."""
        return self._of_place[place]

    def that_may_take(self, arrived: Mapping[IdKind, set[int] | None]) -> list[Waiter]:
        """Give the receives that name no message, and the ones that name one of the ids, in order.

        `arrived` has the keys of each kind; None stands for every key of the kind.
        """
        found = list(self._without_id)
        for kind, keys in arrived.items():
            by_key = self._by_id.get(kind, {})
            for key in by_key if keys is None else keys & by_key.keys():
                found += by_key[key]
        return sorted(found, key=self.places.__getitem__) if arrived else found

    def _beside(self, waiter: Waiter) -> dict[Waiter, None]:
        if waiter.id is None:
            return self._without_id
        kind, key = waiter.id
        return self._by_id.setdefault(kind, {}).setdefault(key, {})
