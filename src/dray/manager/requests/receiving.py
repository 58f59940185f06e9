"""Receive, peek, settle, purge: messages leave queues, or are looked at.

A receive that finds nothing waits as a `Waiter` at its queue, served in order of arrival when
something becomes available, or told of its timeout. A transaction holds the messages that it takes
until its outcome. Without one a message is claimed: its receiver confirms that it has come, and the
fact that it left is durable before that is answered. An unconfirmed claim goes back with its
session.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from itertools import accumulate, islice, takewhile
from typing import assert_never

from dray.errors import (
    AccessDenied,
    MessageNotFound,
    Misuse,
    QueueRecreated,
    ReceiveTimeout,
    TransactionUsage,
)
from dray.large.join import Assembly
from dray.manager.change import (
    drop_large,
    first_portion,
    leave,
    leave_all,
    purge,
    purge_message,
    purge_unreadable,
    refuse_damaged,
)
from dray.manager.context import Context
from dray.manager.disk import bodies_in, envelopes_in
from dray.manager.entries import lengths_in, lookup_id_of, part_of, place_in, positions_in, unpack
from dray.manager.queue import (
    INTERNAL,
    Lookups,
    Sought,
    StoredQueue,
    cost_of_receiving,
    hold_parts,
    part_seen,
)
from dray.manager.session import Session, Waiter
from dray.manager.transactions import OpenTransaction, Transactions, check_plain_receive
from dray.manager.works import Works
from dray.model.arguments import no_sense
from dray.model.callers import Caller
from dray.model.classes import MessageClass, Part
from dray.model.ids import split_id
from dray.model.limits import (
    BATCH_MESSAGES_MAX,
    FRAME_BODY_BYTES_MAX,
    WAITERS_PER_QUEUE_MAX,
    WAITERS_SHARE,
)
from dray.wire.frames import Done
from dray.wire.message_frames import Messages, Receive, Settle
from dray.wire.queue_frames import PurgeQueue
from dray.wire.record import HEADER_BYTES, read_header, read_properties
from dray.wire.selections import (
    SelectAt,
    SelectByCorrelation,
    SelectById,
    SelectFirst,
    SelectNext,
    SelectOne,
    SelectRange,
    told,
)

_FITTED_AT_ONCE = 128
"""So many messages are looked at together, to see how many fit a frame."""


class Receives:
    """Receives of plain messages: held in transactions, and looked for by their ids."""

    def __init__(self, transactions: Transactions) -> None:
        """Begin with nothing looked for."""
        self.context = transactions.context
        self.transactions = transactions
        self.lookups = Lookups(self.context.store)
        """Positions of messages by their ids, while somebody asks for them."""

    def handle(self, session: Session, request_id: int, head: Receive) -> None:
        """Answer with messages, or let the request wait."""
        context = self.context
        queue = context.state.queues.numbered(head.queue)
        _check_receive(queue, head)
        sought = self._sought(queue, head, place=session.caller.place)
        named = None if sought is None else (sought.lookup.kind, sought.key)
        deadline = deadline_of(context, head.timeout)
        waiter = Waiter(session, request_id, head, deadline, named)
        if sought is None or sought.lookup.read_on():
            self.answer_or_wait(waiter)
        else:
            self.lookups.unread.setdefault(sought.lookup, []).append(waiter)

    def answer_or_wait(self, waiter: Waiter) -> None:
        """Answer a receive whose queue is read, or let it wait."""
        head = waiter.head
        assert isinstance(head, Receive)
        if self.answer_now(waiter.session, waiter.request_id, head):
            return
        queue = self.context.state.queues.numbered(head.queue)
        if isinstance(head.select, SelectOne) and not head.timeout:
            raise MessageNotFound(f"no available message in {queue.name!r} has {told(head.select)}")
        wait(self.context, queue, waiter)

    def _sought(self, queue: StoredQueue, head: Receive, *, place: str = "") -> Sought | None:
        """Tell where to look for the message that a receive names by an id; None for any other."""
        try:
            return self.lookups.sought(queue, head.select, self.context.now, place=place)
        except Misuse as error:
            raise MessageNotFound(f"no message in {queue.name!r} has that id: {error}") from error

    def answer_now(self, session: Session, request_id: int, head: Receive) -> bool:
        """Answer a receive if it can be answered; tell whether it was."""
        context, transactions = self.context, self.transactions
        queue = context.state.queues.numbered(head.queue)
        if head.guarded and not head.peek:
            check_plain_receive(queue)
        candidates = self._candidates(queue, head)
        found = within_frame(candidates, head.max_messages, head.max_bytes)
        at_once = not head.peek and (head.claim or not head.transaction)
        if at_once:
            found = first_portion(context, found, to_journal=queue.keeper is not None)
        if not found:
            return False
        packed = b"".join(found)
        envelopes, body = envelopes_in(packed), bodies_in(context.store, packed)
        refuse_damaged(context, queue, packed, body, thorough=at_once)
        if not head.peek:
            if head.claim:
                # As many as one fact can tell of, so nothing has to be counted.
                owner = transactions.find_or_begin(session, head.transaction, claim=True)
                owner.gathered(len(found))
                hold_singles(context, queue, owner, found)
            elif head.transaction:
                _take(context, queue, transactions.find_or_begin(session, head.transaction), found)
            else:
                leave(context, queue, _noted(context, queue, found), MessageClass.ACK_RECEIVE)
        # Nobody sees a claimed message before its commit, and that waits for the sync.
        context.answer(session, request_id, Messages(envelopes), body, held=not head.claim)
        return True

    def _candidates(self, queue: StoredQueue, head: Receive) -> Iterator[bytes]:
        match head.select:
            case SelectFirst():
                return queue.index.available()
            case SelectRange(after):
                return _up_to_held(queue, after)
            case SelectNext(after, priority):
                if priority is not None:
                    return queue.index.of_priority(priority, after)
                return queue.index.in_position_order(after)
            case SelectAt(lookup_id):
                packed = queue.index.find(lookup_id)
                return iter(() if packed is None else (packed,))
            case SelectById() | SelectByCorrelation():
                sought = self._sought(queue, head)
                assert sought is not None
                found = sought.lookup.positions(sought.key)
                return (packed for packed in found if _is_named(self.context, packed, head.select))
        assert_never(head.select)


def deadline_of(context: Context, timeout: float | None) -> float | None:
    """When a receive that begins to wait now gives up."""
    return None if timeout is None else context.now + max(0.0, timeout)


def wait(context: Context, queue: StoredQueue, waiter: Waiter) -> None:
    """Keep a request until something comes; without patience, say that nothing is there."""
    if waiter.deadline is not None and waiter.deadline <= context.now:
        raise nothing_came(queue, waiter.head.timeout)
    if len(queue.waiters) >= WAITERS_PER_QUEUE_MAX:
        raise Misuse(f"{WAITERS_PER_QUEUE_MAX} receives already wait at {queue.name!r}")
    _check_share(queue, waiter.session.caller)
    queue.waiters.add(waiter)
    waiter.session.waiting_at[queue.number] = None


def _check_share(queue: StoredQueue, caller: Caller) -> None:
    """Refuse a caller that would keep others from waiting at a queue."""
    share = WAITERS_PER_QUEUE_MAX // WAITERS_SHARE
    if not caller.owner and queue.waiters.count_of(caller.place) >= share:
        raise Misuse(
            f"{share} receives of {caller.name} already wait at {queue.name!r}; end some of them"
        )


def nothing_came(queue: StoredQueue, timeout: float | None) -> ReceiveTimeout:
    """The error of a receive whose time is over."""
    said = f"no message became available in {queue.name!r} within {timeout or 0:g} s"
    return ReceiveTimeout(said)


def handle_settle(
    transactions: Transactions, session: Session, request_id: int, head: Settle
) -> None:
    """Receive everything up to a position; of large messages only those that are decided."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    check_may_take(queue)
    check_transaction(queue, head.transaction)
    check_born(
        queue,
        head.born,
        "the position was read in the earlier queue, so nothing was settled; read this queue from"
        " its first position",
    )
    plain = _plain_upto(queue, head.after, head.upto)
    if head.transaction:
        owner = transactions.find_or_begin(session, head.transaction)
        _take(context, queue, owner, plain)
        large = 0 if head.plain else _hold_large_upto(context, queue, owner, head)
        count = len(plain) + large
        context.answer(session, request_id, Done(count))
        return
    leaving = _noted(context, queue, plain)
    if not head.plain:
        leaving += drop_large(queue, head.upto + 1, head.after)
    transactions.works.carry_on(_settle(context, queue, leaving), (session, request_id))


