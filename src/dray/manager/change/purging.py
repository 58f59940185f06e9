"""Very many messages leave a queue: portion by portion, each in a fact (`works.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from itertools import islice, takewhile
from typing import Final

from dray.errors import MessageNotFound
from dray.large.join import SequenceKey
from dray.manager.change.commit_fact import CommitFact, forget_parts
from dray.manager.change.departures import KEEPERS, RECEIVED
from dray.manager.change.ends import is_refusal, note_ends
from dray.manager.context import Context
from dray.manager.entries import (
    ENTRY_BYTES,
    TAIL_BYTES,
    any_asks_in,
    entries_in,
    lookup_id_of,
    unpack,
)
from dray.manager.facts import Confirmation, PurgePending, pack_lookups
from dray.manager.queue import POSITION_BYTES, StoredQueue, cost_of_leaving, weight_of_leaving
from dray.model.classes import MessageClass, Part
from dray.model.ids import split_id
from dray.model.limits import LEAVING_A_TURN, TOLD_WEIGHT
from dray.wire.frames import Done
from dray.wire.queue_frames import PurgeQueue
from dray.wire.record import HEADER_BYTES, read_header

_FOUND_AT_ONCE: Final = 256
"""Positions that are looked for together, as they mostly lie side by side."""


def first_portion(
    context: Context,
    entries: Iterable[bytes],
    *,
    to_journal: bool = False,
    always_told: bool = False,
) -> list[bytes]:
    """The first of some packed entries, as many as may leave their queue in one fact: at least one.

    They count for the turn. `to_journal` if each goes to a journal; `always_told` as in
    `cost_of_leaving`.
    """
    room = context.room.portion_bytes
    least = POSITION_BYTES + TAIL_BYTES * to_journal
    coming = islice(entries, min(LEAVING_A_TURN, max(1, room // least)))
    first = list(islice(coming, LEAVING_A_TURN // TOLD_WEIGHT))
    if not always_told and not any_asks_in(b"".join(first)):
        first += coming
    if not always_told and not any_asks_in(b"".join(first)):
        context.room.departed += len(first)
        return first
    found: list[bytes] = []
    weight = 0
    for packed in first:
        room -= cost_of_leaving(packed, always_told=always_told) + TAIL_BYTES * to_journal
        weight += weight_of_leaving(packed, always_told=always_told)
        if (room < 0 or weight > LEAVING_A_TURN) and found:
            break
        found.append(packed)
    context.room.departed += weight
    return found


def cut_into_portions(
    context: Context,
    queue: StoredQueue,
    lookup_ids: list[int],
    *,
    held: bool = False,
    to_journal: bool = False,
    always_told: bool = False,
) -> Iterator[list[int]]:
    """Cut positions into what one fact each can tell of, leaving out what has gone by then.

    So is what a transaction holds, unless `held`; and all of it once the queue is deleted.
    """
    at = 0
    while at < len(lookup_ids) and context.state.queues.get(queue.number) is queue:
        entries = _entries(queue, lookup_ids, at, held=held)
        found = first_portion(context, entries, to_journal=to_journal, always_told=always_told)
        if not found:
            return
        positions = [lookup_id_of(packed) for packed in found]
        at = lookup_ids.index(positions[-1], at) + 1
        yield positions


def _entries(queue: StoredQueue, lookup_ids: list[int], at: int, *, held: bool) -> Iterator[bytes]:
    """Entries at positions from the one at an offset on, as far as they are asked for."""
    for start in range(at, len(lookup_ids), _FOUND_AT_ONCE):
        for packed in queue.index.at(lookup_ids[start : start + _FOUND_AT_ONCE]):
            if held or queue.index.held(lookup_id_of(packed)) is None:
                yield packed


def leave_all(
    context: Context, queue: StoredQueue, lookup_ids: list[int], why: int, *, held: bool = False
) -> Iterator[None]:
    """Work: messages leave a queue for good. Their parts must be noted before."""
    to_journal = why == RECEIVED and queue.keeper is not None
    for found in cut_into_portions(
        context,
        queue,
        lookup_ids,
        held=held,
        to_journal=to_journal,
        always_told=is_refusal(why),
    ):
        leave(context, queue, found, why)
        yield


def leave(context: Context, queue: StoredQueue, lookup_ids: list[int], why: int) -> None:
    """Messages leave a queue for good, in one fact; see `first_portion` for how many may."""
    fact = CommitFact(context)
    fact.leave(queue, lookup_ids, why)
    fact.record()


def purge(context: Context, queue: StoredQueue, before: int) -> Generator[None, None, Done]:
    """Work: remove what is in a queue now; what is held, only if that is aborted (R11).

    Messages at position `before` and behind it stay; 0 is no limit. It is answered with how many
    were removed.
    """
    upto = min(before or queue.next_lookup_id, queue.next_lookup_id)
    count = 0
    why = _reason(queue)
    large = drop_large(queue, upto)
    count += len(large)
    yield from leave_all(context, queue, large, why)
    looked = 0
    while context.state.queues.get(queue.number) is queue:
        held, looked = queue.index.held_since(looked), queue.index.ever_held
        if held:
            yield from _purge_later(context, queue, [each for each in held if each < upto])
            continue
        ours = (each for each in _below(queue, upto) if _is_free(queue, each))
        lookup_ids = [lookup_id_of(packed) for packed in first_portion(context, ours)]
        if not lookup_ids:
            break
        forget_parts(context, queue, lookup_ids)
        leave(context, queue, lookup_ids, why)
        count += len(lookup_ids)
        yield
    count += yield from give_up_unreadable(context, queue, upto, why)
    return Done(count)


def purge_unreadable(context: Context, queue: StoredQueue) -> Generator[None, None, Done]:
    """Work: remove from a queue of the manager's own what nobody can read; the rest stays."""
    # The word that they wait for says how they ended.
    why = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
    return Done((yield from give_up_unreadable(context, queue, queue.next_lookup_id, why)))


