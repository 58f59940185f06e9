"""The destination's half of delivery: streams opened by other managers, and what comes by them.

Accepted messages enter in the fact that also advances the stream; refused ones are consumed all the
same, and their source is told why. A stream may lead to an outgoing queue: then this manager
forwards. The message keeps its record, its transaction and its place in it; its times go on as
durations, and the number of managers that have forwarded it is bounded.

Pieces that came ahead of a commit are kept for a while, and sources wait for room or for a queue
that is not there yet: `ArrivingStreams` looks at these again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.delivery.incoming import Position, StreamKey
from dray.errors import (
    AccessDenied,
    DrayError,
    ProtocolError,
    QueueNotFound,
    QuotaExceeded,
    StoreFull,
)
from dray.manager.change import begin_use_of_queue, resolve_queue
from dray.manager.context import Context
from dray.manager.disk import check_records
from dray.manager.events import CloseSession
from dray.manager.facts import Accepted, StreamEnded
from dray.manager.incoming.admission import admit_new
from dray.manager.incoming.ahead import KeptAhead, check_ahead
from dray.manager.incoming.arrival import Arrival
from dray.manager.incoming.open_transactions import check_ends
from dray.manager.peers import (
    Holes,
    Sources,
    Strangers,
    incarnation_of_last_sent,
    note_source,
    refuse_overtaken_stream,
)
from dray.manager.queue import StoredQueue
from dray.manager.rights import (
    Rights,
    may_deliver,
    note_opened_stream,
    note_refusal,
    require_delivery,
)
from dray.manager.session import Session
from dray.manager.state import soonest
from dray.model.limits import CONFIRMATION_ORDINAL_MAX, ENDS_REMEMBERED_MAX, STREAMS_PER_PEER_MAX
from dray.model.names import parse_queue_address
from dray.wire.head import Head
from dray.wire.message_frames import MARK_FIRST
from dray.wire.peer_frames import (
    Ahead,
    AheadDropped,
    Data,
    EndStream,
    EndStreamAcked,
    OpenStream,
    Passed,
    StreamRefused,
    StreamState,
)

_NOT_OPEN = "stream-not-open"
"""Why data is refused that comes on a connection that did not open the stream, or not last."""


class ArrivingStreams:
    """The streams that come from other managers."""

    def __init__(self, sources: Sources, strangers: Strangers, holes: Holes) -> None:
        self._context = sources.context
        self._sources = sources
        self._strangers = strangers
        self._holes = holes
        self.kept_ahead = kept = KeptAhead(sources.context)
        """Pieces of large messages that came ahead of their commits."""
        self.without_body: Mapping[type[Head], Callable[..., None]] = {
            OpenStream: self._handle_open,
            Passed: self._handle_passed,
            EndStream: self._handle_end,
            AheadDropped: kept.handle_dropped,
        }
        self.with_body: Mapping[type[Head], Callable[..., None]] = {
            Ahead: kept.handle,
            Data: self._handle_data,
        }

    def go_on(self) -> None:
        """Tell the sources that have waited for room or a queue, and whose wait is over."""
        waiting = self._sources.waiting_for_room
        if waiting.for_quota or waiting.for_disk:
            self.tell_of_room()
        if self._sources.missing_queues:
            self.tell_of_new_queues()

    def deadline(self) -> float | None:
        """When to call `tick` if nothing happens before."""
        ahead, waiting = self.kept_ahead, self._sources.waiting_for_room
        return soonest(
            ahead.deadline() if ahead.pieces else None,
            waiting.deadline() if waiting.for_disk else None,
        )

    def tick(self) -> None:
        """Drop the pieces whose commit does not come."""
        self.kept_ahead.drop_old()

    def closed(self, session: Session) -> None:
        """A connection has ended."""
        self._sources.forget(session)
        self.kept_ahead.forget(session)

    def _handle_open(self, session: Session, _request_id: int, head: OpenStream) -> None:
        """Say what of a stream is accepted, or why it cannot be taken now.

        A stream comes on the newest session that opened it and on no other: what its source said
        on an earlier one may still be on its way, and the answer given here does not count it.
        """
        context, rights = self._context, self._strangers.rights
        if head.heard > CONFIRMATION_ORDINAL_MAX:
            raise ProtocolError(f"no queue manager has told of {head.heard} messages of one stream")
        if not self._strangers.callers.admits(session, head):
            return
        key = StreamKey(session.peer_id, head.stream)
        newest = self._sources.confirmed.get(key)
        if (newest and newest.number > session.number) or head.stream in session.ended:
            refusal = refuse_overtaken_stream(
                context, session, newest, head.stream, question=head.question
            )
            if refusal is not None:
                context.answer(session, 0, refusal)
            return
        if head.stream not in session.questions and len(session.questions) >= STREAMS_PER_PEER_MAX:
            raise ProtocolError(f"a queue manager may open at most {STREAMS_PER_PEER_MAX} streams")
        # Streams do not lean on the line: one question may overtake another, and its answer counts.
        asked = session.questions.get(head.stream, head.question)
        session.questions[head.stream] = max(head.question, asked)
        _reopen(context, key)
        if not self._strangers.has_told(session, head):
            session.heard[head.stream] = max(head.heard, session.heard.get(head.stream, 0))
        if context.state.incoming.knows(key):
            # Nothing is kept of a stream that never carried a message.
            self._sources.begin_above(session, key)
        try:
            queue = _destination(rights, session, head.queue)
        except DrayError as error:
            session.streams.pop(head.stream, None)
            if isinstance(error, AccessDenied) or not may_deliver(rights, session, head.queue):
                note_refusal(rights, session, head)
            _refuse(context, session, head.stream, error)
            if isinstance(error, QueueNotFound) and may_deliver(rights, session, head.queue):
                self._sources.missing_queues.add(session, head.stream, head.queue)
            # The ends of earlier messages are told all the same, also for a deleted queue.
            self._tell_on(session, key, newest)
            return
        session.streams[head.stream] = queue.number
        session.wanted[head.stream] = head.queue
        note_opened_stream(rights, session, head)
        self._sources.missing_queues.opened(session, head.stream)
        _say_position(context, session, queue, head.stream)
        self._tell_on(session, key, newest)

    def _tell_on(self, session: Session, key: StreamKey, newest: Session | None) -> None:
        """Tell the source on this session what became of its messages, and on no older one."""
        if newest is not None and newest is not session:
            newest.streams.pop(key.stream, None)
        session.told[key.stream] = 0
        self._sources.confirmed[key] = session
        self._context.follow_up.untold_ends.opened(key)
        self._sources.tell(key)

    def _handle_data(
        self, session: Session, _request_id: int, head: Data, *, body: memoryview
    ) -> None:
        """Admit what the predicate lets in, in the fact that advances the stream; order ack."""
        context = self._context
        queue = self._open_queue(session, head.stream, begun=_has_begun(head))
        if queue is None:
            return
        headers = check_ahead(head, body) if head.ahead else check_records(head, body)
        check_ends(head)
        key = StreamKey(session.peer_id, head.stream)
        numbers = [envelope.number for envelope in head.envelopes]
        incoming = context.state.incoming
        begin = incoming.admissible(key, head.sequence_id, head.previous, numbers)
        if incoming.knows(key):
            incoming.visited(key, begin, context.now)
        if begin < len(numbers):
            arrival = Arrival(key, head, headers, body, begin, 0)
            try:
                incoming.check_room(key)
                self._sources.begin_above(session, key)
                incarnation = note_source(context, session, incoming.incarnation(key))
                arrival = arrival._replace(incarnation=incarnation)
                if head.ahead:
                    if not self.kept_ahead.admit(session, queue, arrival):
                        return
                else:
                    admit_new(context, queue, arrival)
            except DrayError as error:
                _refuse(context, session, head.stream, error)
                left_out = _left_out(context, session, head)
                if isinstance(error, QuotaExceeded):
                    self._sources.waiting_for_room.add(session, head.stream, queue, left_out)
                elif isinstance(error, StoreFull):
                    self._sources.waiting_for_room.add_for_disk(
                        session, head.stream, queue, left_out
                    )
                if isinstance(error, QuotaExceeded | StoreFull):
                    self.kept_ahead.make_room()
                return
            if not head.ahead:
                self.kept_ahead.drop_accepted(session, head)
            if incoming.position(key).number < numbers[-1]:
                left_out = _left_out(context, session, head)
                self._sources.waiting_for_room.add(session, head.stream, queue, left_out)
                self.kept_ahead.make_room()
            else:
                self._sources.waiting_for_room.admitted(session, head.stream)
        _say_position(context, session, queue, head.stream)

    def _handle_passed(self, session: Session, _request_id: int, head: Passed) -> None:
        """Go on over messages that do not come, and note which transactions have ended by that."""
        context = self._context
        queue = self._open_queue(session, head.stream)
        if queue is None:
            return
        key = StreamKey(session.peer_id, head.stream)
        if not context.state.incoming.admissible(key, head.sequence_id, head.previous, [head.upto]):
            try:
                context.state.incoming.check_room(key)
            except DrayError as error:
                _refuse(context, session, head.stream, error)
                return
            going = {(each.origin, each.transaction) for each in head.going}
            ended = [
                (number, route, transaction)
                for number, route, transaction in context.state.arrival_routes.going_by(*key)
                if route.queue == queue.number and (route.origin, transaction) not in going
            ]
            self._sources.begin_above(session, key)
            incarnation = note_source(context, session, context.state.incoming.incarnation(key))
            context.record(
                Accepted(
                    *key, head.sequence_id, head.upto, queue.number, context.now_us, b"",
                    going=[(route.origin, 0) for _, route, _ in ended],
                    passed=queue.outgoing and bool(ended), incarnation=incarnation,
                )
            )  # fmt: skip
            for number, _, transaction in ended:
                queue.parts.source_went_on(number, transaction, ended=True)
            context.follow_up.touch(queue)
        _say_position(context, session, queue, head.stream)

    def _handle_end(self, session: Session, _request_id: int, head: EndStream) -> None:
        """End what was going on in a stream, take nothing of it any more, and say so."""
        context = self._context
        if not self._strangers.callers.admits(session, head):
            return
        key = StreamKey(session.peer_id, head.stream)
        self._shut(session, head.stream)
        self.kept_ahead.drop_stream(session, head.stream)
        outbox = context.state.outbox
        known = context.state.incoming.position(key) != Position() or outbox.last(key) > 0
        if known and not outbox.has_ended(key):
            going = context.state.arrival_routes.going_by(*key)
            context.record(StreamEnded(*key, context.now_us))
            for number, route, transaction in going:
                queue = context.state.queues.get(route.queue)
                if queue is not None:
                    queue.parts.source_went_on(number, transaction, ended=True)
                    context.follow_up.touch(queue)
            self._holes.give_up_those_of(key)
        context.follow_up.untold_ends.forget(key)
        context.answer(session, 0, EndStreamAcked(head.stream))

    def _shut(self, session: Session, stream: int) -> None:
        """Take nothing of a stream on this connection, nor on those that its source has given up.

        Here nothing of it comes any more; there it may still be under way.
        """
        self._sources.confirmed.pop(StreamKey(session.peer_id, stream), None)
        for each in list(self._strangers.rights.sessions.values()):
            if each.peer_id != session.peer_id or each.number > session.number:
                continue
            each.streams.pop(stream, None)
            each.told.pop(stream, None)
            if each is not session:
                each.ended.add(stream)
                if len(each.ended) > ENDS_REMEMBERED_MAX:
                    self._context.effects.append(CloseSession(each.number))

    def _open_queue(
        self, session: Session, stream: int, *, begun: bool = False
    ) -> StoredQueue | None:
        """The queue to which a stream leads that is open on a session; else its source is told.

        `begun`: what comes is the rest of a transaction.
        """
        number = session.streams.get(stream)
        if number is None:
            self._refuse_unopened(session, stream)
            return None
        queue = self._context.state.queues.get(number)
        return queue or self._made_again(session, stream, begun=begun)

    def _refuse_unopened(self, session: Session, stream: int) -> None:
        """Tell a source of a stream that is not open, also if its right was taken back since."""
        context, asked = self._context, session.questions.get(stream, 0)
        newest = self._sources.confirmed.get(StreamKey(session.peer_id, stream))
        overtaken = refuse_overtaken_stream(context, session, newest, stream, question=asked)
        if overtaken is None and stream in session.wanted:
            try:
                require_delivery(self._strangers.rights, session, session.wanted[stream])
            except DrayError as error:
                _refuse(context, session, stream, error)
                return
        sentence = "the stream is not open on this connection"
        refusal = overtaken or StreamRefused(stream, _NOT_OPEN, sentence, question=asked)
        context.answer(session, 0, refusal)

    def _made_again(self, session: Session, stream: int, *, begun: bool) -> StoredQueue | None:
        """The queue that has the name of a deleted one by now; else the source is told.

        The rest of a transaction is refused: the deleted queue has taken its beginning with it.
        After a refusal all is refused until the source asks again, as it gives up all that waits
        when it hears of it.
        """
        rights, name = self._strangers.rights, session.wanted.pop(stream, "")
        try:
            if begun or not name:
                raise QueueNotFound("the queue has been deleted", queue=name)
            queue = _destination(rights, session, name)
        except DrayError as error:
            _refuse(self._context, session, stream, error)
            if isinstance(error, QueueNotFound) and name and may_deliver(rights, session, name):
                self._sources.missing_queues.add(session, stream, name)
            return None
        session.streams[stream], session.wanted[stream] = queue.number, name
        return queue

    def tell_of_room(self) -> None:
        """Tell sources that there is room again for what was left out."""
        context = self._context
        for session, stream, queue, _, _ in self._sources.waiting_for_room.take(context.now):
            if session.streams.get(stream) == queue.number:
                _say_position(context, session, queue, stream, room=True)

    def tell_of_new_queues(self) -> None:
        """Tell sources that there is a queue now that was missing."""
        context = self._context
        for session, stream, queue in self._sources.missing_queues.take():
            if stream not in session.ended:
                _say_position(context, session, queue, stream, room=True)


def _destination(rights: Rights, session: Session, name: str) -> StoredQueue:
    """The queue that a stream leads to; another manager's is that manager's outgoing queue here."""
    context = rights.context
    require_delivery(rights, session, name)
    if parse_queue_address(name).remote:
        queue = resolve_queue(context, name)
        begin_use_of_queue(session, queue)
    else:
        found = context.state.queues.find(name)
        if found is None:
            raise QueueNotFound(f"there is no queue {name!r} here", queue=name)
        queue = found
    if not queue.accepts_sends:
        raise queue.refused_send()
    return queue


def _has_begun(head: Data) -> bool:
    """Whether a frame begins with the rest of a transaction."""
    return any(each.transaction and not each.marks & MARK_FIRST for each in head.envelopes[:1])


def _refuse(context: Context, session: Session, stream: int, error: DrayError) -> None:
    """Refuse a stream, and say how far it had come."""
    key = StreamKey(session.peer_id, stream)
    position, refused = context.state.incoming.position(key), context.state.outbox.refused(key)
    asked = session.questions[stream]
    sent_in = incarnation_of_last_sent(context, session, key)
    receipt = context.state.identity.receipt()
    refusal = StreamRefused(
        stream, error.code, str(error), *position, asked, refused, *sent_in, receipt=receipt
    )
    context.answer(session, 0, refusal)


def _left_out(context: Context, session: Session, head: Data) -> list[int]:
    """The lengths of the messages of a frame that found no room."""
    reached = context.state.incoming.position(StreamKey(session.peer_id, head.stream))
    # Nothing of a new sequence has entered: the numbers of an earlier one do not count in it.
    upto = reached.number if reached.sequence_id == head.sequence_id else 0
    return [envelope.length for envelope in head.envelopes if envelope.number > upto]


def _say_position(
    context: Context, session: Session, queue: StoredQueue, stream: int, *, room: bool = False
) -> None:
    key = StreamKey(session.peer_id, stream)
    position, refused = context.state.incoming.position(key), context.state.outbox.refused(key)
    asked = session.questions[stream]
    sent_in = incarnation_of_last_sent(context, session, key)
    receipt = context.state.identity.receipt()
    state = StreamState(
        stream,
        *position,
        queue.options.transactional,
        asked,
        room,
        refused,
        *sent_in,
        receipt=receipt,
    )
    context.answer(session, 0, state)


def _reopen(context: Context, key: StreamKey) -> None:
    """A stream that had ended is there again: its source was restored from an older backup."""
    if context.state.outbox.has_ended(key):
        context.record(StreamEnded(*key, context.now_us, ended=False))
