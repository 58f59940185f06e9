"""The durable state of a manager: made by facts, and by nothing else.

`apply` is the only code that changes it, while running and in replay, so what a crash brings back
is what was. Every choice a fact leaves open (positions, sequence ids) is a function of the state
and the fact alone. A snapshot is the state written down whole; snapshot, then the facts after it,
gives the state again. The state of incoming streams is a half of its own (`sequences.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from dray.delivery.confirmation import Outbox
from dray.delivery.events import DeliverySettings
from dray.delivery.incoming import IncomingStreams
from dray.delivery.judgement import PeerPosition
from dray.delivery.outgoing import OutgoingStream
from dray.manager.events import Peer
from dray.manager.facts import (
    Accepted,
    AnyFact,
    BatchCommitted,
    BatchStaged,
    Committed,
    Confirmation,
    Delivered,
    DivergenceResolved,
    EndForgotten,
    Fact,
    LargeMoved,
    LifeBegan,
    ManagerNamed,
    NumbersLeased,
    PositionsReserved,
    Prepared,
    PreparedAborted,
    PurgePending,
    PutBack,
    QueueCreated,
    QueueDeleted,
    QueueFilesKept,
    QueueOptionsSet,
    QueuePaused,
    QuotaSet,
    Relocated,
    Restored,
    StreamDiverged,
    StreamEnded,
    StreamRenewed,
    positions_in,
    unpack_lookups,
)
from dray.manager.queue.accounts import Account
from dray.manager.queue.arrival_routes import ArrivalRoutes
from dray.manager.queue.index import (
    TAIL_BYTES,
    claims_in,
    expiries_in,
    extent_of,
    extents_of,
    lookup_id_of,
    moved,
    place_in,
    place_of,
    places_in,
    runs_in,
    split_tails,
    tail_of,
    unpack_places,
)
from dray.manager.queue.queues import IndexBacklog, QueueTable, Route, StoredQueue
from dray.manager.queue.system import FIRST_USER_QUEUE, ORDER_QUEUE
from dray.manager.state.batch_outcomes import BatchOutcomes
from dray.manager.state.expiries import Expiries
from dray.manager.state.identity import StoreIdentity
from dray.manager.state.ledger import Ledger
from dray.manager.state.outcomes import Outcomes
from dray.manager.state.sequences import Sequences
from dray.manager.state.stream_ends import StreamEnd, StreamEnds
from dray.manager.state.unfinished import Uploads
from dray.model.classes import QueueKind
from dray.model.limits import NUMBERS_LEASED
from dray.store.decisions import CHECKPOINTS_LOST, refusal
from dray.store.heap.heap import Extent
from dray.store.log.checkpoint import TRANSACTIONS

NUMBERS_PER_MICROSECOND = 1 << 10
"""By how much a restore moves the next number ahead: a lease of numbers a millisecond since 1970,
more than any manager gives out."""


class State:
    """Everything about a manager that survives a crash."""

    def __init__(self, delivery: DeliverySettings) -> None:
        """Begin with nothing, not even a name."""
        self.delivery = delivery
        self.manager_id = ""
        self.name = ""
        self.next_number = 1
        self.next_queue = FIRST_USER_QUEUE
        self.positions_from = 1
        """Where the positions of a new queue begin: above those of all that were deleted."""
        self.queues = QueueTable()
        self.arrival_routes = ArrivalRoutes()
        self.sequences = Sequences()
        self.heard: dict[int, int] = {}
        """How far the confirmations of each outgoing stream have been acted upon."""
        self.prepared: dict[int, Prepared] = {}
        self.batch_outcomes = BatchOutcomes()
        self.uploads = Uploads()
        self.stream_ends = StreamEnds()
        """For deleted outgoing queues: the destinations to be told."""
        self.identity = StoreIdentity()
        self.outcomes = Outcomes()
        self.ledger = Ledger()
        self.expiries = Expiries()
        self.quotas_set: QuotaSet | None = None
        """The manager's quotas, once they were set while it ran."""
        self.queue_files_kept = False
        """Whether every queue has its file, or had it once."""
        self.released: Callable[[Extent], None] = _let_go
        """Called with the place of every record that leaves the state."""

    def apply(self, fact: AnyFact) -> None:
        """Make a fact true."""
        self.apply_without_sequences(fact)
        self.sequences.apply(fact)

    def apply_without_sequences(self, fact: AnyFact) -> None:
        """Make true what of a fact is kept in MQTrans."""
        self.identity.apply(fact)
        self.uploads.apply(fact, self.released)
        applier = self._APPLIERS.get(type(fact))
        if applier is not None:
            applier(self, fact)

    @property
    def incoming(self) -> IncomingStreams:
        """How far each incoming stream was accepted."""
        return self.sequences.incoming

    @property
    def outbox(self) -> Outbox[Confirmation]:
        """Confirmations that the sources of incoming streams are still to be told."""
        return self.sequences.outbox

    def put_aside(self, unreadable: frozenset[Extent]) -> None:
        """Keep messages whose records cannot be read out of everyone's way, in this life.

        So is one that stayed behind in an outgoing queue whose successors were delivered in an
        earlier life without it: it comes too late for its stream.
        """
        for queue in self.queues:
            floor = queue.stream.floor if queue.stream is not None else 0
            first = queue.index.first()
            if first is None or not (unreadable or lookup_id_of(first) <= floor):
                continue
            for packed in list(queue.index.available()):
                if lookup_id_of(packed) <= floor or extent_of(tail_of(packed)) in unreadable:
                    queue.index.put_aside(packed)

    def has_committed(self, transaction: int) -> bool:
        """Whether a transaction is among the remembered ones that committed."""
        return transaction in self.outcomes

    def live(self) -> Iterator[tuple[Extent, int]]:
        """Place and CRC32C of every record the state refers to."""
        for queue in self.queues:
            yield from claims_in(queue.index.durable())
        for prepared in self.prepared.values():
            for _, tails in prepared.sends:
                yield from map(place_of, split_tails(tails))
        yield from self.uploads.live()

    def admit_express(self, queue: StoredQueue, tails: bytes, first: int) -> None:
        """Express messages join a queue, in this life only, from a reserved position on."""
        self._enter(queue, tails, first)

    def drop_express(
        self, queue: StoredQueue, lookup_ids: Iterable[int], keep: frozenset[Extent] = frozenset()
    ) -> None:
        """Express messages leave a queue; their records are given up, but for those to `keep`."""
        self._drop(queue, lookup_ids, keep)

    def _set_quota(self, fact: QuotaSet) -> None:
        if fact.number == 0:
            self.quotas_set = fact
            self.ledger.limits[Account.COMPUTER] = fact.quota
            self.ledger.limits[Account.JOURNAL] = fact.journal_quota
            return
        queue = self.queues.numbered(fact.number)
        queue.options = msgspec.structs.replace(
            queue.options, quota=fact.quota, journal_quota=fact.journal_quota
        )

    def _name(self, fact: ManagerNamed) -> None:
        self.manager_id, self.name = fact.manager_id, fact.name

    def _lease(self, fact: NumbersLeased) -> None:
        self.next_number = max(self.next_number, fact.upto)

    def _delete_queue(self, fact: QueueDeleted) -> None:
        queue = self.queues.get(fact.number)
        if queue is not None and queue.route is not None and queue.carried:
            self.stream_ends.ended(StreamEnd(queue.number, *queue.route.peer, fact.when_us))
        self._delete(fact.number)

    def _end_stream(self, fact: StreamEnded) -> None:
        """Nothing goes on in a stream any more; a queue that forwards has to tell that on."""
        forwarding: dict[int, list[int]] = {}
        for number, route, _ in (
            self.arrival_routes.going_by(fact.source, fact.stream) if fact.ended else ()
        ):
            self.arrival_routes.went_on(number, 0)
            queue = self.queues.get(route.queue)
            if queue is not None and queue.outgoing:
                forwarding.setdefault(queue.number, []).append(number)
        for queue_number, ended in forwarding.items():
            queue = self.queues.numbered(queue_number)
            position = queue.skip_position(fact.when_us)
            for number in ended:
                queue.truncated_transactions.ended(number, position)
        if fact.ended:
            self.arrival_routes.stream_ended(fact.source, fact.stream, self.queues.is_drained)

    def _forget_end(self, fact: EndForgotten) -> None:
        self.stream_ends.forgotten(fact.stream)

    def _pause(self, fact: QueuePaused) -> None:
        self.queues.numbered(fact.number).paused = fact.paused

    def _accept(self, fact: Accepted) -> None:
        self._admit(self.queues.numbered(fact.queue), fact.tails, fact.when_us)
        self.arrival_routes.accepted(fact)
        if fact.passed:
            queue = self.queues.numbered(fact.queue)
            queue.truncated_transactions.ended_in(
                fact, self.arrival_routes, queue.skip_position(fact.when_us)
            )

    def _keep_queue_files(self, _fact: QueueFilesKept) -> None:
        self.queue_files_kept = True

    def _set_options(self, fact: QueueOptionsSet) -> None:
        self.queues.numbered(fact.number).options = fact.options

    def _renew(self, fact: StreamRenewed) -> None:
        self._stream(fact.queue).renewed(fact.sequence_id, PeerPosition(*fact.judged))

    def _diverge(self, fact: StreamDiverged) -> None:
        self._stream(fact.queue).diverge(fact.sequence_id, fact.upto)

    def _resolve(self, fact: DivergenceResolved) -> None:
        self._stream(fact.queue).resolved()

    def _begin_life(self, fact: LifeBegan) -> None:
        for queue in self.queues.outgoing():
            self._stream(queue.number).life_began(fact.number)

    def _stream(self, number: int) -> OutgoingStream:
        stream = self.queues.numbered(number).stream
        assert stream is not None, "only outgoing queues have streams"
        return stream

    def _prepare(self, fact: Prepared) -> None:
        self.prepared[fact.transaction] = fact

    def _commit_batch(self, fact: BatchCommitted) -> None:
        """Forget the staged transactions; the fact of the commit has their records."""
        for number in fact.staged:
            self.prepared.pop(number, None)
        self.batch_outcomes.add(fact)

    def _apply_committed(self, fact: Committed) -> None:
        keep = frozenset(extent for _, tails in fact.moved for extent in extents_of(tails))
        for number, tails in fact.sends:
            if (queue := self.queues.get(number)) is not None:
                self._admit(queue, tails, fact.when_us)
        for number, lookups in fact.receives:
            queue = self.queues.get(number)
            if queue is not None:
                self._drop(queue, unpack_lookups(lookups), keep)
        for number, tails in fact.moved:
            queue = self.queues.get(number)
            if queue is not None:
                self._admit(queue, tails, fact.when_us)
            else:
                self._release_all(tails)
        stream, upto = fact.heard
        if upto:
            self.heard[stream] = upto
        self.prepared.pop(fact.transaction, None)
        if fact.transaction:
            self.outcomes.add(fact.transaction)

    def _apply_restored(self, fact: Restored) -> None:
        """Skip every number that may have been given out after the backup was taken."""
        if not self.manager_id:
            why = "the log begins with a restore, and no checkpoint that has its state is whole"
            raise refusal(CHECKPOINTS_LOST, " and ".join(TRANSACTIONS), why)
        leases = fact.when_us * NUMBERS_PER_MICROSECOND // NUMBERS_LEASED
        self.next_number = max(self.next_number, leases * NUMBERS_LEASED + 1)
        self.outcomes.certain_from = self.next_number
        self.next_queue = max(self.next_queue, fact.when_us // 1_000_000)
        self.positions_from = max(self.positions_from, fact.when_us)
        if fact.taken_us:
            # A backup holds no files of queues; the first start writes them.
            self.queue_files_kept = False
        for queue in self.queues:
            queue.next_lookup_id = max(queue.next_lookup_id, fact.when_us)

    def _admit(self, queue: StoredQueue, tails: bytes, when_us: int) -> None:
        first = queue.next_lookup_id
        queue.next_lookup_id = self._enter(queue, tails, first)
        if queue.stream is not None and queue.next_lookup_id > first:
            queue.stream.admitted(first, queue.next_lookup_id - 1, when_us)

    def _reserve_positions(self, fact: PositionsReserved) -> None:
        """Pass over positions; a stream counts them as taken, for what takes them is in no fact."""
        queue = self.queues.get(fact.queue)
        if queue is not None and fact.upto > queue.next_lookup_id:
            first, queue.next_lookup_id = queue.next_lookup_id, fact.upto
            if queue.stream is not None:
                queue.stream.admitted(first, fact.upto - 1, fact.when_us)

    def _enter(self, queue: StoredQueue, tails: bytes, first: int) -> int:
        """Put messages into a queue from a position on; gives the position behind the last."""
        before = queue.index.byte_count
        entries = queue.index.add_run(tails, first)
        for expires_us, lookup_id in expiries_in(entries):
            self.expiries.add(expires_us, queue.number, lookup_id)
        self.ledger.stored[queue.account] += queue.index.byte_count - before
        return first + len(tails) // TAIL_BYTES

    def _relocate(self, fact: Relocated) -> None:
        queue = self.queues.get(fact.queue)
        places = unpack_places(fact.places)
        for lookup_id, place in zip(unpack_lookups(fact.lookups), places, strict=True):
            old = queue.index.relocate(lookup_id, place) if queue is not None else None
            self.released(place if old is None else old)

    def _abort_prepared(self, fact: PreparedAborted) -> None:
        prepared = self.prepared.pop(fact.transaction, None)
        if prepared is not None:
            for _, tails in prepared.sends:
                self._release_all(tails)

    def _release_all(self, tails: bytes) -> None:
        for extent in extents_of(tails):
            self.released(extent)

    def _purge_later(self, fact: PurgePending) -> None:
        queue = self.queues.get(fact.queue)
        if queue is not None:
            queue.purge_pending.update(unpack_lookups(fact.lookups))

    def _move_large(self, fact: LargeMoved) -> None:
        queue, target = self.queues.numbered(fact.queue), self.queues.numbered(fact.target)
        positions = list(positions_in(fact.runs))
        found = filter(None, map(queue.index.find, positions))
        tails = b"".join([moved(tail_of(packed)) for packed in found])
        self._drop(queue, positions, frozenset(extents_of(tails)))
        self._admit(target, tails, fact.when_us)

    def _put_back(self, fact: PutBack) -> None:
        queue = self.queues.get(fact.queue)
        if queue is not None:
            for lookup_id in unpack_lookups(fact.lookups):
                queue.index.count_abort(lookup_id)

    def _apply_delivered(self, fact: Delivered) -> None:
        queue = self.queues.get(fact.queue)
        if queue is None:
            return
        before = queue.index.byte_count
        for lookup_id in unpack_lookups(fact.stayed):
            # Of an earlier life; in this one they are put aside already.
            unread = queue.index.find(lookup_id)
            if unread is not None:
                queue.index.put_aside(unread)
        gone = queue.index.take_upto(fact.upto)
        self.ledger.stored[queue.account] += queue.index.byte_count - before
        if fact.awaiting:
            keep = frozenset(extents_of(fact.awaiting))
            places = [place for place in places_in(gone) if place not in keep]
        else:
            places = runs_in(gone)
        for place in places:
            self.released(place)
        if fact.awaiting:
            self._admit(self.queues.numbered(ORDER_QUEUE), fact.awaiting, fact.when_us)
        if queue.stream is not None:
            queue.stream.acknowledged(fact.upto)
            queue.truncated_transactions.heard(fact.upto)

    def _drop(self, queue: StoredQueue, lookup_ids: Iterable[int], keep: frozenset[Extent]) -> None:
        """Take messages out of a queue, and their records out of the heap unless they are kept."""
        before = queue.index.byte_count
        for lookup_id in lookup_ids:
            queue.purge_pending.discard(lookup_id)
            entry = queue.index.remove(lookup_id)
            if entry is None:
                continue
            queue.note_gone(entry)
            if queue.stream is not None:
                queue.truncated_transactions.left(entry)
            if (extent := place_in(entry)[0]) not in keep:
                self.released(extent)
        self.ledger.stored[queue.account] += queue.index.byte_count - before

    def create(self, fact: QueueCreated) -> StoredQueue:
        """Make a queue; it holds nothing yet."""
        queue = StoredQueue(fact.number, fact.name, QueueKind(fact.kind), fact.options)
        queue.born, queue.next_lookup_id = fact.born, fact.first_position
        if queue.kind is QueueKind.OUTGOING:
            queue.route = Route(Peer(fact.host, fact.port, fact.secure), fact.remote_queue)
            queue.stream = OutgoingStream(
                fact.number, fact.remote_queue, IndexBacklog(queue.index), self.delivery
            )
        if fact.parent:
            queue.parent = self.queues.numbered(fact.parent)
            if queue.kind is QueueKind.JOURNAL:
                queue.parent.journal = queue
            else:
                queue.parent.sub_queues.append(queue)
        self.queues.add(queue)
        self.next_queue = max(self.next_queue, fact.number + 1)
        return queue

    def _delete(self, number: int) -> None:
        queue = self.queues.discard(number)
        if queue is None:
            return
        if queue.kind is not QueueKind.SUB:
            self.positions_from = max(self.positions_from, queue.next_lookup_id)
        for packed in queue.index.everything():
            extent = place_in(packed)[0]
            self.ledger.stored[queue.account] -= extent.length
            self.released(extent)
        self.heard.pop(number, None)
        self.arrival_routes.queue_deleted(number)
        if queue.journal is not None:
            self._delete(queue.journal.number)
        for sub_queue in list(queue.sub_queues):
            self._delete(sub_queue.number)
        if queue.kind is QueueKind.SUB and queue.parent is not None:
            queue.parent.sub_queues.remove(queue)

    _APPLIERS: ClassVar[dict[type[Fact], Callable[[State, Any], object]]] = {
        ManagerNamed: _name,
        NumbersLeased: _lease,
        QueueCreated: create,
        QueueDeleted: _delete_queue,
        QueuePaused: _pause,
        QuotaSet: _set_quota,
        QueueOptionsSet: _set_options,
        QueueFilesKept: _keep_queue_files,
        StreamRenewed: _renew,
        StreamDiverged: _diverge,
        DivergenceResolved: _resolve,
        LifeBegan: _begin_life,
        StreamEnded: _end_stream,
        EndForgotten: _forget_end,
        Restored: _apply_restored,
        Committed: _apply_committed,
        PutBack: _put_back,
        Relocated: _relocate,
        PurgePending: _purge_later,
        LargeMoved: _move_large,
        PositionsReserved: _reserve_positions,
        Accepted: _accept,
        Delivered: _apply_delivered,
        Prepared: _prepare,
        BatchStaged: _prepare,
        BatchCommitted: _commit_batch,
        PreparedAborted: _abort_prepared,
    }


def _let_go(_extent: Extent) -> None:
    """In replay nothing is freed: what is alive at its end decides."""
