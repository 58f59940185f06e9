"""Move, reject, and take whole transactions: what else may be done with messages of a queue."""

from __future__ import annotations

from dray.errors import (
    AccessDenied,
    LargeMessageHole,
    LargeMessageMixing,
    MessageNotFound,
    Misuse,
    NotTransactional,
    TransactionUsage,
)
from dray.large.join import Assembly, SequenceKey, missing_in_words
from dray.manager.change import CommitFact, entries_at, forget_parts, record_of
from dray.manager.context import Context
from dray.manager.disk import bodies_in, envelopes_in
from dray.manager.entries import Entry, group_places, moved_tail, sent_anew, tail_of, unpack
from dray.manager.facts import LargeMoved, runs_of
from dray.manager.notices import NoticeKind
from dray.manager.queue import (
    MOVED_BYTES,
    REJECTED_BYTES,
    StoredQueue,
    cost_of_receiving,
    hold_parts,
    part_seen,
    watch_arrivals,
)
from dray.manager.requests.receiving import (
    check_may_take,
    check_transaction,
    deadline_of,
    hold_singles,
    wait,
)
from dray.manager.requests.sending import expires_us
from dray.manager.requests.statuses import take_back
from dray.manager.session import Session, Waiter
from dray.manager.transactions import (
    OpenTransaction,
    Transactions,
    check_plain_receive,
    check_plain_send,
)
from dray.model.arguments import no_sense
from dray.model.classes import Part, QueueKind
from dray.model.ids import ManagerId, join_id, split_id
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.model.names import SYSTEM
from dray.wire.frames import Done
from dray.wire.large_frames import LargeMove
from dray.wire.message_frames import (
    MARK_LARGE,
    MARK_LAST,
    Move,
    MoveMessages,
    ReceiveTransaction,
    Reject,
    TransactionMessages,
)
from dray.wire.record import FLAG_TIMED, HEADER_BYTES, read_header

_KEEPERS = (QueueKind.SYSTEM, QueueKind.JOURNAL)
"""Queues of messages that have ended already: what leaves them for another queue is sent anew."""
_LOOKED_AT_MAX = 10_000
"""Messages among which the rest of a transaction is looked for that was truncated: some ms."""