def _settle(
    context: Context, queue: StoredQueue, lookup_ids: list[int]
) -> Generator[None, None, Done]:
    """Work: let go what its reader has had."""
    yield from leave_all(context, queue, lookup_ids, MessageClass.ACK_RECEIVE)
    return Done(len(lookup_ids))


def handle_purge(works: Works, session: Session, request_id: int, head: PurgeQueue) -> None:
    """Remove everything, or one message; what is held only if its holder aborts (R11)."""
    context = works.context
    queue = context.state.queues.numbered(head.queue)
    check_born(queue, head.born, "nothing was purged; look at the queue again")
    if queue.number in INTERNAL and queue.index.aside_count and not head.message_id:
        works.carry_on(purge_unreadable(context, queue), (session, request_id))
        return
    if not queue.outgoing:
        check_may_take(queue)
    if head.message_id:
        works.carry_on(purge_message(context, queue, head), (session, request_id))
    else:
        works.carry_on(purge(context, queue, head.before), (session, request_id))


def check_born(queue: StoredQueue, born: int, then: str) -> None:
    """Raise `QueueRecreated` if a queue is not the one that was born with a number; 0 is any.

    `then` ends the sentence: what was not done, and what to do.
    """
    if born and born != queue.born:
        raise QueueRecreated(
            f"queue {queue.name!r} was deleted and made again, or restored from a backup: {then}",
            queue=queue.name,
            born=queue.born,
            expected=born,
        )