def give_up_unreadable(
    context: Context, queue: StoredQueue, upto: int, why: MessageClass
) -> Generator[None, None, int]:
    """Work: remove what was put aside below a position; gives how many these were.

    Nobody can read it, so no dead letter and no acknowledgment can follow. A message of an outgoing
    queue may have been delivered before the start that put it aside.
    """
    count = 0
    if queue.outgoing:
        why = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
    while context.state.queues.get(queue.number) is queue:
        aside = (each for each in queue.index.aside_entries() if lookup_id_of(each) < upto)
        found = first_portion(context, aside)
        if not found:
            break
        _give_up(context, queue, found, why)
        count += len(found)
        yield
    return count


def _give_up(
    context: Context, queue: StoredQueue, unreadable: list[bytes], why: MessageClass
) -> None:
    """Messages leave a queue unread: only their numbers are known to tell their sources of."""
    fact = CommitFact(context)
    ended: Counter[int] = Counter()
    for entry in map(unpack, unreadable):
        route = context.state.arrival_routes.numbered(entry.route)
        if route is not None and entry.copies:
            told = Confirmation(entry.number, why, "", "", route.told_origin)
            fact.departures.pass_on(route, told)
        else:
            ended[entry.route] += 1
    fact.drop(queue, sorted(map(lookup_id_of, unreadable)))
    fact.record()
    for route_number, times in ended.items() if queue.kind not in KEEPERS else ():
        note_ends(context, queue, why, route=route_number, count=times)


def purge_message(
    context: Context, queue: StoredQueue, head: PurgeQueue
) -> Generator[None, None, Done]:
    """Work: remove one message, or what is there and free of one large message.

    Nothing else leaves the queue. Raises `MessageNotFound` if nothing of it is free.
    """
    manager, number = split_id(head.message_id)
    key = SequenceKey(bytes.fromhex(manager), number)
    assembly = queue.parts.get(key)
    if assembly is None:
        entries = queue.index.in_position_order(min(head.first, queue.next_lookup_id) - 1)
        found = _entries_of(context, key, entries, in_parts=queue.outgoing)
        leaving = [lookup_id_of(packed) for packed in found if _is_free(queue, packed)]
    elif assembly.decided and not assembly.held:
        leaving = assembly.lookup_ids()
        queue.parts.dropped(key)
    else:
        leaving = []
    if not leaving:
        raise MessageNotFound(
            f"nothing of message {head.message_id} is free in {queue.name!r}: it has left, is on"
            " its way, or a transaction holds it; look at the queue again"
        )
    count = 0
    for positions in cut_into_portions(context, queue, leaving):
        # Between two portions a link may have begun to send the next ones.
        entries = _entries(queue, positions, 0, held=False)
        now = [lookup_id_of(packed) for packed in entries if _is_free(queue, packed)]
        if now:
            leave(context, queue, now, _reason(queue))
            count += len(now)
        yield
    return Done(count)


def _is_free(queue: StoredQueue, packed: bytes) -> bool:
    """Whether an outgoing message cannot have arrived: none is both delivered and purged."""
    return queue.stream is None or not queue.stream.may_be_delivered(lookup_id_of(packed))


def _below(queue: StoredQueue, upto: int) -> Iterator[bytes]:
    """Available entries below a position, in receiving order; by the page, where none is below."""
    for run in queue.index.available_runs():
        first, last = run[:ENTRY_BYTES], run[-ENTRY_BYTES:]
        if lookup_id_of(first) < upto or first[0] != last[0]:
            yield from (each for each in entries_in(run) if lookup_id_of(each) < upto)


def _entries_of(
    context: Context, key: SequenceKey, entries: Iterable[bytes], *, in_parts: bool
) -> Iterator[bytes]:
    """The entry of a plain message, or with `in_parts` all of a large one that are there.

    The parts of a large message lie in one transaction, and the trailer is the last of them.
    """
    transaction: int | None = None
    for packed in entries:
        entry = unpack(packed)
        if transaction not in (None, entry.transaction):
            return
        transaction = entry.transaction
        header = read_header(context.store.read(entry.extent, length=HEADER_BYTES))
        is_named = header.part in (Part.PLAIN, Part.HEADER)
        if key == (header.source, header.number if is_named else header.sequence):
            yield packed
            if header.part in (Part.PLAIN, Part.TRAILER):
                return
        if not (in_parts and transaction):
            return


def _reason(queue: StoredQueue) -> MessageClass:
    return MessageClass.NACK_PURGED if queue.outgoing else MessageClass.NACK_Q_PURGED


def drop_large(queue: StoredQueue, upto: int, after: int = 0) -> list[int]:
    """Let nobody receive the large messages any more that are to leave; the positions of parts."""
    leaving: list[int] = []
    within = takewhile(lambda each: each.first < upto, queue.parts.ready())
    for assembly in list(within):
        if after < assembly.first:
            leaving += assembly.lookup_ids()
            queue.parts.dropped(assembly.key)
    return leaving


def _purge_later(context: Context, queue: StoredQueue, held: list[int]) -> Iterator[None]:
    """Work: note messages that transactions hold as purged; they count for the turn as well."""
    most = min(LEAVING_A_TURN, max(1, context.room.portion_bytes // POSITION_BYTES))
    for start in range(0, len(held), most):
        portion = [
            each
            for each in held[start : start + most]
            if queue.index.held(each) and each not in queue.purge_pending
        ]
        if portion and context.state.queues.get(queue.number) is queue:
            context.record(PurgePending(queue.number, pack_lookups(portion)))
            context.room.departed += len(portion)
            yield