def handle_move(transactions: Transactions, session: Session, request_id: int, head: Move) -> None:
    """Move a message within its family of sub-queues; in a transaction, at commit."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    target = context.state.queues.numbered(head.target)
    if target.counted is not queue.counted or target is queue:
        raise Misuse(f"a message moves only between {queue.counted.name!r} and its sub-queues")
    check_may_take(queue)
    check_transaction(queue, head.transaction)
    packed = _free_at(queue, head.lookup_id)
    _check_is(context, queue, packed, head.message_id)
    entry = unpack(packed)
    if head.guarded and entry.part != Part.PLAIN:
        raise LargeMessageMixing(
            f"the message at position {head.lookup_id} of {queue.name!r} is a part of a large"
            " message, and the large message would lack it; move parts with a raw handle",
            queue=queue.name,
        )
    if not head.transaction:
        forget_parts(context, queue, [head.lookup_id])
        fact = CommitFact(context)
        fact.move(queue, [head.lookup_id], target)
        fact.record()
    else:
        owner = transactions.find_or_begin(session, head.transaction)
        owner.note_operations(context, 1, MOVED_BYTES)
        hold_parts(context.store, queue, [packed], 1)
        queue.index.hold(packed, owner.number)
        owner.moves.setdefault((queue.number, target.number), []).append(head.lookup_id)
    context.answer(session, request_id, Done(1))


def handle_move_messages(
    transactions: Transactions, session: Session, request_id: int, head: MoveMessages
) -> None:
    """Move messages to another queue, or drop kept ones, all in one fact."""
    context = transactions.context
    transactions.check_not_aborted(head.number)
    if head.number in transactions.open:
        raise no_sense("number", "that of no open transaction", head.number)
    queue = context.state.queues.numbered(head.queue)
    check_may_take(queue)
    target = context.state.queues.numbered(head.target) if head.target else None
    is_kept = queue.kind in _KEEPERS
    if target is None and not is_kept:
        raise Misuse(f"{queue.name!r} keeps no ended messages; receive or purge its messages")
    found = _Chosen(context, queue, head.lookup_ids)
    if len(found.lookup_ids) * MOVED_BYTES > context.room.fact_bytes_max:
        raise Misuse("so many messages do not fit the log; move fewer at a time")
    fact = CommitFact(context, head.number)
    if target is None:
        fact.drop(queue, found.lookup_ids)
    else:
        _check_target(context, found, target)
        tails = _moved_tails(context, found, target, head.number)
        fact.move_as(queue, found.lookup_ids, target, tails)
    for key in found.large:
        queue.parts.dropped(key)
    fact.record()
    context.follow_up.touch(queue)
    context.answer(session, request_id, Done(found.count))


class _Chosen:
    """Messages of a queue that are to leave it, with all parts of the large ones among them."""

    def __init__(self, context: Context, queue: StoredQueue, positions: list[int]) -> None:
        self.queue = queue
        self.entries: list[Entry] = []
        self.packed: list[bytes] = []
        self.large: dict[SequenceKey, Assembly] = {}
        self.count = 0
        for position in dict.fromkeys(positions):
            packed = _free_at(queue, position)
            entry = unpack(packed)
            if entry.part == Part.PLAIN:
                self._add([packed])
                continue
            key = part_seen(context.store, entry).key
            assembly = queue.parts.get(key)
            if assembly is None or not assembly.decided or assembly.held:
                raise MessageNotFound(
                    f"the large message at position {position} of {queue.name!r} has not come"
                    " whole yet, or a receiver holds it; try again later"
                )
            if key not in self.large:
                self.large[key] = assembly
                self._add([_free_at(queue, each) for each in assembly.lookup_ids()])

    @property
    def lookup_ids(self) -> list[int]:
        """Their positions."""
        return [entry.lookup_id for entry in self.entries]

    def _add(self, packed: list[bytes]) -> None:
        self.packed += packed
        self.entries += map(unpack, packed)
        self.count += 1


def _free_at(queue: StoredQueue, position: int) -> bytes:
    packed = queue.index.find(position)
    if packed is None:
        raise MessageNotFound(f"no message at position {position} of {queue.name!r} is free")
    return packed


def _moved_tails(context: Context, found: _Chosen, target: StoredQueue, number: int) -> list[bytes]:
    """The tails with which messages join another queue."""
    queue = found.queue
    is_alike = queue.options.transactional == target.options.transactional
    if queue.kind not in _KEEPERS and not target.outgoing and is_alike:
        return [moved_tail(tail_of(packed)) for packed in found.packed]
    transaction = number if target.options.transactional else 0
    places = group_places([entry.part for entry in found.entries])
    return [
        sent_anew(
            tail_of(packed),
            transaction=transaction,
            when_us=context.now_us,
            expires_us=_expires_anew(context, entry, target),
            place=place,
        )
        for packed, entry, place in zip(found.packed, found.entries, places, strict=True)
    ]


def _check_target(context: Context, found: _Chosen, target: StoredQueue) -> None:
    """Raise if the messages may not join a queue, or have no room there."""
    queue = found.queue
    if target is queue or target.kind in _KEEPERS or target.name.startswith(SYSTEM):
        raise AccessDenied(
            f"no message moves from {queue.name!r} to {target.name!r}; name another queue of users"
        )
    if len(found.large) < found.count:
        check_plain_send(target)
    for key, assembly in found.large.items():
        sequence_id = join_id(ManagerId(key.source.hex()), key.sequence)
        if not assembly.whole:
            missing = list(assembly.missing())
            raise LargeMessageHole(
                f"large message {sequence_id} in {queue.name!r} lacks {missing_in_words(missing)},"
                " so it cannot be moved; drop it, and have its sender send it again",
                sequence_id=sequence_id,
                missing=missing,
            )
        if not target.options.transactional:
            raise NotTransactional(
                f"queue {target.name!r} is not transactional; large messages need one that is",
                queue=target.name,
            )
        if target.parts.get(key) is not None:
            raise Misuse(f"large message {sequence_id} is in {target.name!r} already")
    if target.outgoing:
        _check_are_own(context, found)
    size = sum(entry.length for entry in found.entries)
    is_alike = target.account is queue.account
    if target.counted is not queue.counted and not (
        is_alike and context.state.ledger.has_own_room(target, size)
    ):
        context.state.ledger.check(target, size)


def _check_are_own(context: Context, found: _Chosen) -> None:
    """The numbers of messages of other managers mean nothing to the next one."""
    for entry in found.entries:
        header = read_header(context.store.read(entry.extent, length=HEADER_BYTES))
        if entry.route or header.source != context.own_messages.source:
            raise Misuse(
                f"the message at position {entry.lookup_id} of {found.queue.name!r} was sent at"
                " another queue manager, and only that one can send it as the same message; move it"
                " to a queue of this one, or save its body (`dray deadletter save`, `dray receive"
                " --to`) and send that"
            )


def _expires_anew(context: Context, entry: Entry, target: StoredQueue) -> int:
    """When a message expires that is sent now once more."""
    header, _ = record_of(context.store, entry)
    if not header.flags & FLAG_TIMED:
        return 0
    record = context.store.read(entry.extent, length=HEADER_BYTES + header.properties_bytes)
    return expires_us(header, memoryview(record), 0, context.now_us, reaching=target.outgoing)


def handle_reject(
    transactions: Transactions, session: Session, request_id: int, head: Reject
) -> None:
    """Mark what the transaction has received; at commit its sender is told (semantics 1.11)."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    owner = transactions.find_or_begin(session, head.transaction)
    if head.lookup_id not in owner.receives.get(queue.number, ()):
        raise MessageNotFound(
            f"the transaction has not received the message at position {head.lookup_id} of"
            f" {queue.name!r}: receive it first, then reject it"
        )
    for packed in entries_at(queue, [head.lookup_id]):
        _check_is(context, queue, packed, head.message_id)
    rejected = _with_its_parts(context, queue, owner, head.lookup_id)
    owner.note_operations(context, 0, REJECTED_BYTES * len(rejected))
    owner.rejected.update((queue.number, each) for each in rejected)
    context.answer(session, request_id, Done(len(rejected)))


