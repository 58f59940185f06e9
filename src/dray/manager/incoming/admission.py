"""The new messages of a frame that enter a queue, in the one fact that also advances their stream.

A refused message is consumed all the same, and its source is told why. Express messages stand
before those that the fact names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from dray.manager.change import KEPT_THERE, Departures, admit_express, bury
from dray.manager.context import Context
from dray.manager.disk import Span, place_all
from dray.manager.entries import TAIL_BYTES, Staged, is_express, pack_tail, with_class
from dray.manager.facts import Accepted
from dray.manager.incoming.arrival import Arrival, Judged
from dray.manager.incoming.open_transactions import follow_transactions, watch_ends
from dray.manager.queue import StoredQueue, cost_of_accepting, seen_in_record
from dray.model.classes import MessageClass
from dray.model.expiry import end_us
from dray.model.limits import HOPS_MAX
from dray.store.heap.heap import Extent
from dray.wire.message_frames import MARK_LAST, MARK_SINGLE, Envelope
from dray.wire.record import (
    COPY_DEAD_LETTER,
    HEADER_BYTES,
    Properties,
    RecordHeader,
    read_properties,
)


def admit_new(context: Context, queue: StoredQueue, arrival: Arrival) -> None:
    """Admit what may enter; what may not is consumed all the same, and its source told (R63)."""
    judged = _judge(context, queue, arrival)
    for run in _runs(queue, arrival, judged):
        _admit_run(context, queue, arrival, run)


def _judge(context: Context, queue: StoredQueue, arrival: Arrival) -> list[Judged]:
    """Say of each new message where its record begins and why it may not enter, if it may not.

    Messages beyond the quota of the computer, and all behind them, are left out: they are not
    refused, and their source sends them again (S3-3); so are messages that a small log could not
    hold in one fact. A frame is cut where the source liked, so what fits enters. Raises
    `QuotaExceeded` if not even the first is judged.
    """
    judged: list[Judged] = []
    widths = arrival.widths
    offset = sum(widths[: arrival.begin])
    size = 0
    # Mostly there is room for all, and then not every message need be asked about.
    total = arrival.new_bytes
    ledger = context.state.ledger
    roomy = ledger.has_own_room(queue, total) and ledger.has_account_room(queue, total)
    left = context.room.fact_bytes_max
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
        offset += widths[at]
    if not judged:
        ledger.check(queue, arrival.head.envelopes[arrival.begin].length)
    return judged


def _unfit(queue: StoredQueue, envelope: Envelope) -> MessageClass | None:
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


def _runs(queue: StoredQueue, arrival: Arrival, judged: list[Judged]) -> Iterator[list[Judged]]:
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


def _admit_run(
    context: Context, queue: StoredQueue, arrival: Arrival, judged: list[Judged]
) -> None:
    """Admit express messages and those that follow, in one fact, which names only the latter."""
    key, head, headers, body, _, incarnation, _ = arrival
    kept_here = {
        at
        for at, _, why in judged
        if why is not None and _stays(queue, headers[at], head.envelopes[at])
    }
    entering = [each for each in judged if each[2] is None or each[0] in kept_here]
    spans = [] if arrival.placed is not None else arrival.spans(entering, queue)
    size = sum(span.length for span in spans)
    context.room.check(size, fact_bytes=len(entering) * TAIL_BYTES)
    _check_routes(context, queue, arrival, judged)
    # A record that cannot be read is refused before anything is placed for it.
    properties = _properties(headers, body, judged)
    places = iter(_places(context, arrival, entering, spans))
    departures = Departures(context)
    tails: list[bytes] = []
    dead: list[bytes] = []
    express: list[bytes] = []
    admitted: list[tuple[int, int]] = []
    routes = _Numbering(context, queue, arrival)
    tail_of = _tails(context, queue, arrival, routes)
    may_express = queue.takes_express
    for at, offset, why in judged:
        header = headers[at]
        if why is not None and at not in kept_here:
            departures.tell(header, properties[at], why, route=arrival.route(at, queue))
            continue
        tail = tail_of(at, next(places))
        if why is not None:
            route = arrival.route(at, queue)
            departures.tell(header, properties[at], why | KEPT_THERE, route=route)
            dead.append(with_class(tail, why))
            continue
        if may_express and is_express(tail):
            express.append(tail)
        else:
            tails.append(tail)
            admitted.append((at, offset))
        if header.acknowledge and not queue.outgoing:
            arrived = MessageClass.ACK_REACH_QUEUE
            route = arrival.route(at, queue)
            departures.tell(header, properties[at], arrived, route=route, final=False)
    told = [each for _, _, confirmations in departures.confirmations() for each in confirmations]
    upto = head.envelopes[judged[-1][0]].number
    going, cut_short = follow_transactions(context, queue, arrival, judged)
    if express:
        admit_express(context, queue, b"".join(express))
    context.record(
        Accepted(
            key.source, key.stream, head.sequence_id, upto, queue.number, context.now_us,
            b"".join(tails), told, routes.new_origins, going, queue.outgoing and cut_short,
            incarnation,
        )
    )  # fmt: skip
    _give_up_refused(context, arrival, judged, kept_here)
    if dead:
        bury(context, dead)
    if told:
        context.follow_up.to_tell[key] = None
    if admitted and queue.index.part_count and not queue.outgoing:
        _watch_parts(context, queue, arrival, admitted)
    if cut_short:
        watch_ends(context, queue, arrival, going, judged)
    if admitted or cut_short:
        context.follow_up.touch(queue)


def _properties(
    headers: list[RecordHeader], body: memoryview, judged: list[Judged]
) -> dict[int, Properties]:
    """The properties of each record; those that a neighbour has, too, are not read again."""
    found: dict[int, Properties] = {}
    said = None
    for at, offset, _ in judged:
        header = headers[at]
        begin = offset + HEADER_BYTES
        says = body[begin : begin + header.properties_bytes].tobytes()
        if says != said:
            said, properties = says, read_properties(body, header, offset)
        found[at] = properties
    return found


def _check_routes(
    context: Context, queue: StoredQueue, arrival: Arrival, judged: list[Judged]
) -> None:
    """Raise `Misuse` if a message comes by a new route, and its caller may have no more."""
    wanted = (arrival.route(at, queue) for at, _, _ in judged)
    of_caller = partial(context.state.identity.of_same_caller, arrival.key.source)
    context.state.arrival_routes.check_room(wanted, of_caller)


def _places(
    context: Context, arrival: Arrival, entering: list[Judged], spans: list[Span]
) -> list[Extent]:
    """The places of the records that enter: placed now, unless they came ahead of the frame."""
    if arrival.placed is not None:
        return [arrival.placed.extents[at] for at, _, _ in entering]
    return place_all(context.store, arrival.body, spans)


def _give_up_refused(
    context: Context, arrival: Arrival, judged: list[Judged], kept_here: set[int]
) -> None:
    """Give up the records of refused messages that came ahead of the frame."""
    extents = () if arrival.placed is None else arrival.placed.extents
    for at, _, why in judged if extents else ():
        if why is not None and at not in kept_here:
            context.store.discard(extents[at])


def _stays(queue: StoredQueue, header: RecordHeader, envelope: Envelope) -> bool:
    """Whether what may not enter becomes a dead letter here, and not at its source.

    A message outside transactions has its dead letter where it could not be delivered (semantics
    1.8).
    """
    outside = envelope.marks & MARK_SINGLE and not (queue.options.transactional or queue.outgoing)
    return bool(outside and header.copies & COPY_DEAD_LETTER)


class _Numbering:
    """Numbers of routes, also of those that the fact to be recorded is the first to use."""

    def __init__(self, context: Context, queue: StoredQueue, arrival: Arrival) -> None:
        self._known = context.state.arrival_routes
        self._queue = queue
        self._arrival = arrival
        self.by_source: dict[bytes, int] = {}
        """The numbers that are known; the messages of a frame mostly have one source."""
        self.new_origins: list[str] = []

    def learn(self, at: int) -> int:
        """Find the number of the route by which a message of the frame comes, and keep it."""
        route = self._arrival.route(at, self._queue)
        number = self._known.number(route)
        if not number:
            self.new_origins.append(route.origin)
            number = self._known.last + len(self.new_origins)
        self.by_source[self._arrival.headers[at].source] = number
        return number


def _tails(
    context: Context, queue: StoredQueue, arrival: Arrival, routes: _Numbering
) -> Callable[[int, Extent], bytes]:
    """The function that makes the tail of a message of the frame that is placed."""
    envelopes, headers, now_us = arrival.head.envelopes, arrival.headers, context.now_us
    transactional, outgoing = queue.options.transactional, queue.outgoing
    known = routes.by_source

    def tail(at: int, place: Extent) -> bytes:
        envelope, header = envelopes[at], headers[at]
        route = known.get(header.source) or routes.learn(at)
        left_us = envelope.reaching_us if outgoing else envelope.remaining_us
        expires_us = end_us(now_us, left_us) if left_us >= 0 else 0
        record = Staged(
            place, envelope.crc, header.number, header.part,
            0 if transactional else header.priority, envelope.sent_us, expires_us,
            header.copies, envelope.message_class,
        )  # fmt: skip
        hops = min(envelope.move_count, HOPS_MAX) + 1 if outgoing else 0
        if not transactional:
            return pack_tail(record, 0, now_us, route=route, hops=hops)
        return pack_tail(
            record,
            envelope.transaction,
            now_us,
            route=route,
            ordinal=envelope.ordinal,
            marks=envelope.marks,
            following=envelope.following,
            hops=hops,
        )

    return tail


def _watch_parts(
    context: Context, queue: StoredQueue, arrival: Arrival, admitted: list[tuple[int, int]]
) -> None:
    first = queue.next_lookup_id - len(admitted)
    for lookup_id, (at, offset) in enumerate(admitted, first):
        envelope, header = arrival.head.envelopes[at], arrival.headers[at]
        route = context.state.arrival_routes.number(arrival.route(at, queue))
        if header.part:
            seen = seen_in_record(header, arrival.body, offset)
            transaction = envelope.transaction
            queue.parts.added(
                seen._replace(lookup_id=lookup_id, transaction=transaction, route=route)
            )
        ended = bool(envelope.marks & MARK_LAST)
        queue.parts.source_went_on(route, envelope.transaction, ended=ended)
