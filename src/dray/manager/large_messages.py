"""Large messages at the manager: take one whole, list them, tell their holes.

The parts stay single messages of the queue; a receive holds them all for the transaction and tells
the client where they are. One with a hole is removed, in a fact of its own, before the hole is
told: it is told once, and the next large message is not harmed (S0-15, S0-16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.errors import LargeMessageHole, MessageNotFound, Misuse, ProtocolError, TransactionUsage
from dray.large.join import SequenceKey
from dray.manager.index import unpack
from dray.manager.receiving import (
    Waiter,
    bodies,
    check_may_take,
    entries_of,
    envelope_of,
    hold_whole,
    wait,
)
from dray.manager.transactions import open_transaction, take
from dray.model.classes import MessageClass
from dray.model.ids import ManagerId, join_id, split_id
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.wire.frames import (
    LargeEntry,
    LargeFound,
    LargeList,
    LargeListed,
    LargeReceive,
    PartAt,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dray.large.join import Assembly
    from dray.manager.context import Context, Session
    from dray.manager.queues import Queue


def handle_large_receive(
    context: Context, session: Session, request_id: int, head: LargeReceive
) -> None:
    """Answer with a large message, or let the request wait for one."""
    queue = context.state.queues.numbered(head.queue)
    if not queue.options.transactional:
        raise TransactionUsage(f"queue {queue.name!r} is not transactional: no large message in it")
    if not head.peek and not head.transaction:
        raise ProtocolError("a large message is received in a transaction")
    if not head.peek:
        check_may_take(queue)
    if head.by not in ("first", "correlation", "sequence"):
        raise ProtocolError(f"there is no selection by {head.by!r}")
    if large_receive_now(context, session, request_id, head):
        return
    if head.by != "first" and not head.timeout:
        raise MessageNotFound(f"no large message in {queue.name!r} fits {head.text!r}")
    deadline = None if head.timeout is None else context.now + max(0.0, head.timeout)
    wait(context, queue, Waiter(session, request_id, head, deadline))


def large_receive_now(
    context: Context, session: Session, request_id: int, head: LargeReceive
) -> bool:
    """Answer if a large message is there; tell whether one was."""
    queue = context.state.queues.numbered(head.queue)
    assembly = next(_fitting(queue, head), None)
    if assembly is None:
        return False
    if not assembly.whole:
        raise _hole(context, queue, assembly, keep=head.peek)
    if head.peek:
        packed = entries_of(queue, assembly)
    else:
        owner = open_transaction(context, session, head.transaction)
        packed = hold_whole(context, queue, owner, assembly)
    header, *parts, trailer = map(unpack, packed)
    found = LargeFound(
        assembly.key.sequence,
        assembly.key.source.hex(),
        envelope_of(header),
        envelope_of(trailer),
        [PartAt(part.lookup_id, part.length, part.crc) for part in parts],
    )
    context.answer(session, request_id, found, bodies(context, (header, trailer)))
    return True


def handle_large_list(context: Context, session: Session, request_id: int, head: LargeList) -> None:
    """List what is whole or surely holed, in order, up to the first that is neither or is held."""
    queue = context.state.queues.numbered(head.queue)
    if not 1 <= head.max_messages <= BATCH_MESSAGES_MAX:
        raise Misuse(f"max_messages must be 1 to {BATCH_MESSAGES_MAX}, not {head.max_messages}")
    entries: list[LargeEntry] = []
    total = 0
    for assembly in queue.parts:
        if assembly.first <= head.after:
            continue
        if assembly.held or not assembly.decided or len(entries) == head.max_messages:
            break
        if entries and head.max_bytes and total + assembly.size > head.max_bytes:
            break
        total += assembly.size
        entries.append(_listed(assembly))
    context.answer(session, request_id, LargeListed(entries))


def _listed(assembly: Assembly) -> LargeEntry:
    missing = assembly.missing()
    return LargeEntry(
        assembly.first,
        assembly.last,
        assembly.key.sequence,
        assembly.key.source.hex(),
        assembly.count or len(assembly.fragments),
        assembly.size,
        list(missing),
    )


def _fitting(queue: Queue, head: LargeReceive) -> Iterator[Assembly]:
    if head.by == "first":
        return queue.parts.ready()
    if head.by == "sequence":
        source, number = split_id(head.text)
        assembly = queue.parts.get(SequenceKey(bytes.fromhex(source), number))
        there = assembly is not None and assembly.decided and not assembly.held
        return iter((assembly,) if assembly is not None and there else ())
    wanted = head.text.casefold()
    return (
        assembly
        for assembly in queue.parts.ready()
        if assembly.correlation_id is not None and assembly.correlation_id.casefold() == wanted
    )


def _hole(context: Context, queue: Queue, assembly: Assembly, *, keep: bool) -> LargeMessageHole:
    """Make the error, and unless it is only looked at, remove what is there of the message."""
    missing = list(assembly.missing())
    sequence_id = join_id(ManagerId(assembly.key.source.hex()), assembly.key.sequence)
    fate = "it stays in the queue" if keep else "its other parts were removed"
    if not keep:
        lookup_ids = assembly.lookup_ids()
        queue.parts.dropped(assembly.key)
        take(context, queue, lookup_ids, MessageClass.NACK_RECEIVE_REJECTED)
    return LargeMessageHole(
        f"large message {sequence_id} in {queue.name!r} lacks {_told(missing)}; {fate}",
        sequence_id=sequence_id,
        missing=missing,
    )


def _told(missing: list[list[int] | str]) -> str:
    return ", ".join(
        each if isinstance(each, str) else f"fragments {each[0]} to {each[1]}" for each in missing
    )
