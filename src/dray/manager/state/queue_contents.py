"""The messages in a manager's queues: how facts bring them in, move them, and take them out.

Each change counts bytes against the quotas, notes when messages expire, and releases the places of
records that no queue refers to any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dray.manager.entries import (
    ENTRY_BYTES,
    TAIL_BYTES,
    entries_in,
    expires_us_of,
    expiries_in,
    extent_of,
    extents_of,
    lookup_id_of,
    moved_tail,
    places_in,
    runs_in,
    tail_of,
    unpack_places,
)
from dray.manager.facts import (
    Delivered,
    LargeMoved,
    PositionsReserved,
    PurgePending,
    PutBack,
    Relocated,
    positions_in,
    unpack_lookups,
)
from dray.manager.queue import QueueTable, StoredQueue
from dray.manager.state.deadlines import Expiries
from dray.manager.state.ledger import Ledger
from dray.store.heap.heap import Extent


class QueueContents:
    """All queues, and what they hold."""

    def __init__(self) -> None:
        self.queues = QueueTable()
        self.ledger = Ledger()
        self.expiries = Expiries()
        self.released: Callable[[Extent], None] = _let_go
        """Called with the place of every record that leaves the state."""

    def put_aside(self, unreadable: frozenset[Extent]) -> None:
        """Keep messages whose records cannot be read out of everyone's way, in this incarnation.

        So is one that stayed behind in an outgoing queue whose successors were delivered in an
        earlier incarnation without it: it comes too late for its stream.
        """
        for queue in self.queues:
            floor = queue.stream.floor if queue.stream is not None else 0
            first = queue.index.first()
            if first is None or not (unreadable or lookup_id_of(first) <= floor):
                continue
            for packed in list(queue.index.available()):
                if lookup_id_of(packed) <= floor or extent_of(tail_of(packed)) in unreadable:
                    queue.index.put_aside(packed)

    def admit_express(self, queue: StoredQueue, tails: bytes, first: int) -> None:
        """Express messages join a queue, in this incarnation only, from a reserved position on."""
        self._enter(queue, tails, first)

    def drop_express(
        self, queue: StoredQueue, lookup_ids: Iterable[int], keep: frozenset[Extent] = frozenset()
    ) -> None:
        """Express messages leave a queue; their records are given up, but for those to `keep`."""
        self._drop(queue, lookup_ids, keep)

    def reserve_positions(self, fact: PositionsReserved) -> None:
        """Pass over positions; a stream counts them as taken, for what takes them is in no fact."""
        queue = self.queues.get(fact.queue)
        if queue is not None and fact.upto > queue.next_lookup_id:
            first, queue.next_lookup_id = queue.next_lookup_id, fact.upto
            if queue.stream is not None:
                queue.stream.admitted(first, fact.upto - 1, fact.when_us)

    def relocate(self, fact: Relocated) -> None:
        """Messages lie elsewhere in the heap now."""
        queue = self.queues.get(fact.queue)
        places = unpack_places(fact.places)
        for lookup_id, place in zip(unpack_lookups(fact.lookups), places, strict=True):
            old = queue.index.relocate(lookup_id, place) if queue is not None else None
            self.released(place if old is None else old)

    def purge_later(self, fact: PurgePending) -> None:
        """Messages go as soon as no receiver holds them."""
        queue = self.queues.get(fact.queue)
        if queue is not None:
            queue.purge_pending.update(unpack_lookups(fact.lookups))

    def move_large(self, fact: LargeMoved) -> None:
        """The messages of a large message move to another queue."""
        queue, target = self.queues.numbered(fact.queue), self.queues.numbered(fact.target)
        positions = list(positions_in(fact.runs))
        found = filter(None, map(queue.index.find, positions))
        tails = b"".join([moved_tail(tail_of(packed)) for packed in found])
        self._drop(queue, positions, frozenset(extents_of(tails)))
        self._admit(target, tails, fact.when_us)

    def put_back(self, fact: PutBack) -> None:
        """A receive of messages was undone: count it."""
        queue = self.queues.get(fact.queue)
        if queue is not None:
            queue.index.count_aborts(unpack_lookups(fact.lookups))

    def _admit(self, queue: StoredQueue, tails: bytes, when_us: int) -> None:
        first = queue.next_lookup_id
        queue.next_lookup_id = self._enter(queue, tails, first)
        if queue.stream is not None and queue.next_lookup_id > first:
            queue.stream.admitted(first, queue.next_lookup_id - 1, when_us)

    def _enter(self, queue: StoredQueue, tails: bytes, first: int) -> int:
        """Put messages into a queue from a position on; gives the position behind the last."""
        before = queue.index.byte_count
        entries = queue.index.add_run(tails, first)
        if len(entries) != ENTRY_BYTES or expires_us_of(entries):
            for expires_us, lookup_id in expiries_in(entries):
                self.expiries.add(expires_us, queue.number, lookup_id)
        self.ledger.stored[queue.account] += queue.index.byte_count - before
        return first + len(tails) // TAIL_BYTES

    def _drop(self, queue: StoredQueue, lookup_ids: Iterable[int], keep: frozenset[Extent]) -> None:
        """Take messages out of a queue, and their records out of the heap unless they are kept."""
        before = queue.index.byte_count
        if queue.purge_pending:
            lookup_ids = list(lookup_ids)
            queue.purge_pending.difference_update(lookup_ids)
        entries = queue.index.remove(lookup_ids)
        queue.note_gone(entries)
        if queue.stream is not None:
            for entry in entries_in(entries):
                queue.truncated_transactions.left(entry)
        self._release_places(entries, keep)
        self.ledger.stored[queue.account] += queue.index.byte_count - before

    def _take_delivered(self, queue: StoredQueue, fact: Delivered) -> None:
        """Take out the messages up to a position, but for those that stay."""
        before = queue.index.byte_count
        for lookup_id in unpack_lookups(fact.stayed):
            # From an earlier incarnation; since this start they are put aside already.
            unread = queue.index.find(lookup_id)
            if unread is not None:
                queue.index.put_aside(unread)
        gone = queue.index.take_upto(fact.upto)
        self.ledger.stored[queue.account] += queue.index.byte_count - before
        self._release_places(gone, frozenset(extents_of(fact.awaiting)))

    def _release_places(self, entries: bytes, keep: frozenset[Extent] = frozenset()) -> None:
        """Give up the records of packed entries, but for those to keep; neighbours in one piece."""
        places: Iterable[Extent] = runs_in(entries)
        if keep:
            places = [place for place in places_in(entries) if place not in keep]
        for place in places:
            self.released(place)

    def _release_all(self, tails: bytes) -> None:
        for extent in extents_of(tails):
            self.released(extent)


def _let_go(_extent: Extent) -> None:
    """In replay nothing is freed: what is alive at its end decides."""
