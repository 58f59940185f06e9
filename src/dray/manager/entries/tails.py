"""The tail of an entry: what a fact carries of a message, and what goes from queue to queue.

`layout.py` draws the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain, repeat

from dray.manager.entries.layout import (
    CLASS,
    CLASS_AT,
    COPIES_AT,
    COUNT_MAX,
    COUNTS,
    COUNTS_AT,
    EXPIRES,
    EXPIRES_AT,
    EXPRESS,
    HEAP_KIND_AT,
    HEAP_KIND_SHIFT,
    KIND_BYTE_AT,
    LENGTH,
    ORDINAL_BITS,
    ORDINAL_MAX,
    PRIORITY_AT,
    TAIL,
    TAIL_BYTES,
    THREE_BITS,
    TWO_BITS,
)
from dray.manager.entries.staged import GroupPlace, Staged, group_places
from dray.model.classes import Part
from dray.store.heap.heap import Extent
from dray.wire.message_frames import FOLLOWING_MAX, MARK_FIRST, MARK_LARGE, MARK_LAST
from dray.wire.record import COPY_DEAD_LETTER

_PLACE = struct.Struct("<III")
_ROUTE = struct.Struct("<I")
_ROUTE_AT = CLASS_AT - 1 - 2 * 4
_ALONE = MARK_FIRST | MARK_LAST
_TRANSACTION_FIELD = 5
_KIND_FIELD = 13
"""In an unpacked tail: the places of the transaction and of the kind."""


def pack_tail(
    record: Staged,
    transaction: int,
    arrived_us: int,
    *,
    route: int = 0,
    ordinal: int = 0,
    marks: int = 0,
    following: int = 0,
    hops: int = 0,
) -> bytes:
    """Pack what a fact carries of a message that joins a queue; the rest is as in `Entry`.

    `hops` is how many managers have forwarded it, if it joins an outgoing queue.
    """
    # This runs for each message that arrives, and a call of `min` costs more than its condition.
    if following > FOLLOWING_MAX:  # noqa: PLR1730
        following = FOLLOWING_MAX
    file, offset, length = record.extent
    return TAIL.pack(
        file, offset, length, record.crc, record.number, transaction, record.sent_us, arrived_us,
        record.expires_us, route, ordinal | following << ORDINAL_BITS, marks, record.message_class,
        record.part | record.priority << PRIORITY_AT | record.copies << COPIES_AT,
        0, hops,
    )  # fmt: skip


def split_tails(packed: bytes) -> list[bytes]:
    """Cut a fact's packed tails apart."""
    return [packed[at : at + TAIL_BYTES] for at in range(0, len(packed), TAIL_BYTES)]


def extents_of(tails: bytes) -> list[Extent]:
    """The places of the records that packed tails speak of."""
    return [Extent(*_PLACE.unpack_from(tails, at)) for at in range(0, len(tails), TAIL_BYTES)]


def extent_of(tail: bytes) -> Extent:
    """The place of the record that one packed tail speaks of."""
    return Extent(*_PLACE.unpack_from(tail))


def is_express(tail: bytes) -> bool:
    """Whether a packed tail is that of an express message: its record is in no lasting file."""
    return tail[HEAP_KIND_AT] >> HEAP_KIND_SHIFT == EXPRESS


def at_place(tail: bytes, extent: Extent) -> bytes:
    """The tail of the same message with its record at another place."""
    return _PLACE.pack(*extent) + tail[_PLACE.size :]


def with_class(tail: bytes, message_class: int) -> bytes:
    """The tail of the same message as another class, and with no time left to expire."""
    packed = bytearray(tail)
    CLASS.pack_into(packed, CLASS_AT, message_class)
    EXPIRES.pack_into(packed, EXPIRES_AT, 0)
    return bytes(packed)


def with_expiry(tail: bytes, expires_us: int) -> bytes:
    """The tail of the same message with another time to expire; 0 is never."""
    packed = bytearray(tail)
    EXPIRES.pack_into(packed, EXPIRES_AT, expires_us)
    return bytes(packed)


def route_of(tail: bytes) -> int:
    """The number of the route by which the message of a packed tail came; 0 if it was sent here."""
    route: int = _ROUTE.unpack_from(tail, _ROUTE_AT)[0]
    return route


def with_route(tail: bytes, route: int) -> bytes:
    """The tail of the same message with another number of its route."""
    packed = bytearray(tail)
    _ROUTE.pack_into(packed, _ROUTE_AT, route)
    return bytes(packed)


def without_dead_letter(tail: bytes) -> bytes:
    """The tail of the same message as if its sender had not asked for dead letters."""
    packed = bytearray(tail)
    packed[KIND_BYTE_AT] &= ~(COPY_DEAD_LETTER << COPIES_AT)
    return bytes(packed)


