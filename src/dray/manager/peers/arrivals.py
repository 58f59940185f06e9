"""The destination's half of delivery: streams opened by other managers, and what comes by them.

What may enter is admitted in the fact that also advances the stream; what may not is consumed all
the same, and its source told why. A stream may lead to an outgoing queue: then this manager
forwards. The message keeps its record, its transaction and its place in it; its times go on as
durations, and the number of managers that have forwarded it is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.delivery.incoming import StreamKey
from dray.errors import AccessDenied, DrayError, QueueNotFound, QuotaExceeded, StoreFull
from dray.manager.change.departures import Departures
from dray.manager.change.ends import KEPT_THERE
from dray.manager.change.express import admit
from dray.manager.change.happening import bury
from dray.manager.change.names import resolve
from dray.manager.disk.placing import check_records, place_all
from dray.manager.facts import Accepted
from dray.manager.peers import peers
from dray.manager.peers.arrival import Arrival, Judged
from dray.manager.peers.ended_streams import reopen
from dray.manager.peers.going_on import check_ends, watch_ends, what_goes_on
from dray.manager.peers.telling import tell_source
from dray.manager.peers.waiting_for_room import Waiting
from dray.manager.queue.costs import cost_of_accepting
from dray.manager.queue.index import TAIL_BYTES, is_express, pack_tail, with_class, with_hops
from dray.manager.queue.parts import seen_in_record
from dray.model.classes import MessageClass, QueueKind
from dray.model.limits import HOPS_MAX
from dray.model.names import parse_queue_address
from dray.store.heap.heap import Extent
from dray.wire.frames import (
    MARK_LAST,
    MARK_SINGLE,
    Data,
    Envelope,
    OpenStream,
    Passed,
    StreamRefused,
    StreamState,
)
from dray.wire.record import COPY_DEAD_LETTER, RecordHeader, read_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dray.manager.context import Context
    from dray.manager.peers.peers import Strangers
    from dray.manager.peers.telling import Sources
    from dray.manager.queue.queues import Queue
    from dray.manager.session import Session

NOT_OPEN = "stream-not-open"
"""Why data is refused that comes on a connection that did not open the stream, or not last."""


def handle_open_stream(
    sources: Sources, strangers: Strangers, session: Session, _request_id: int, head: OpenStream
) -> None:
    """Say what of a stream is accepted, or why it cannot be taken now.

    A stream comes on the newest session that opened it and on no other: what its source said on an
    earlier one may still be on its way, and the answer given here does not count it.
    """
    context = sources.context
    key = StreamKey(session.peer_id, head.stream)
    newest = sources.confirmed.get(key)
    if (newest and newest.number > session.number) or head.stream in session.ended:
        refusal = peers.overtaken(context, session, newest, head)
        if refusal is not None:
            context.answer(session, 0, refusal)
        return
    # Streams do not lean on the line: one question may overtake another, and its answer counts.
    session.questions[head.stream] = max(head.question, session.questions.get(head.stream, 0))
    reopen(context, key)
    try:
        queue = _destination(context, head)
    except DrayError as error:
        session.streams.pop(head.stream, None)
        _refuse(context, session, head.stream, error)
        if isinstance(error, QueueNotFound):
            sources.missing_queues.add(session, head.stream, head.queue)
        # What has come of earlier messages is told all the same, also of a queue that is deleted.
        _tell_on(sources, session, key, newest)
        return
    session.streams[head.stream] = queue.number
    sources.missing_queues.opened(session, head.stream)
    if (head.sequence_id, head.acknowledged) > context.state.incoming.position(key):
        peers.tell_of_own_loss(strangers, session, head.stream)
    _say_position(context, session, queue, head.stream)
    _tell_on(sources, session, key, newest)


def _tell_on(sources: Sources, session: Session, key: StreamKey, newest: Session | None) -> None:
    """Tell the source on this session what became of its messages, and on no older one."""
    if newest is not None and newest is not session:
        newest.streams.pop(key.stream, None)
    session.told[key.stream] = 0
    sources.confirmed[key] = session
    sources.context.untold_ends.opened(key)
    tell_source(sources, key)


def _destination(context: Context, head: OpenStream) -> Queue:
    """The queue that a stream leads to; another manager's is that manager's outgoing queue here."""
    if parse_queue_address(head.queue).remote:
        queue = resolve(context, head.queue)
    else:
        found = context.state.queues.find(head.queue)
        if found is None:
            raise QueueNotFound(f"there is no queue {head.queue!r} here", queue=head.queue)
        queue = found
    if queue.kind is not QueueKind.PRIVATE and not queue.outgoing:
        raise AccessDenied(f"only the queue manager itself sends to {queue.name!r}")
    return queue


def _refuse(context: Context, session: Session, stream: int, error: DrayError) -> None:
    """Refuse a stream, and say how far it had come."""
    key = StreamKey(session.peer_id, stream)
    position, refused = context.state.incoming.position(key), context.state.outbox.refused(key)
    asked = session.questions.get(stream, 0)
    sent_in = peers.sent_in(context, session, key)
    refusal = StreamRefused(stream, error.code, str(error), *position, asked, refused, *sent_in)
    context.answer(session, 0, refusal)


def handle_data(
    sources: Sources, session: Session, _request_id: int, head: Data, *, body: memoryview
) -> None:
    """Admit what the predicate lets in, in the fact that also advances the stream; order ack."""
    context = sources.context
    queue = _open_queue(context, session, head.stream)
    if queue is None:
        return
    headers = check_records(head, body)
    check_ends(head)
    key = StreamKey(session.peer_id, head.stream)
    numbers = [envelope.number for envelope in head.envelopes]
    incoming = context.state.incoming
    begin = incoming.admissible(key, head.sequence_id, head.previous, numbers)
    incoming.visited(key, begin, context.now)
    if begin < len(numbers):
        try:
            life = peers.meet(context, session, incoming.life(key))
            _admit(context, queue, Arrival(key, head, headers, body, begin, life))
        except DrayError as error:
            _refuse(context, session, head.stream, error)
            if isinstance(error, QuotaExceeded):
                sources.waiting_for_room.add(_left_out(context, session, queue, head))
            elif isinstance(error, StoreFull):
                left_out = _left_out(context, session, queue, head)
                sources.waiting_for_room.add_for_disk(left_out, context.now)
            return
        if incoming.position(key).number < numbers[-1]:
            sources.waiting_for_room.add(_left_out(context, session, queue, head))
        else:
            sources.waiting_for_room.admitted(session, head.stream)
    _say_position(context, session, queue, head.stream)


def _left_out(context: Context, session: Session, queue: Queue, head: Data) -> Waiting:
    """What was not accepted of a frame: its source is told when there is room for it (R61)."""
    upto = context.state.incoming.position(StreamKey(session.peer_id, head.stream)).number
    left = [envelope.length for envelope in head.envelopes if envelope.number > upto]
    return Waiting(session, head.stream, queue, left[0], sum(left))


def tell_of_room(sources: Sources) -> None:
    """Tell sources that there is room again for what was left out."""
    context = sources.context
    for session, stream, queue, _, _ in sources.waiting_for_room.take(context.now):
        if session.streams.get(stream) == queue.number:
            _say_position(context, session, queue, stream, room=True)


def tell_of_new_queues(sources: Sources) -> None:
    """Tell sources that there is a queue now that was missing."""
    context = sources.context
    for session, stream, queue in sources.missing_queues.take():
        if stream not in session.streams and stream not in session.ended:
            _say_position(context, session, queue, stream, room=True)


def handle_passed(context: Context, session: Session, _request_id: int, head: Passed) -> None:
    """Go on over messages that do not come, and note which transactions have ended by that."""
    queue = _open_queue(context, session, head.stream)
    if queue is None:
        return
    key = StreamKey(session.peer_id, head.stream)
    if not context.state.incoming.admissible(key, head.sequence_id, head.previous, [head.upto]):
        going = {(each.origin, each.transaction) for each in head.going}
        ended = [
            (number, way, transaction)
            for number, way, transaction in context.state.ways.going_by(*key)
            if way.queue == queue.number and (way.origin, transaction) not in going
        ]
        context.record(
            Accepted(
                key.source, key.stream, head.sequence_id, head.upto, queue.number, context.now_us,
                b"", going=[(way.origin, 0) for _, way, _ in ended],
                passed=queue.outgoing and bool(ended),
                life=peers.meet(context, session, context.state.incoming.life(key)),
            )
        )  # fmt: skip
        for number, _, transaction in ended:
            queue.parts.source_went_on(number, transaction, ended=True)
        context.touch(queue)
    _say_position(context, session, queue, head.stream)


def _open_queue(context: Context, session: Session, stream: int) -> Queue | None:
    """The queue to which a stream leads that is open on a session; else its source is told."""
    number = session.streams.get(stream)
    if number is None:
        sentence = "the stream is not open on this connection"
        asked = session.questions.get(stream, 0)
        context.answer(session, 0, StreamRefused(stream, NOT_OPEN, sentence, question=asked))
        return None
    queue = context.state.queues.get(number)
    if queue is None:
        del session.streams[stream]
        _refuse(context, session, stream, QueueNotFound("the queue has been deleted", queue=""))
    return queue


def _judge(context: Context, queue: Queue, arrival: Arrival) -> list[Judged]:
    """Say of each new message where its record begins and why it may not enter, if it may not.

    What the computer's quota has no room for, and all behind it, is left out: it is not refused,
    and its source sends it again (S3-3); so is what a small log could not hold in one fact. A frame
    is cut where the source liked, so what fits enters. Raises `QuotaExceeded` if not even the first
    is judged.
    """
    judged: list[Judged] = []
    offset = sum(envelope.length for envelope in arrival.head.envelopes[: arrival.begin])
    size = 0
    # Mostly there is room for all, and then not every message need be asked about.
    total = len(arrival.body) - offset
    ledger = context.ledger
    roomy = ledger.has_own_room(queue, total) and ledger.has_account_room(queue, total)
    left = context.log_room.fact_bytes_max
    for at in range(arrival.begin, len(arrival.headers)):
        envelope = arrival.head.envelopes[at]
        why = _unfit(queue, envelope)
        if why is None and not roomy:
            if not (queue.outgoing or ledger.has_own_room(queue, size + envelope.length)):
                why = MessageClass.NACK_Q_EXCEED_QUOTA
            elif not ledger.has_account_room(queue, size + envelope.length):
                break
            else:
                size += envelope.length
        left -= cost_of_accepting(arrival.headers[at], refused=why is not None)
        if left < 0 and judged:
            break
        judged.append((at, offset, why))
        offset += envelope.length
    if not judged:
        ledger.check(queue, arrival.head.envelopes[arrival.begin].length)
    return judged


def _unfit(queue: Queue, envelope: Envelope) -> MessageClass | None:
    """Why a message may not enter a queue, however much room there is."""
    implicit = envelope.marks & MARK_SINGLE
    if queue.outgoing:
        over = envelope.move_count >= HOPS_MAX
        return MessageClass.NACK_HOP_COUNT_EXCEEDED if over else None
    if envelope.transaction and not implicit and not queue.options.transactional:
        return MessageClass.NACK_NOT_TRANSACTIONAL_Q
    if not envelope.transaction and queue.options.transactional:
        return MessageClass.NACK_NOT_TRANSACTIONAL_MSG
    return None


def _admit(context: Context, queue: Queue, arrival: Arrival) -> None:
    """Admit what may enter; what may not is consumed all the same, and its source told (R63)."""
    judged = _judge(context, queue, arrival)
    for run in _runs(queue, arrival, judged):
        _admit_run(context, queue, arrival, run)


def _runs(queue: Queue, arrival: Arrival, judged: list[Judged]) -> Iterator[list[Judged]]:
    """Cut a frame where an express message follows another: express ones stand before a fact's."""
    if not queue.takes_express:
        yield judged
        return
    express = [arrival.is_express(each, queue) for each in judged]
    start = 0
    for here in range(1, len(judged)):
        if express[here] and not express[here - 1]:
            yield judged[start:here]
            start = here
    yield judged[start:]


