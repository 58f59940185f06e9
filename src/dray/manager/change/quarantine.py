"""Quarantine: a message whose bytes are damaged is moved aside and named, never handed out.

Records are checked where a receiver could lose by it: everything that is read into memory anyway,
everything that leaves its queue before its bytes go out (outside transactions), and everything that
a receiver has put back before, for the receiver's own check may have been why. A damaged message
moves to `system$;quarantine`, in one fact and without a byte being written, so that it blocks
neither its queue nor any other; the receive fails with event 2083 and the name of the file, and the
next one goes on behind it. Nothing is purged: the bytes stay where they are, for people to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import crc32c

from dray.delivery.incoming import StreamKey
from dray.errors import StoreCorrupt
from dray.manager.change.ends import DAMAGED_THERE, note_ends
from dray.manager.context import Context
from dray.manager.entries import (
    Entry,
    any_came_back_in,
    as_plain,
    entries_in,
    fields_in,
    is_express_entry,
    lookup_id_of,
    part_of,
    tail_of,
    unpack,
    with_expiry,
)
from dray.manager.events import Body
from dray.manager.facts import Committed, Confirmation, QueueCreated, pack_lookups
from dray.manager.notices import NoticeKind
from dray.manager.queue import Records, StoredQueue
from dray.manager.state import State
from dray.model.classes import MessageClass, Part, QueueKind
from dray.model.limits import DAMAGED_NAMED_MAX
from dray.model.queue import QueueOptions
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.heap.heap import Extent, file_name
from dray.wire.record import COPY_DEAD_LETTER

QUARANTINE: Final = 8
QUARANTINE_NAME: Final = "system$;quarantine"
_LENGTH_AND_CRC: Final = slice(2, 4)
"""Their places among the fields of a packed tail."""


def refuse_damaged(
    context: Context, queue: StoredQueue, packed: bytes, body: Body, *, thorough: bool
) -> None:
    """Move aside what is damaged of a receive's records, and raise `StoreCorrupt` if any is.

    Without `thorough` what goes from the heap file to the socket is only checked if it has come
    back from a receiver.
    """
    only_sent = not thorough and not any_came_back_in(packed)
    if only_sent and all(isinstance(piece, Extent) for piece in body):
        return
    has_extents = any(isinstance(piece, Extent) for piece in body)
    if (thorough or only_sent or not has_extents) and _all_intact(
        context.store, packed, body, only_sent=only_sent
    ):
        return
    found = entries_in(packed)
    entries = [unpack(each) for each in found]
    checks = _checks(context.store, entries, body, thorough=thorough)
    damaged = [each for each, intact in zip(found, checks, strict=True) if not intact]
    if not damaged or queue.number == QUARANTINE:
        return
    first = unpack(damaged[0])
    name = file_name(first.file)
    then = "it is a part of a large message; reject that message"
    if all(part_of(each) == Part.PLAIN for each in damaged):
        set_aside(context, queue, damaged)
        went = f"moved to {QUARANTINE_NAME!r}"
        if is_express_entry(damaged[0]):
            went = "an express message, of which nothing is kept"
        then = f"it was {went}, and the next receive goes on behind it"
    raise StoreCorrupt(
        f"event {MESSAGE_FILE_UNREADABLE}: the message at position {first.lookup_id} of queue"
        f" {queue.name!r} is damaged in {name} at byte {first.offset}; {then}",
        event=MESSAGE_FILE_UNREADABLE,
        file=name,
    )


def damaged_messages(state: State, spoiled: Iterable[Extent]) -> list[tuple[str, str]]:
    """Name messages whose bytes a start found damaged: queue and sentence, for an operator."""
    left = set(spoiled)
    named: list[tuple[str, str]] = []
    for queue in state.queues if left else ():
        found = [entry for entry in map(unpack, queue.index.everything()) if entry.extent in left]
        for entry in found[: DAMAGED_NAMED_MAX - len(named)]:
            where = f"{file_name(entry.file)} at byte {entry.offset}"
            sentence = f"the message at position {entry.lookup_id} is damaged in {where}"
            named.append((queue.name, f"event {MESSAGE_FILE_UNREADABLE}: {sentence}"))
    return named


def only_intact(context: Context, queue: StoredQueue, found: list[bytes]) -> list[bytes]:
    """The messages of an outgoing queue that their peer will not refuse; the others move aside."""
    damaged = [
        packed
        for packed in found
        for entry in (unpack(packed),)
        if crc32c.crc32c(context.store.read(entry.extent)) != entry.crc
    ]
    if damaged:
        set_aside(context, queue, damaged)
    return [packed for packed in found if packed not in damaged]


def set_aside(
    context: Context, queue: StoredQueue, damaged: list[bytes], *, tell_sources: bool = False
) -> None:
    """Move messages to the quarantine queue as they are; it is made when it is first needed.

    `tell_sources`: who has sent one from another manager, and has kept it for his dead letters, is
    told that it was rejected.
    """
    told = list(_told(context, damaged)) if tell_sources else []
    asked = COPY_DEAD_LETTER if tell_sources else 0
    routes = Counter(each.route for each in map(unpack, damaged) if not each.copies & asked)
    damaged = _without_express(context, queue, damaged)
    if damaged or told:
        _move_aside(context, queue, damaged, told)
    for route, count in routes.items():
        # The operator of this manager reads of its own messages here.
        if route:
            why = MessageClass.NACK_RECEIVE_REJECTED | DAMAGED_THERE
            note_ends(context, queue, why, route=route, count=count)


def _move_aside(
    context: Context,
    queue: StoredQueue,
    damaged: list[bytes],
    told: list[tuple[str, int, list[Confirmation]]],
) -> None:
    if context.state.queues.get(QUARANTINE) is None:
        options = QueueOptions(transactional=True)
        kind = str(QueueKind.SYSTEM)
        context.record(QueueCreated(QUARANTINE, QUARANTINE_NAME, kind, options))
    lookup_ids = [lookup_id_of(packed) for packed in damaged]
    tails = b"".join([_as_it_lies(packed) for packed in damaged])
    leaving = [(queue.number, pack_lookups(lookup_ids))]
    context.record(Committed(0, context.now_us, [], leaving, [(QUARANTINE, tails)], told))
    for source, stream, _ in told:
        context.follow_up.to_tell[StreamKey(source, stream)] = None
    _say(context, queue, damaged)


def _say(context: Context, queue: StoredQueue, damaged: list[bytes]) -> None:
    """Name the first damaged message of each heap file, and count the others."""
    files: dict[str, list[Entry]] = {}
    for packed in damaged:
        entry = unpack(packed)
        files.setdefault(file_name(entry.file), []).append(entry)
    for name, entries in files.items():
        first = entries[0]
        kept = (
            "it was an express message and is gone"
            if is_express_entry(damaged[0])
            else f"it was moved to {QUARANTINE_NAME}; look at it there, and check the disk"
        )
        where = f"{name} at byte {first.offset}"
        sentence = f"message {first.number} is damaged in {where}; {kept}"
        context.notices.add(NoticeKind.DAMAGED, queue.name, sentence, len(entries))


def _without_express(context: Context, queue: StoredQueue, damaged: list[bytes]) -> list[bytes]:
    """Let damaged express messages go, by name: nothing of them is kept anywhere; the rest."""
    express = [packed for packed in damaged if is_express_entry(packed)]
    _say(context, queue, express)
    context.state.drop_express(queue, map(lookup_id_of, express))
    return [packed for packed in damaged if not is_express_entry(packed)]


def _all_intact(store: Records, packed: bytes, body: Body, *, only_sent: bool) -> bool:
    """Whether all records of a receive are what their senders sent; neighbours are read at once.

    With `only_sent` those are not looked at that go from the heap file to the socket.
    """
    claims = (fields[_LENGTH_AND_CRC] for _, fields in fields_in(packed))
    records: list[memoryview] = []
    checksums: list[int] = []
    for piece in body:
        if only_sent and isinstance(piece, Extent):
            left = piece.length
            while left:
                left -= next(claims)[0]
            continue
        run = memoryview(piece if isinstance(piece, bytes) else store.read(piece))
        at = 0
        while at < len(run):
            length, crc = next(claims)
            records.append(run[at : at + length])
            checksums.append(crc)
            at += length
    return [*map(crc32c.crc32c, records)] == checksums


def _checks(store: Records, entries: list[Entry], body: Body, *, thorough: bool) -> Iterator[bool]:
    """Whether each record is what its sender sent; true for those that are not looked at."""
    waiting = iter(entries)
    for piece in body:
        left = piece.length if isinstance(piece, Extent) else len(piece)
        at = 0
        while at < left:
            entry = next(waiting)
            if isinstance(piece, bytes):
                yield crc32c.crc32c(memoryview(piece)[at : at + entry.length]) == entry.crc
            elif thorough or entry.abort_count:
                yield crc32c.crc32c(store.read(entry.extent)) == entry.crc
            else:
                yield True
            at += entry.length


def _told(context: Context, damaged: list[bytes]) -> Iterator[tuple[str, int, list[Confirmation]]]:
    """Confirmations for the sources of damaged messages; of a message only its number is known."""
    for packed in damaged:
        entry = unpack(packed)
        route = context.state.arrival_routes.numbered(entry.route)
        if route is not None and entry.copies & COPY_DEAD_LETTER:
            why = MessageClass.NACK_RECEIVE_REJECTED
            told = Confirmation(entry.number, why, "", "", route.told_origin)
            yield route.source, route.stream, [told]


def _as_it_lies(packed: bytes) -> bytes:
    """The tail of a message that neither expires nor is part of anything any more."""
    return as_plain(with_expiry(tail_of(packed), 0))