def _check_is(context: Context, queue: StoredQueue, packed: bytes, message_id: str) -> None:
    """Raise `MessageNotFound` if another message is at the position; an empty id fits each."""
    if not message_id:
        return
    entry = unpack(packed)
    header = read_header(context.store.read(entry.extent, length=HEADER_BYTES))
    if (header.source.hex(), header.number) != split_id(message_id):
        raise MessageNotFound(
            f"a message other than {message_id} is at position {entry.lookup_id} of"
            f" {queue.name!r}: use the queue from which the message was read"
        )


def _with_its_parts(
    context: Context, queue: StoredQueue, owner: OpenTransaction, lookup_id: int
) -> list[int]:
    """The message, or all parts of the large message that was received with it."""
    for packed in entries_at(queue, [lookup_id]):
        entry = unpack(packed)
        if entry.part != Part.PLAIN:
            key = part_seen(context.store, entry).key
            assembly = queue.parts.get(key)
            if assembly is not None and key in owner.large.get(queue.number, ()):
                return assembly.lookup_ids()
    return [lookup_id]


def handle_receive_transaction(
    transactions: Transactions, session: Session, request_id: int, head: ReceiveTransaction
) -> None:
    """Answer with all messages of one transaction, or let the request wait for one to end."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    check_may_take(queue)
    if not head.transaction or not queue.options.transactional:
        raise TransactionUsage("receive a whole transaction in a transaction of your own")
    if not receive_transaction_now(transactions, session, request_id, head):
        deadline = deadline_of(context, head.timeout)
        wait(context, queue, Waiter(session, request_id, head, deadline))


def receive_transaction_now(
    transactions: Transactions, session: Session, request_id: int, head: ReceiveTransaction
) -> bool:
    """Answer if some transaction of which there is something can have no more; tell whether."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    check_plain_receive(queue)
    found = _first_ended(context, queue)
    if not found:
        return False
    owner = transactions.find_or_begin(session, head.transaction)
    cost = cost_of_receiving(context.store, queue, found)
    owner.note_operations(context, len(found), cost)
    entries = [unpack(packed) for packed in found]
    there = {entry.ordinal for entry in entries}
    last = entries[-1]
    count = last.ordinal + (0 if last.marks & MARK_LARGE else last.following)
    missing = [n for n in range(1, count + 1) if n not in there]
    fitting, total = 0, 0
    for entry in entries:
        total += entry.length
        if total > FRAME_BODY_BYTES_MAX:
            break
        fitting += 1
    envelopes = envelopes_in(b"".join(found))
    answer = TransactionMessages(envelopes[:fitting], envelopes[fitting:], missing)
    context.answer(session, request_id, answer, bodies_in(context.store, b"".join(found[:fitting])))
    hold_singles(context, queue, owner, found)
    return True


