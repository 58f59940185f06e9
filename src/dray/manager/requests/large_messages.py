"""Large messages at the manager: take one whole, list them, read a range of a part, tell holes.

The parts stay single messages of the queue; a receive holds them all for the transaction and tells
the client where they are. One with a hole gets a status message that says so, is told, and is then
rejected by the receiver that was told, in a transaction of its own; so it is told once unless that
receiver dies, and the next large message is not harmed (S0-15, S0-16, `statuses.py`). A part whose
bytes are damaged is put aside, and the message has a hole from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import crc32c

from dray.errors import LargeMessageHole, MessageNotFound, Misuse, TransactionUsage
from dray.large.join import Assembly, PartSeen, SequenceKey, missing_in_words
from dray.manager.change import set_aside
from dray.manager.context import Context
from dray.manager.disk import bodies_in, envelopes_in, records_of_answer
from dray.manager.entries import lengths_in, lookup_id_of, part_of, place_in, unpack
from dray.manager.events import Into
from dray.manager.peers import Holes
from dray.manager.queue import StoredQueue
from dray.manager.requests.receiving import (
    check_may_take,
    deadline_of,
    entries_of,
    hold_whole,
    wait,
)
from dray.manager.requests.statuses import Statuses, statuses_of
from dray.manager.session import Session, Waiter
from dray.manager.transactions import Transactions, take
from dray.manager.works import Works
from dray.model.arguments import no_sense
from dray.model.classes import MessageClass
from dray.model.ids import ManagerId, join_id, split_id
from dray.model.limits import (
    BATCH_MESSAGES_MAX,
    LARGE_TAKEN_BYTES_MAX,
    LARGE_TAKEN_MAX,
    PROPERTIES_BYTES_MAX,
)
from dray.store.heap.heap import Extent
from dray.wire.file_frames import Copied, CopyPart
from dray.wire.frames import Done
from dray.wire.large_frames import (
    LargeAt,
    LargeEntry,
    LargeFound,
    LargeList,
    LargeListed,
    LargeReceive,
    LargeTaken,
    PartAt,
    PartDamaged,
    Range,
    ReadPart,
)
from dray.wire.message_frames import FOLLOWING_MAX, MARK_LARGE, Envelope
from dray.wire.record import HEADER_BYTES
from dray.wire.selections import SelectByCorrelation, SelectBySequence, SelectFirst, told


class LargeReceives:
    """Options of a receive of a large message: hold it in a transaction, have its holes filled."""

    def __init__(self, transactions: Transactions, holes: Holes) -> None:
        """Use both of one turn."""
        self.context = transactions.context
        self.transactions = transactions
        self.holes = holes

    def handle(self, session: Session, request_id: int, head: LargeReceive) -> None:
        """Answer with a large message, or let the request wait for one."""
        context = self.context
        queue = context.state.queues.numbered(head.queue)
        if not queue.options.transactional:
            raise TransactionUsage(
                f"queue {queue.name!r} is not transactional: no large message in it"
            )
        if not head.peek and not head.transaction:
            raise no_sense("transaction", "one that takes the large message", head.transaction)
        if not 1 <= head.count <= LARGE_TAKEN_MAX or (
            head.count > 1 and (head.peek or head.reject)
        ):
            raise no_sense("count", f"1, or up to {LARGE_TAKEN_MAX} messages to take", head.count)
        if not head.peek:
            check_may_take(queue)
        if self.receive_now(session, request_id, head, asked_now=True):
            return
        if not isinstance(head.select, SelectFirst) and not head.timeout:
            raise MessageNotFound(f"no large message in {queue.name!r} has {told(head.select)}")
        deadline = deadline_of(context, head.timeout)
        wait(context, queue, Waiter(session, request_id, head, deadline))

    def receive_now(
        self,
        session: Session,
        request_id: int,
        head: LargeReceive,
        *,
        asked_now: bool = False,
    ) -> bool:
        """Answer if a large message is there; tell whether one was.

        The status queue is read when a receive is asked for, and when something is there for it.
        """
        context, works = self.context, self.transactions.works
        queue = context.state.queues.numbered(head.queue)
        if not asked_now and next(queue.parts.ready(), None) is None:
            return False
        statuses = None if head.peek else statuses_of(works, head.status_queue, queue)
        fitting = _fitting(queue, head, statuses)
        if head.repair and not head.peek:
            fitting = _repaired(self.holes, queue, fitting, again=asked_now)
        assembly = next(fitting, None)
        if assembly is None:
            return False
        if head.reject:
            return _reject(
                self.transactions, session, request_id, head, assembly=assembly, statuses=statuses
            )
        ends = _damaged_ends(context, queue, assembly) if assembly.whole else []
        if ends and not head.peek:
            _lose(context, queue, assembly, ends)
        if not assembly.whole or ends:
            if statuses is not None:
                statuses.place(assembly)
            raise _hole(works, queue, assembly, head, told=statuses is not None)
        if head.count > 1:
            some = _small_ones(context, queue, assembly, fitting, count=head.count)
        else:
            some = [assembly]
        if head.peek:
            held = [entries_of(queue, assembly)]
        else:
            held = [
                self._hold(session, queue, each, statuses=statuses, transaction=number)
                for number, each in enumerate(some, head.transaction)
            ]
        if head.count > 1:
            _answer_some(context, session, request_id, some, held=held)
            return True
        found = LargeFound(*_told_of(assembly, held[0]))
        context.answer(
            session, request_id, found, bodies_in(context.store, held[0][0] + held[0][-1])
        )
        return True

    def _hold(
        self,
        session: Session,
        queue: StoredQueue,
        assembly: Assembly,
        *,
        statuses: Statuses | None,
        transaction: int,
    ) -> list[bytes]:
        """Hold a whole large message, and its status, for a transaction; give its entries."""
        owner = self.transactions.find_or_begin(session, transaction)
        if statuses is not None:
            statuses.place(assembly)
            statuses.hold(assembly, owner)
        return hold_whole(self.context, queue, owner, assembly)


def _told_of(
    assembly: Assembly, packed: list[bytes]
) -> tuple[int, str, Envelope, Envelope, list[PartAt]]:
    """Tell a receiver of a large message, whose entries are given."""
    header, trailer = envelopes_in(packed[0] + packed[-1])
    parts = [PartAt(each.lookup_id, each.length, each.crc) for each in map(unpack, packed[1:-1])]
    return assembly.key.sequence, assembly.key.source.hex(), header, trailer, parts


def _small_ones(
    context: Context,
    queue: StoredQueue,
    first: Assembly,
    others: Iterator[Assembly],
    *,
    count: int,
) -> list[Assembly]:
    """The first large message, and those behind it that are whole and fit one frame with it."""
    some: list[Assembly] = []
    room = LARGE_TAKEN_BYTES_MAX
    for assembly in chain((first,), others):
        # A message that has a status comes for that first, and then again in its place.
        if assembly in some:
            continue
        room -= _records_bytes(queue, assembly)
        damaged = assembly is not first and (
            not assembly.whole or _damaged_ends(context, queue, assembly)
        )
        if len(some) == count or (some and (room < 0 or damaged)):
            break
        some.append(assembly)
        if room < 0:
            break
    return some


def _records_bytes(queue: StoredQueue, assembly: Assembly) -> int:
    return sum(lengths_in(b"".join(entries_of(queue, assembly))))


def _answer_some(
    context: Context,
    session: Session,
    request_id: int,
    some: list[Assembly],
    *,
    held: list[list[bytes]],
) -> None:
    """Answer with large messages that were taken together; one that is long without its body."""
    whole = sum(lengths_in(b"".join(chain(*held)))) <= LARGE_TAKEN_BYTES_MAX
    found = [LargeAt(*_told_of(*each)) for each in zip(some, held, strict=True)]
    sent = b"".join(chain(*held)) if whole else held[0][0] + held[0][-1]
    context.answer(session, request_id, LargeTaken(found, whole), bodies_in(context.store, sent))


def _repaired(
    holes: Holes, queue: StoredQueue, fitting: Iterator[Assembly], *, again: bool
) -> Iterator[Assembly]:
    """Pass over what has a hole that may still be filled."""
    for assembly in list(fitting):
        if assembly.whole or not holes.may_be_filled(queue, assembly, again=again):
            yield assembly


def _reject(
    transactions: Transactions,
    session: Session,
    request_id: int,
    head: LargeReceive,
    *,
    assembly: Assembly,
    statuses: Statuses | None,
) -> bool:
    """Take what is there of one with a hole, so that its senders are told when this commits."""
    context = transactions.context
    if assembly.whole:
        return False
    queue = context.state.queues.numbered(head.queue)
    owner = transactions.find_or_begin(session, head.transaction)
    if statuses is not None:
        statuses.hold(assembly, owner)
    packed = hold_whole(context, queue, owner, assembly)
    owner.rejected.update((queue.number, lookup_id_of(each)) for each in packed)
    context.answer(session, request_id, Done(len(packed)))
    return True


def handle_part_damaged(
    transactions: Transactions, session: Session, request_id: int, head: PartDamaged
) -> None:
    """Look at a part that its receiver found damaged; if so it is, put it aside."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    packed, number = queue.index.held(head.lookup_id) or (b"", 0)
    owner = transactions.opened_by(session, number)
    assembly = None
    if packed and owner is not None and not _intact(context, packed):
        keys = owner.large.get(queue.number, ())
        found = [queue.parts.get(key) for key in keys]
        assembly = next((each for each in found if each and head.lookup_id in each), None)
    if owner is not None and assembly is not None:
        owner.receives[queue.number].remove(head.lookup_id)
        queue.index.put_back([head.lookup_id])
        _lose(context, queue, assembly, [packed])
    context.answer(session, request_id, Done(int(assembly is not None)))


