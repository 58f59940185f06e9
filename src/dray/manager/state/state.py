"""The durable state of a manager: made by facts, and by nothing else.

`apply` is the only code that changes it, while running and in replay, so what a crash brings back
is what was. Every choice a fact leaves open (positions, sequence ids) is a function of the state
and the fact alone. A snapshot is the state written down whole; snapshot, then the facts after it,
gives the state again. The state of incoming streams is a half of its own (`sequences.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec

from dray.delivery.confirmation import Outbox
from dray.delivery.events import DeliverySettings
from dray.delivery.incoming import IncomingStreams
from dray.delivery.judgement import PeerPosition
from dray.delivery.outgoing import OutgoingStream
from dray.manager import facts
from dray.manager.entries import claims_in, extents_of, place_of, split_tails
from dray.manager.events import Peer
from dray.manager.facts import Fact, unpack_lookups
from dray.manager.queue import (
    FIRST_USER_QUEUE,
    ORDER_QUEUE,
    Account,
    ArrivalRoutes,
    IndexBacklog,
    Route,
    StoredQueue,
)
from dray.manager.state.awaiting import Awaiting
from dray.manager.state.identity import StoreIdentity
from dray.manager.state.outcomes import BatchOutcomes, Outcomes
from dray.manager.state.queue_contents import QueueContents
from dray.manager.state.sequences import Sequences
from dray.manager.state.stream_ends import StreamEnd, StreamEnds
from dray.manager.state.unfinished import Uploads
from dray.model.classes import QueueKind
from dray.model.ids import ManagerId, TransactionId, join_id
from dray.model.limits import NUMBERS_LEASED
from dray.store.decisions import CHECKPOINTS_LOST, refusal
from dray.store.heap.heap import Extent
from dray.store.log.checkpoint import TRANSACTIONS

NUMBERS_PER_MICROSECOND = 1 << 10
"""By how much a restore moves the next number ahead: a lease of numbers a millisecond since 1970,
more than any manager gives out."""
RESTORE_LEAP_US = 1 << 45
"""By how much a restore moves everything ahead if the clock was set back: about a year."""


class State(QueueContents):
    """Everything about a manager that survives a crash."""

    def __init__(self, delivery: DeliverySettings) -> None:
        super().__init__()
        self.delivery = delivery
        self.manager_id = ""
        self.name = ""
        self.next_number = 1
        self.next_queue = FIRST_USER_QUEUE
        self.positions_from = 1
        """The first position of a new queue: above those of all that were deleted."""
        self.arrival_routes = ArrivalRoutes()
        self.sequences = Sequences()
        self.heard: dict[int, int] = {}
        """The last confirmation of each outgoing stream that has been acted upon."""
        self.awaiting = Awaiting(self.queues, self.heard)
        """Delivered messages by their numbers: an index, made anew by `look` after a start."""
        self.prepared: dict[int, facts.Prepared] = {}
        self.batch_outcomes = BatchOutcomes()
        self.uploads = Uploads()
        self.stream_ends = StreamEnds()
        """For deleted outgoing queues: the destinations to be told."""
        self.identity = StoreIdentity()
        self.outcomes = Outcomes()
        self.quotas_set: facts.QuotaSet | None = None
        """The manager's quotas, once they were set while it ran."""
        self.queue_files_kept = False
        """Whether every queue has its file, or had it once."""

    def apply(self, fact: Fact) -> None:
        """Make a fact true."""
        self.apply_without_sequences(fact)
        if type(fact) is not facts.Committed or fact.confirmations:
            self.sequences.apply(fact)

    def apply_without_sequences(self, fact: Fact) -> None:
        """Make true what of a fact is kept in MQTrans."""
        kind = type(fact)
        self.identity.apply(fact)
        if kind is not facts.Committed or self.uploads.kept:
            self.uploads.apply(fact, self.released)
        applier = self._APPLIERS.get(kind)
        if applier is not None:
            applier(self, fact)

    @property
    def incoming(self) -> IncomingStreams:
        """The end of what was accepted of each incoming stream."""
        return self.sequences.incoming

    @property
    def outbox(self) -> Outbox[facts.Confirmation]:
        """Confirmations that the sources of incoming streams are still to be told."""
        return self.sequences.outbox

    def transaction_id(self, number: int) -> TransactionId:
        """The text form of a transaction of this manager."""
        return TransactionId(join_id(ManagerId(self.manager_id), number))

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

    def _set_quota(self, fact: facts.QuotaSet) -> None:
        if fact.number == 0:
            self.quotas_set = fact
            self.ledger.limits[Account.COMPUTER] = fact.quota
            self.ledger.limits[Account.JOURNAL] = fact.journal_quota
            return
        queue = self.queues.numbered(fact.number)
        queue.options = msgspec.structs.replace(
            queue.options, quota=fact.quota, journal_quota=fact.journal_quota
        )

    def _name(self, fact: facts.ManagerNamed) -> None:
        self.manager_id, self.name = fact.manager_id, fact.name

    def _lease(self, fact: facts.NumbersLeased) -> None:
        self.next_number = max(self.next_number, fact.upto)

    def _delete_queue(self, fact: facts.QueueDeleted) -> None:
        queue = self.queues.get(fact.number)
        if queue is not None and queue.route is not None and queue.carried:
            self.stream_ends.ended(StreamEnd(queue.number, *queue.route.peer, fact.when_us))
        self._delete(fact.number)

    def _end_stream(self, fact: facts.StreamEnded) -> None:
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

    def _forget_end(self, fact: facts.EndForgotten) -> None:
        self.stream_ends.forgotten(fact.stream)

    def _pause(self, fact: facts.QueuePaused) -> None:
        self.queues.numbered(fact.number).paused = fact.paused

    def _accept(self, fact: facts.Accepted) -> None:
        self._admit(self.queues.numbered(fact.queue), fact.tails, fact.when_us)
        self.arrival_routes.accepted(fact)
        if fact.passed:
            queue = self.queues.numbered(fact.queue)
            queue.truncated_transactions.ended_in(
                fact, self.arrival_routes, queue.skip_position(fact.when_us)
            )

    def _keep_queue_files(self, _fact: facts.QueueFilesKept) -> None:
        self.queue_files_kept = True

    def _set_options(self, fact: facts.QueueOptionsSet) -> None:
        self.queues.numbered(fact.number).options = fact.options

    def _renew(self, fact: facts.StreamRenewed) -> None:
        self._stream(fact.queue).renewed(fact.sequence_id, PeerPosition(*fact.judged))

    def _diverge(self, fact: facts.StreamDiverged) -> None:
        self._stream(fact.queue).diverge(fact.sequence_id, fact.upto)

    def _resolve(self, fact: facts.DivergenceResolved) -> None:
        self._stream(fact.queue).resolved()

    def _begin_incarnation(self, fact: facts.IncarnationBegan) -> None:
        for queue in self.queues.outgoing():
            self._stream(queue.number).incarnation_began(fact.number)

    def _stream(self, number: int) -> OutgoingStream:
        stream = self.queues.numbered(number).stream
        assert stream is not None, "only outgoing queues have streams"
        return stream

    def _prepare(self, fact: facts.Prepared) -> None:
        self.prepared[fact.transaction] = fact

    def _commit_batch(self, fact: facts.BatchCommitted) -> None:
        """Forget the staged transactions; the fact of the commit has their records."""
        for number in fact.staged:
            self.prepared.pop(number, None)
        self.batch_outcomes.add(fact)

    def _apply_committed(self, fact: facts.Committed) -> None:
        keep: frozenset[Extent] = frozenset()
        if fact.moved:
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
            queue = self.queues.get(stream)
            if queue is not None and queue.stream is not None:
                queue.stream.heard_from(fact.receipt)
        self.prepared.pop(fact.transaction, None)
        if fact.transaction:
            self.outcomes.add(fact.transaction)

    def restored_at(self, now_us: int, before_us: int = 0) -> int:
        """The time from which a restore counts: later than `before_us` and all earlier ones.

        By a clock that was set back, numbers would begin where they have been given out. The time
        of the year is in the leap, because two restores of one backup have to differ too.
        """
        latest = max(self.positions_from, before_us)
        if now_us > latest:
            return now_us
        return latest + RESTORE_LEAP_US + now_us % RESTORE_LEAP_US

    def _apply_restored(self, fact: facts.Restored) -> None:
        """Skip every number that may have been given out after the backup was taken.

        Every queue is born again, since messages that had left it are back.
        """
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
            queue.born = self.identity.born

    def _abort_prepared(self, fact: facts.PreparedAborted) -> None:
        prepared = self.prepared.pop(fact.transaction, None)
        if prepared is not None:
            for _, tails in prepared.sends:
                self._release_all(tails)

    def _apply_delivered(self, fact: facts.Delivered) -> None:
        queue = self.queues.get(fact.queue)
        if queue is None:
            return
        self._take_delivered(queue, fact)
        if fact.awaiting:
            self._admit(self.queues.numbered(ORDER_QUEUE), fact.awaiting, fact.when_us)
        if queue.stream is not None:
            queue.stream.acknowledged(fact.upto, fact.receipt)
            queue.truncated_transactions.heard(fact.upto)

    def create(self, fact: facts.QueueCreated) -> StoredQueue:
        """Make a queue; it holds nothing yet."""
        queue = StoredQueue(fact.number, fact.name, QueueKind(fact.kind), fact.options)
        queue.born, queue.next_lookup_id = fact.born, fact.first_position
        if queue.kind is QueueKind.OUTGOING:
            queue.route = Route(Peer(fact.host, fact.port, fact.secure), fact.remote_queue)
            queue.stream = OutgoingStream(
                fact.number, fact.remote_queue, IndexBacklog(queue), self.delivery
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
        for run in queue.index.runs():
            self._release_places(run)
        self.ledger.stored[queue.account] -= queue.index.byte_count
        self.heard.pop(number, None)
        self.arrival_routes.queue_deleted(number)
        if queue.journal is not None:
            self._delete(queue.journal.number)
        for sub_queue in list(queue.sub_queues):
            self._delete(sub_queue.number)
        if queue.kind is QueueKind.SUB and queue.parent is not None:
            queue.parent.sub_queues.remove(queue)

    _APPLIERS: ClassVar[dict[type[Fact], Callable[[State, Any], object]]] = {
        facts.ManagerNamed: _name,
        facts.NumbersLeased: _lease,
        facts.QueueCreated: create,
        facts.QueueDeleted: _delete_queue,
        facts.QueuePaused: _pause,
        facts.QuotaSet: _set_quota,
        facts.QueueOptionsSet: _set_options,
        facts.QueueFilesKept: _keep_queue_files,
        facts.StreamRenewed: _renew,
        facts.StreamDiverged: _diverge,
        facts.DivergenceResolved: _resolve,
        facts.IncarnationBegan: _begin_incarnation,
        facts.StreamEnded: _end_stream,
        facts.EndForgotten: _forget_end,
        facts.Restored: _apply_restored,
        facts.Committed: _apply_committed,
        facts.PutBack: QueueContents.put_back,
        facts.Relocated: QueueContents.relocate,
        facts.PurgePending: QueueContents.purge_later,
        facts.LargeMoved: QueueContents.move_large,
        facts.PositionsReserved: QueueContents.reserve_positions,
        facts.Accepted: _accept,
        facts.Delivered: _apply_delivered,
        facts.Prepared: _prepare,
        facts.BatchStaged: _prepare,
        facts.BatchCommitted: _commit_batch,
        facts.PreparedAborted: _abort_prepared,
    }
