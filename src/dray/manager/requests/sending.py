"""Send: records are placed in the heap, checked, and wait for a commit to give them positions."""

from __future__ import annotations

from itertools import accumulate, groupby, repeat
from operator import attrgetter

from crc32c import crc32c as checksum

from dray.errors import (
    DrayError,
    InvalidArgument,
    Misuse,
    NotTransactional,
    ProtocolError,
    QuotaExceeded,
    SourceChanged,
    SourceUnreadable,
    StoreFull,
    TransactionUsage,
)
from dray.manager.change import arrival_wish, heap_kind_in
from dray.manager.context import MICROSECONDS, Context
from dray.manager.disk import place_batch
from dray.manager.entries import Staged, Wish
from dray.manager.queue import StoredQueue, cost_of_sending, seen_in_record
from dray.manager.requests.refusals import tell_of_full_queue
from dray.manager.session import Session
from dray.manager.transactions import (
    OpenTransaction,
    Transactions,
    check_plain_send,
    check_room,
    commit,
    note_sent,
    place_of_reserved,
    promised,
    staged_ahead,
)
from dray.model.arguments import no_sense
from dray.model.classes import Part
from dray.model.expiry import end_us
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind, kind_of
from dray.wire.alike import headers_of, read_alike
from dray.wire.file_frames import SendFile
from dray.wire.frames import Done
from dray.wire.message_frames import MARK_SINGLE, Reserve, Send
from dray.wire.record import (
    COPIES_BY_FLAGS,
    FLAG_TIMED,
    HEADER_BYTES,
    RecordHeader,
    read_header,
    read_properties,
)

_FILE_OF = attrgetter("extent.file")


def handle_send(
    transactions: Transactions, session: Session, request_id: int, head: Send, *, body: memoryview
) -> None:
    """Stage records in a transaction; without one, commit them as one of their own."""
    context = transactions.context
    if head.transaction == 0:
        if transactions.aborted_transactions and len(body):
            # Without a transaction of its own, a batch goes by the number of its first message.
            transactions.check_not_aborted(read_header(body).number)
        queue = context.state.queues.numbered(head.queue)
        staged = _stage(context, queue, head, body)
        # Nothing that is durable rests on an express message, so nothing is waited for.
        held = not staged or _send_at_once(transactions, queue, staged)
        context.answer(session, request_id, Done(len(staged)), held=held)
        return
    transaction = transactions.find_or_begin(session, head.transaction)
    transaction.send_frames += 1
    if transaction.doomed is not None:
        return
    try:
        _stage_in(context, transaction, head, body)
    except DrayError as error:
        transaction.doomed = error
        context.refuse(session, request_id, error)


def handle_send_file(
    transactions: Transactions,
    session: Session,
    request_id: int,
    head: SendFile,
    *,
    body: memoryview,
) -> None:
    """Stage one record of which the daemon has read the body from the client's file.

    An empty `body` says that the file could not be read so far, or not in time. The answer does not
    wait for the disk: it is there so that a client lends no more than is taken.
    """
    context = transactions.context
    if not head.transaction:
        raise no_sense("transaction", "one that takes the file", head.transaction)
    transaction = transactions.find_or_begin(session, head.transaction)
    transaction.send_frames += 1
    if transaction.doomed is None and not len(body):
        transaction.doomed = SourceUnreadable(
            "a lent file could not be read by the queue manager, or not in time; nothing of it was"
            " committed, send it again",
            path="",
        )
    if transaction.doomed is None:
        record = Send(head.queue, head.transaction, [head.size], [head.crc], guarded=False)
        try:
            _stage_in(context, transaction, record, body)
        except (InvalidArgument, ProtocolError) as error:
            transaction.doomed = SourceChanged(
                "a file changed while it was being sent; nothing of it was committed, send it"
                f" again ({error})",
                path="",
            )
        except DrayError as error:
            transaction.doomed = error
    if transaction.doomed is not None:
        context.refuse(session, request_id, transaction.doomed)
    else:
        context.answer(session, request_id, Done(1), held=False)


def _stage_in(context: Context, transaction: OpenTransaction, head: Send, body: memoryview) -> None:
    queue = context.state.queues.numbered(head.queue)
    if not queue.options.transactional:
        raise TransactionUsage(
            f"queue {queue.name!r} is not transactional: send to it outside a transaction"
        )
    staged = _stage(context, queue, head, body, transaction=transaction)
    transaction.sends.setdefault(queue.number, []).extend(staged)
    note_sent(queue, transaction, staged, guarded=head.guarded)
    if queue.outgoing:
        staged_ahead(context, queue, transaction, len(staged))