def check_transaction(queue: StoredQueue, transaction: int) -> None:
    """Raise `TransactionUsage` where a transaction is given and none can be (R8)."""
    if transaction and not queue.options.transactional:
        raise TransactionUsage(
            f"queue {queue.name!r} is not transactional: receive from it outside a transaction"
        )


def check_may_take(queue: StoredQueue) -> None:
    """Raise `AccessDenied` for queues whose messages only the manager itself takes."""
    if queue.outgoing or queue.number in INTERNAL:
        whose = "an outgoing queue" if queue.outgoing else "the queue manager's own"
        raise AccessDenied(f"{queue.name!r} is {whose}: its messages can only be peeked at")


def _check_receive(queue: StoredQueue, head: Receive) -> None:
    if not 1 <= head.max_messages <= BATCH_MESSAGES_MAX:
        raise Misuse(f"max_messages must be 1 to {BATCH_MESSAGES_MAX}, not {head.max_messages}")
    if not head.claim:
        check_transaction(queue, head.transaction)
    elif head.peek or not head.transaction:
        raise no_sense(
            "claim", "a receive with a number of its own that takes what it gives", head.claim
        )
    if head.peek:
        return
    check_may_take(queue)


def _up_to_held(queue: StoredQueue, after: int) -> Iterator[bytes]:
    """Messages after a position, up to the first that a transaction holds.

    A reader by position settles up to the last message that it saw; a held message may come back
    before it.
    """
    held = min((each for each in queue.index.held_positions() if each > after), default=None)
    candidates = queue.index.in_position_order(after)
    if held is None:
        return candidates
    return takewhile(lambda packed: lookup_id_of(packed) < held, candidates)