def _damaged_ends(context: Context, queue: StoredQueue, assembly: Assembly) -> list[bytes]:
    """Header and trailer, if their bytes are damaged: nothing of the message can be told then."""
    found = (queue.index.find(each) for each in (assembly.header, assembly.trailer))
    return [packed for packed in found if packed is not None and not _intact(context, packed)]


def _intact(context: Context, packed: bytes) -> bool:
    extent, crc = place_in(packed)
    return crc32c.crc32c(context.store.read(extent)) == crc


def _lose(context: Context, queue: StoredQueue, assembly: Assembly, damaged: list[bytes]) -> None:
    """Put damaged parts aside: from here on the message has a hole (and whoever sent it knows)."""
    for packed in damaged:
        seen = PartSeen(lookup_id_of(packed), part_of(packed), assembly.key, 0, 0, 0, 0)
        queue.parts.removed(seen)
    set_aside(context, queue, damaged, tell_sources=True)


def handle_large_list(context: Context, session: Session, request_id: int, head: LargeList) -> None:
    """List what is whole or surely holed, in order, up to the first that is neither."""
    queue = context.state.queues.numbered(head.queue)
    if not 1 <= head.max_messages <= BATCH_MESSAGES_MAX:
        raise Misuse(f"max_messages must be 1 to {BATCH_MESSAGES_MAX}, not {head.max_messages}")
    found: list[Assembly] = []
    total = 0
    for assembly in queue.parts:
        if assembly.first <= head.after:
            continue
        if (assembly.held and not head.held) or not assembly.decided:
            break
        if len(found) == head.max_messages:
            break
        if found and head.max_bytes and total + assembly.size > head.max_bytes:
            break
        total += assembly.size
        found.append(assembly)
    entries = [_listed(queue, each) for each in found]
    context.answer(session, request_id, LargeListed(entries))