def _admit_run(context: Context, queue: Queue, arrival: Arrival, judged: list[Judged]) -> None:
    """Admit express messages and those that follow, in one fact, which names only the latter."""
    key, head, headers, body, _, life = arrival
    kept_here = {
        at
        for at, _, why in judged
        if why is not None and _stays(queue, headers[at], head.envelopes[at])
    }
    spans = arrival.spans(
        [each for each in judged if each[2] is None or each[0] in kept_here], queue
    )
    size = sum(span.length for span in spans)
    context.disk_room.check(size, fact_bytes=len(spans) * TAIL_BYTES)
    context.state.ways.check_room(arrival.way(at, queue) for at, _, _ in judged)
    # What cannot be read is refused before anything is placed for it.
    properties = {at: read_properties(body, headers[at], offset) for at, offset, _ in judged}
    places = iter(place_all(context.store, body, spans))
    departures = Departures(context)
    tails: list[bytes] = []
    dead: list[bytes] = []
    express: list[bytes] = []
    admitted: list[tuple[int, int]] = []
    ways = _Numbering(context, queue, arrival)
    tail_of = _tails(context, queue, arrival, ways)
    for at, offset, why in judged:
        header = headers[at]
        if why is not None and at not in kept_here:
            departures.tell(header, properties[at], why, way=arrival.way(at, queue))
            continue
        tail = tail_of(at, next(places))
        if why is not None:
            way = arrival.way(at, queue)
            departures.tell(header, properties[at], why | KEPT_THERE, way=way)
            dead.append(with_class(tail, why))
            continue
        if is_express(tail):
            express.append(tail)
        else:
            tails.append(tail)
            admitted.append((at, offset))
        if header.acknowledge and not queue.outgoing:
            arrived = MessageClass.ACK_REACH_QUEUE
            way = arrival.way(at, queue)
            departures.tell(header, properties[at], arrived, way=way, final=False)
    told = [each for _, _, confirmations in departures.confirmations() for each in confirmations]
    upto = head.envelopes[judged[-1][0]].number
    going, cut_short = what_goes_on(context, queue, arrival, judged)
    if express:
        admit(context, queue, b"".join(express))
    context.record(
        Accepted(
            key.source, key.stream, head.sequence_id, upto, queue.number, context.now_us,
            b"".join(tails), told, ways.new_origins, going, queue.outgoing and cut_short, life,
        )
    )  # fmt: skip
    if dead:
        bury(context, dead)
    if told:
        context.follow_up.to_tell[key] = None
    if admitted and queue.index.part_count and not queue.outgoing:
        _watch_parts(context, queue, arrival, admitted)
    if cut_short:
        watch_ends(context, queue, arrival, going, judged)
    if admitted or cut_short:
        context.touch(queue)