def _is_named(context: Context, packed: bytes, select: SelectById | SelectByCorrelation) -> bool:
    """Whether a message that was looked up is the one: others may have its key."""
    extent, _ = place_in(packed)
    header = read_header(context.store.read(extent, length=HEADER_BYTES))
    if isinstance(select, SelectById):
        return header.source.hex() == split_id(select.id)[0]
    record = context.store.read(extent, length=HEADER_BYTES + header.properties_bytes)
    correlation_id = read_properties(record, header).correlation_id
    return (
        correlation_id is not None and correlation_id.casefold() == select.correlation_id.casefold()
    )


def within_frame(candidates: Iterator[bytes], max_messages: int, max_bytes: int) -> list[bytes]:
    """As many as were asked for and fit one frame, but one at least."""
    if max_messages == 1:
        return list(islice(candidates, 1))
    room = min(max_bytes or FRAME_BODY_BYTES_MAX, FRAME_BODY_BYTES_MAX)
    found: list[bytes] = []
    total = 0
    while some := list(islice(candidates, min(_FITTED_AT_ONCE, max_messages - len(found)))):
        totals = list(accumulate(lengths_in(b"".join(some)), initial=total))
        fit = bisect_right(totals, room) - 1
        found += some[: max(fit, int(not found))]
        if fit < len(some):
            break
        total = totals[-1]
    return found


def _take(context: Context, queue: StoredQueue, owner: OpenTransaction, found: list[bytes]) -> None:
    owner.note_operations(context, len(found), cost_of_receiving(context.store, queue, found))
    hold_singles(context, queue, owner, found)


def hold_singles(
    context: Context, queue: StoredQueue, owner: OpenTransaction, found: list[bytes]
) -> None:
    """Hold messages for a transaction, parts of large ones each by itself."""
    hold_parts(context.store, queue, found, 1)
    hold(queue, owner, found)
    owner.singles.setdefault(queue.number, []).extend(positions_in(b"".join(found)))


def _noted(context: Context, queue: StoredQueue, found: list[bytes]) -> list[int]:
    """Tell the large messages of a queue that parts are about to leave it; the positions of all."""
    for packed in found:
        if part_of(packed) != Part.PLAIN:
            queue.parts.removed(part_seen(context.store, unpack(packed)))
    return [lookup_id_of(packed) for packed in found]


def entries_of(queue: StoredQueue, assembly: Assembly) -> list[bytes]:
    """The packed entries of all parts that are there, header first and trailer last."""
    ordered = [assembly.header, *assembly.fragments, assembly.trailer]
    return [
        entry
        for lookup_id in ordered
        if lookup_id and (entry := queue.index.find(lookup_id)) is not None
    ]


def hold_whole(
    context: Context, queue: StoredQueue, owner: OpenTransaction, assembly: Assembly
) -> list[bytes]:
    """Hold all parts of a large message for a transaction; give their entries, header first."""
    packed = entries_of(queue, assembly)
    owner.note_operations(context, len(packed), cost_of_receiving(context.store, queue, packed))
    owner.large.setdefault(queue.number, []).append(assembly.key)
    assembly.held = 1
    hold(queue, owner, packed)
    return packed


def hold(queue: StoredQueue, owner: OpenTransaction, found: Iterable[bytes]) -> None:
    """Take entries out of sight until the transaction ends."""
    packed = b"".join(found)
    queue.index.hold(packed, owner.number)
    owner.receives.setdefault(queue.number, []).extend(positions_in(packed))


def _plain_upto(queue: StoredQueue, after: int, upto: int) -> list[bytes]:
    entries = queue.index.in_position_order(after)
    within = takewhile(lambda packed: lookup_id_of(packed) <= upto, entries)
    if not len(queue.parts):
        return list(within)
    return [packed for packed in within if part_of(packed) == Part.PLAIN]


def _hold_large_upto(
    context: Context, queue: StoredQueue, owner: OpenTransaction, head: Settle
) -> int:
    """Hold the large messages that begin in a range, if they are decided and free."""
    count = 0
    within = takewhile(lambda each: each.first <= head.upto, queue.parts.ready())
    for assembly in list(within):
        if head.after < assembly.first:
            count += len(assembly.lookup_ids())
            hold_whole(context, queue, owner, assembly)
    return count