def _listed(queue: StoredQueue, assembly: Assembly) -> LargeEntry:
    missing = assembly.missing()
    return LargeEntry(
        assembly.first,
        assembly.last,
        assembly.key.sequence,
        assembly.key.source.hex(),
        assembly.count or len(assembly.fragments),
        assembly.size,
        list(missing),
        _transaction_size(queue, assembly.first),
    )


def _transaction_size(queue: StoredQueue, position: int) -> int:
    """The number of messages that the part's transaction sent to the queue; 0: unknown."""
    for entry in map(unpack, queue.index.at([position])):
        if entry.marks & MARK_LARGE and entry.following < FOLLOWING_MAX:
            return entry.following
    return 0


def _fitting(
    queue: StoredQueue, head: LargeReceive, statuses: Statuses | None
) -> Iterator[Assembly]:
    """The large messages that a receive may take, those begun before first."""
    begun = statuses.decided() if statuses is not None else []
    match head.select:
        case SelectFirst():
            return chain(begun, queue.parts.ready())
        case SelectBySequence(sequence_id):
            source, number = split_id(sequence_id)
            assembly = queue.parts.get(SequenceKey(bytes.fromhex(source), number))
            there = assembly is not None and assembly.decided and not assembly.held
            return iter((assembly,) if assembly is not None and there else ())
        case SelectByCorrelation(correlation_id):
            wanted = correlation_id.casefold()
    return (
        assembly
        for assembly in chain(begun, queue.parts.ready())
        if assembly.correlation_id is not None and assembly.correlation_id.casefold() == wanted
    )