def _stays(queue: Queue, header: RecordHeader, envelope: Envelope) -> bool:
    """Whether what may not enter becomes a dead letter here, and not at its source.

    What is outside transactions has its dead letters where it could not be delivered
    (semantics 1.8).
    """
    outside = envelope.marks & MARK_SINGLE and not (queue.options.transactional or queue.outgoing)
    return bool(outside and header.copies & COPY_DEAD_LETTER)


class _Numbering:
    """Numbers of ways, also of those that the fact to be recorded is the first to use."""

    def __init__(self, context: Context, queue: Queue, arrival: Arrival) -> None:
        self._known = context.state.ways
        self._queue = queue
        self._arrival = arrival
        self._numbers: dict[bytes, int] = {}
        self.new_origins: list[str] = []

    def number(self, at: int) -> int:
        """The number of the way by which a message of the frame comes."""
        source = self._arrival.headers[at].source
        number = self._numbers.get(source)
        if number is None:
            way = self._arrival.way(at, self._queue)
            number = self._known.number(way)
            if not number:
                self.new_origins.append(way.origin)
                number = self._known.last + len(self.new_origins)
            self._numbers[source] = number
        return number


def _tails(
    context: Context, queue: Queue, arrival: Arrival, ways: _Numbering
) -> Callable[[int, Extent], bytes]:
    """How to make the tail of a message of the frame that is placed."""
    envelopes, headers, now_us = arrival.head.envelopes, arrival.headers, context.now_us
    transactional, outgoing = queue.options.transactional, queue.outgoing

    def tail(at: int, place: Extent) -> bytes:
        envelope, header = envelopes[at], headers[at]
        left_us = envelope.reaching_us if outgoing else envelope.remaining_us
        made = pack_tail(
            place,
            envelope.crc,
            header.number,
            envelope.transaction if transactional else 0,
            envelope.sent_us,
            now_us,
            max(1, now_us + left_us) if left_us >= 0 else 0,
            ways.number(at),
            envelope.ordinal if transactional else 0,
            envelope.marks if transactional else 0,
            envelope.message_class,
            header.part,
            0 if transactional else header.priority,
            header.copies,
            envelope.following if transactional else 0,
        )
        return with_hops(made, envelope.move_count + 1) if outgoing else made

    return tail


def _watch_parts(
    context: Context, queue: Queue, arrival: Arrival, admitted: list[tuple[int, int]]
) -> None:
    first = queue.next_lookup_id - len(admitted)
    for lookup_id, (at, offset) in enumerate(admitted, first):
        envelope, header = arrival.head.envelopes[at], arrival.headers[at]
        way = context.state.ways.number(arrival.way(at, queue))
        if header.part:
            seen = seen_in_record(header, arrival.body, offset)
            transaction = envelope.transaction
            queue.parts.added(seen._replace(lookup_id=lookup_id, transaction=transaction, way=way))
        ended = bool(envelope.marks & MARK_LAST)
        queue.parts.source_went_on(way, envelope.transaction, ended=ended)


def _say_position(
    context: Context, session: Session, queue: Queue, stream: int, *, room: bool = False
) -> None:
    key = StreamKey(session.peer_id, stream)
    position, refused = context.state.incoming.position(key), context.state.outbox.refused(key)
    asked = session.questions.get(stream, 0)
    sent_in = peers.sent_in(context, session, key)
    state = StreamState(
        stream, *position, queue.options.transactional, asked, room, refused, *sent_in
    )
    context.answer(session, 0, state)