def _first_ended(context: Context, queue: StoredQueue) -> list[bytes]:
    """The messages of the first transaction of which no more can come, in order.

    Its last message is there, or was given up on the way (`arrival_routes.py`), or has left since.
    One some of whose messages another transaction holds is passed over. The first is the one that
    began first, unless the messages of others behind it are too many to look for the rest of it.
    """
    routes = context.state.arrival_routes
    held = {_group_of(packed) for packed in queue.index.held_entries()}
    # By one route transactions come one after another: only the first of each is looked at.
    groups: dict[int, tuple[int, list[bytes]]] = {}
    found: dict[int, list[bytes]] = {}

    def is_over(route: int) -> bool:
        return route in found or not route or routes.going(route) != groups[route][0]

    for seen, packed in enumerate(queue.index.available()):
        if found and seen >= _LOOKED_AT_MAX:
            return next(iter(found.values()))
        entry = unpack(packed)
        route, transaction = entry.route, entry.transaction
        if route in found or (route, transaction) in held:
            continue
        earlier, group = groups.setdefault(route, (transaction, []))
        if earlier == transaction:
            group.append(packed)
        if earlier != transaction or entry.marks & MARK_LAST or not transaction:
            found[route] = group
            first = next(filter(is_over, groups))
            if first in found:
                return found[first]
    return next((group for route, (_, group) in groups.items() if is_over(route)), [])


def _group_of(packed: bytes) -> tuple[int, int]:
    entry = unpack(packed)
    return entry.route, entry.transaction


def handle_large_move(
    transactions: Transactions, session: Session, request_id: int, head: LargeMove
) -> None:
    """Move a large message out of the transaction that holds it, whole and at once.

    A receiver moves one that it cannot handle, or one of which header or trailer mean nothing to a
    program that is older than the sender's. One fact tells of all parts by the runs of their
    positions, so it is shorter than that of their receipt (docs/decisions/0152 and 0159).
    """
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    target = context.state.queues.numbered(head.target)
    if target.counted is not queue.counted or target is queue:
        raise Misuse(f"a message moves only between {queue.counted.name!r} and its sub-queues")
    _, number = queue.index.held(head.lookup_id) or (b"", 0)
    owner = transactions.opened_by(session, number)
    keys = owner.large.get(queue.number, []) if owner is not None else []
    found = (queue.parts.get(key) for key in keys)
    assembly = next((each for each in found if each and each.header == head.lookup_id), None)
    if owner is None or assembly is None:
        context.answer(session, request_id, Done(0))
        return
    lookup_ids = assembly.lookup_ids()
    keys.remove(assembly.key)
    gone = frozenset(lookup_ids)
    owner.receives[queue.number] = [
        each for each in owner.receives[queue.number] if each not in gone
    ]
    queue.index.put_back(lookup_ids)
    queue.parts.dropped(assembly.key)
    take_back(transactions.works, owner, head.status_queue, assembly.key)
    _record_move(context, queue, lookup_ids, target)
    if head.unreadable:
        sequence_id = join_id(ManagerId(assembly.key.source.hex()), assembly.key.sequence)
        sentence = (
            f"the receiver could not read large message {sequence_id}, which was moved to"
            f" {target.name!r}; receive it from there with a newer program"
        )
        context.notices.add(NoticeKind.UNREADABLE_LARGE, queue.name, sentence)
    context.answer(session, request_id, Done(len(lookup_ids)))


def _record_move(
    context: Context, queue: StoredQueue, lookup_ids: list[int], target: StoredQueue
) -> None:
    first = target.next_lookup_id
    context.record(LargeMoved(queue.number, target.number, runs_of(lookup_ids), context.now_us))
    if queue.kind is QueueKind.SUB:
        context.follow_up.perhaps_unused[queue.number] = None
    for each in (queue, target):
        context.follow_up.touch(each)
    watch_arrivals(context.store, target, first)