def _send_at_once(transactions: Transactions, queue: StoredQueue, staged: list[Staged]) -> bool:
    """Commit a batch under the number of its first message, by which its sender asks about it.

    Tell whether any of it lasts.
    """
    context = transactions.context
    number, lasts = staged[0].number, False
    marks = MARK_SINGLE if queue.options.transactional else 0
    for is_express, run in _by_kind(staged):
        if is_express:
            commit(context, 0, {queue.number: run})
            transactions.express_outcomes.add(number)
        else:
            commit(context, number, {queue.number: run}, marks=marks)
            lasts = True
    return lasts


def _by_kind(staged: list[Staged]) -> list[tuple[bool, list[Staged]]]:
    """The runs of express messages, and of others; those of one heap file are of one kind."""
    if len({*map(_FILE_OF, staged)}) == 1:
        return [(staged[0].express, staged)]
    return [(kind, list(run)) for kind, run in groupby(staged, key=attrgetter("express"))]


def handle_reserve(
    transactions: Transactions, session: Session, request_id: int, head: Reserve
) -> None:
    """Set room aside for a large message, so that it cannot fail for want of it at the end."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    transaction = transactions.find_or_begin(session, head.transaction)
    more = promised(context, head.size, head.longest)
    check_room(context, queue, more)
    transactions.reservations.reserve(transaction, queue, more)
    context.answer(session, request_id, Done())


def _make_room(
    context: Context,
    queue: StoredQueue,
    transaction: OpenTransaction | None,
    count: int,
    *,
    cost: int,
) -> None:
    """Count bytes about to be placed: first against what was reserved, then against the quotas."""
    beyond = count
    if transaction is not None:
        beyond = place_of_reserved(context, transaction, queue, count)
    if beyond:
        context.state.ledger.check(queue, beyond)
        context.room.check(beyond, fact_bytes=transaction.fact_bytes if transaction else cost)
        context.state.ledger.stage(queue, beyond)


def _stage(
    context: Context,
    queue: StoredQueue,
    head: Send,
    body: memoryview,
    *,
    transaction: OpenTransaction | None = None,
) -> list[Staged]:
    """Place a batch in one piece and check it; what is refused leaves nothing behind."""
    if not queue.accepts_sends:
        raise queue.refused_send()
    headers = _check_records(context, head, body)
    _check_use(queue, head, headers)
    cost = cost_of_sending(headers, outgoing=queue.route is not None)
    if transaction is not None:
        transaction.note_operations(context, len(headers), cost)
    # One message fits any log.
    elif len(headers) > 1 and cost > context.room.fact_bytes_max:
        raise Misuse("a batch of so many messages does not fit the log: send fewer")
    try:
        _make_room(context, queue, transaction, len(body), cost=cost)
    except QuotaExceeded as error:
        if error.quota == queue.quota_name:
            _check_sums(head, body)
            tell_of_full_queue(context, queue, head, headers=headers, body=body)
        raise
    kinds = _kinds_of(queue, headers, in_transaction=transaction is not None)
    places = _place(context, queue, head, body, kinds=kinds)
    return _staged(context, queue, head, headers=headers, places=places, body=body)


def _kinds_of(
    queue: StoredQueue, headers: list[RecordHeader], *, in_transaction: bool
) -> list[Kind]:
    """Into which kind of heap file each record goes."""
    lasting = [Kind.RECOVERABLE] * len(headers)
    if in_transaction or not queue.takes_express:
        return lasting
    found = [heap_kind_in(queue, each, in_transaction=False) for each in headers]
    # At an outgoing queue the batch is one group, all as lasting as the most lasting of it.
    return found if len(set(found)) == 1 or not queue.outgoing else lasting


def _place(
    context: Context, queue: StoredQueue, head: Send, body: memoryview, *, kinds: list[Kind]
) -> list[Extent]:
    """Place the records of which the bytes are counted already; what fails is counted no more."""
    try:
        places = place_batch(context.store, body, head.sizes, kinds)
    except StoreFull:
        context.state.ledger.stage(queue, -len(body))
        raise
    try:
        # The disk is at work already; what is damaged was never named and leaves nothing behind.
        _check_sums(head, body)
    except ProtocolError:
        for place in places:
            context.store.discard(place)
        context.state.ledger.stage(queue, -len(body))
        raise
    return places


def _staged(
    context: Context,
    queue: StoredQueue,
    head: Send,
    *,
    headers: list[RecordHeader],
    places: list[Extent],
    body: memoryview,
) -> list[Staged]:
    """Properties of each record that a commit needs."""
    now_us = context.now_us
    transactional, outgoing = queue.options.transactional, queue.route is not None
    if len(headers) > 1:
        parts, ranks, flags, _, _, _, numbers, _, asked, _, _ = zip(*headers, strict=True)
        if not any(parts) and not any(asked) and not any(map(FLAG_TIMED.__and__, {*flags})):
            priorities = repeat(0) if transactional else ranks
            copies = map(COPIES_BY_FLAGS.__getitem__, flags)
            times = repeat(now_us), repeat(0)
            return [*map(Staged, places, head.crcs, numbers, parts, priorities, *times, copies)]
    staged, offset = [], 0
    for header, place, crc in zip(headers, places, head.crcs, strict=True):
        timed, wanted = header.flags & FLAG_TIMED, header.acknowledge and not outgoing
        staged.append(
            Staged(
                place,
                crc,
                header.number,
                header.part,
                0 if transactional else header.priority,
                now_us,
                expires_us(header, body, offset, now_us, reaching=outgoing) if timed else 0,
                header.copies,
                0,
                seen_in_record(header, body, offset) if header.part else None,
                _arrival(header, body, offset, place) if wanted else None,
            )
        )
        offset += place.length
    return staged


def _arrival(header: RecordHeader, body: memoryview, offset: int, place: Extent) -> Wish | None:
    """The acknowledgment for the arrival in a queue of this manager."""
    return arrival_wish(header, read_properties(body, header, offset), kind_of(place.file))


def expires_us(
    header: RecordHeader, body: memoryview, offset: int, now_us: int, *, reaching: bool
) -> int:
    """When a message expires in the queue it joins now; `reaching` if that is an outgoing one.

    Where both timers run the shorter one counts (semantics 1.3); in its own queue the time to
    reach it is over.
    """
    properties = read_properties(body, header, offset)
    times = [properties.time_to_be_received]
    if reaching:
        times.append(properties.time_to_reach_queue)
    ends = [end_us(now_us, int(each * MICROSECONDS)) for each in times if each is not None]
    return min(ends, default=0)


def _check_records(context: Context, head: Send, body: memoryview) -> list[RecordHeader]:
    """Everything about them but their CRC32Cs, which take as long as the bytes are many."""
    sizes = head.sizes
    if len(sizes) != len(head.crcs) or len(sizes) > BATCH_MESSAGES_MAX:
        raise no_sense("sizes", "as many as crcs, and at most 10,000", len(sizes))
    if sum(sizes) != len(body) or (sizes and min(sizes) < HEADER_BYTES):
        raise no_sense("sizes", "the lengths of the records in the body", sizes)
    source = context.own_messages.source
    alike = read_alike(body, sizes) if len(sizes) > 1 else None
    if alike is not None and alike.first.source == source:
        read_properties(body, alike.first)
        return headers_of(alike, sizes)
    headers, offset = [], 0
    for size in sizes:
        header = read_header(body, offset)
        record_bytes = HEADER_BYTES + header.properties_bytes + header.body_bytes
        if record_bytes != size or header.source != source:
            raise no_sense("sizes", "the lengths of the records in the body", sizes)
        if header.properties_bytes:
            read_properties(body, header, offset)
        headers.append(header)
        offset += size
    return headers


def _check_sums(head: Send, body: memoryview) -> None:
    if len(head.sizes) == 1:
        records = [body]
    else:
        ends = [*accumulate(head.sizes)]
        records = [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    if [*map(checksum, records)] != head.crcs:
        raise ProtocolError("a message was damaged on the way: its CRC32C does not fit")


def _check_use(queue: StoredQueue, head: Send, headers: list[RecordHeader]) -> None:
    """Plain messages and large ones do not mix (S0-3)."""
    has_plain = False
    for header in headers:
        if header.part == Part.PLAIN:
            has_plain = True
        elif not queue.options.transactional:
            raise NotTransactional(
                f"queue {queue.name!r} is not transactional; large messages need one that is",
                queue=queue.name,
            )
    if has_plain and head.guarded:
        check_plain_send(queue)