def as_plain(tail: bytes) -> bytes:
    """The tail of the same record as one that is no part of a large message."""
    packed = bytearray(tail)
    packed[KIND_BYTE_AT] &= ~TWO_BITS
    return bytes(packed)


def place_of(tail: bytes) -> tuple[Extent, int]:
    """The place of the record of a packed tail, and its CRC32C."""
    extent = extent_of(tail)
    crc: int = LENGTH.unpack_from(tail, _PLACE.size)[0]
    return extent, crc


def moved_tail(tail: bytes) -> bytes:
    """The tail of a message in another queue: one more move, no aborts yet."""
    _, moves = COUNTS.unpack_from(tail, COUNTS_AT)
    return tail[:COUNTS_AT] + COUNTS.pack(0, min(moves + 1, COUNT_MAX))


def as_group(tail: bytes) -> bytes:
    """The tail of the same message as one that is sent again, by itself."""
    packed = bytearray(tail)
    packed[CLASS_AT - 1] = MARK_FIRST | MARK_LAST | packed[CLASS_AT - 1] & MARK_LARGE
    packed[COUNTS_AT:] = COUNTS.pack(0, 0)
    return with_class(bytes(packed), 0)


def sent_anew(
    tail: bytes, *, transaction: int, when_us: int, expires_us: int, place: GroupPlace
) -> bytes:
    """The tail of a message that was kept somewhere, as one sent now; transaction 0 is none."""
    ordinal, following, marks = place
    fields = list(TAIL.unpack(tail))
    kind = fields[_KIND_FIELD]
    if transaction:
        kind &= ~(THREE_BITS << PRIORITY_AT)
    places = min(ordinal, ORDINAL_MAX) | min(following, FOLLOWING_MAX) << ORDINAL_BITS
    fields[_TRANSACTION_FIELD:] = [
        transaction, when_us, when_us, expires_us, 0, places if transaction else 0,
        marks if transaction else 0, 0, kind, 0, 0,
    ]  # fmt: skip
    return TAIL.pack(*fields)


def pack_place(extent: Extent) -> bytes:
    """A place as a fact carries it."""
    return _PLACE.pack(*extent)


def unpack_places(packed: bytes) -> list[Extent]:
    """Read places that were packed one behind the other."""
    return [Extent(*each) for each in _PLACE.iter_unpack(packed)]


def packed_tails(staged: list[Staged], transaction: int, when_us: int, marks: int = 0) -> bytes:
    """The packed tails of records that join a queue as one group; `marks` are for all."""
    if len(staged) == 1 and staged[0].part == Part.PLAIN:
        if transaction:
            return pack_tail(staged[0], transaction, when_us, ordinal=1, marks=marks | _ALONE)
        return pack_tail(staged[0], 0, when_us, marks=marks)
    if {each.part for each in staged} == {Part.PLAIN}:
        return _plain_tails(staged, transaction, when_us, marks)
    if not transaction:
        return b"".join([pack_tail(each, 0, when_us, marks=marks) for each in staged])
    places = group_places([each.part for each in staged])
    return b"".join(
        [
            pack_tail(
                each, transaction, when_us,
                marks=marks | place.marks, ordinal=place.ordinal, following=place.following,
            )
            for each, place in zip(staged, places, strict=True)
        ]
    )  # fmt: skip


def _plain_tails(records: list[Staged], transaction: int, arrived_us: int, marks: int) -> bytes:
    """The tails of one group, none part of a large message: as `pack_tail` packs each, all at once.

    `marks` are for all of them; transaction 0 knows of no groups.
    """
    places: Iterable[int] = repeat(0)
    group_marks: Iterable[int] = repeat(marks)
    if transaction:
        most = len(records) - 1
        following = chain(
            repeat(FOLLOWING_MAX, most - FOLLOWING_MAX), range(min(most, FOLLOWING_MAX), -1, -1)
        )
        places = [at | each << ORDINAL_BITS for at, each in enumerate(following, 1)]
        first, last = marks | MARK_FIRST, marks | MARK_LAST
        group_marks = (first, *repeat(marks, most - 1), last) if most else (first | last,)
    pack = TAIL.pack
    return b"".join(
        [
            pack(
                *each.extent, each.crc, each.number, transaction, each.sent_us, arrived_us,
                each.expires_us, 0, place, its_marks, each.message_class,
                each.part | each.priority << PRIORITY_AT | each.copies << COPIES_AT, 0, 0,
            )
            for each, place, its_marks in zip(records, places, group_marks, strict=False)
        ]
    )  # fmt: skip