def _hole(
    works: Works, queue: StoredQueue, assembly: Assembly, head: LargeReceive, *, told: bool
) -> LargeMessageHole:
    """Make the error, and unless it is only looked at, remove what is there of the message.

    `told`: a status message says that it is to be rejected, and the receiver will do it.
    """
    missing = list(assembly.missing())
    sequence_id = join_id(ManagerId(assembly.key.source.hex()), assembly.key.sequence)
    fate = "it stays in the queue" if head.peek else "its other parts are rejected"
    if head.repair and assembly.refused:
        fate += f"; it could not be repaired: {assembly.refused}"
    if not (head.peek or told):
        lookup_ids = assembly.lookup_ids()
        queue.parts.dropped(assembly.key)
        take(works, queue, lookup_ids, MessageClass.NACK_RECEIVE_REJECTED)
    return LargeMessageHole(
        f"large message {sequence_id} in {queue.name!r} lacks {missing_in_words(missing)}; {fate}",
        sequence_id=sequence_id,
        missing=missing,
    )


def handle_read_part(context: Context, session: Session, request_id: int, head: ReadPart) -> None:
    """Give a range of a record that is available, or held by the asker.

    The asker learned of the messages that it holds after a sync, so their bytes need not wait for
    another.
    """
    extent, own = _range_of(context, session, head)
    body = (records_of_answer(context.store, extent),) if extent.length else ()
    context.answer(session, request_id, Range(), body, held=not own)


def handle_copy_part(context: Context, session: Session, request_id: int, head: CopyPart) -> None:
    """Have a range of a record written into the asker's file; what is before it is answered."""
    extent, own = _range_of(context, session, head)
    if not extent.length or head.at < 0 or head.offset > HEADER_BYTES + PROPERTIES_BYTES_MAX:
        raise no_sense("length", "that of a range, and at a place in the file", head.length)
    whole = Extent(extent.file, extent.offset - head.offset, head.offset + extent.length)
    into = Into(head.at, head.offset)
    context.answer(session, request_id, Copied(), (whole,), held=not own, into=into)


def _range_of(context: Context, session: Session, head: ReadPart | CopyPart) -> tuple[Extent, bool]:
    """The place of the range that was asked for, and whether the asker holds the message."""
    queue = context.state.queues.numbered(head.queue)
    held = queue.index.held(head.lookup_id)
    own = held is not None and held[1] in session.transactions
    packed = held[0] if held is not None else queue.index.find(head.lookup_id)
    if packed is None or (held is not None and not own):
        raise MessageNotFound(
            f"the message at position {head.lookup_id} of {queue.name!r} is gone or held by another"
        )
    extent, _ = place_in(packed)
    if head.offset < 0 or head.length < 0 or head.offset + head.length > extent.length:
        raise no_sense("offset", "one where the record has the range", head.offset)
    return Extent(extent.file, extent.offset + head.offset, head.length), own
