"""One packed entry: read, and made from a tail and a position.

Entries that a transaction has taken are *held*: out of the order, invisible to others, and back in
their old place when it aborts. `layout.py` draws the bytes.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from dray.manager.entries.layout import (
    CLASS_AT,
    COPIES_AT,
    EXPIRES,
    EXPIRES_AT,
    EXPRESS,
    HEAP_KIND_AT,
    HEAP_KIND_SHIFT,
    KEY,
    KEY_BYTES,
    KIND_BYTE_AT,
    LENGTH,
    LENGTH_AT,
    NUMBER,
    NUMBER_AT,
    ORDINAL_BITS,
    ORDINAL_MAX,
    PRIORITY_AT,
    PRIORITY_TOP,
    TAIL_IN_ENTRY,
    THREE_BITS,
    TWO_BITS,
)
from dray.store.heap.heap import Extent

_CLAIM_IN_ENTRY = struct.Struct(f"<{KEY_BYTES}xIIII")


class Entry(NamedTuple):
    """One message of a queue, unpacked. Times in microseconds since the epoch."""

    lookup_id: int
    file: int
    offset: int
    length: int
    crc: int
    number: int
    transaction: int
    sent_us: int
    arrived_us: int
    expires_us: int
    """When it leaves its queue if nobody takes it before; 0 is never."""
    route: int
    """The number of the route by which it came (`arrival_routes.py`); 0 if it was sent here."""
    ordinal: int
    """Its place among what its transaction sent to the queue, from 1; 0 outside transactions."""
    marks: int
    message_class: int
    abort_count: int
    move_count: int
    """The number of its moves; in an outgoing queue, of the managers that have forwarded it."""
    part: int
    priority: int
    copies: int
    """`COPY_DEAD_LETTER`, `COPY_JOURNAL` and `WANTS_ACKNOWLEDGMENTS`, as the sender asked."""
    following: int = 0
    """`GroupPlace.following`, `FOLLOWING_MAX` at most."""

    @property
    def left_by(self) -> int:
        """In the order queue: the number of the outgoing queue by which it left, not a route."""
        return self.route

    @property
    def extent(self) -> Extent:
        """The place of the record."""
        return Extent(self.file, self.offset, self.length)


def is_express_entry(entry: bytes) -> bool:
    """The same of a packed entry."""
    return entry[KEY_BYTES + HEAP_KIND_AT] >> HEAP_KIND_SHIFT == EXPRESS


def expires_us_of(entry: bytes) -> int:
    """When a packed entry expires, or 0."""
    expires_us: int = EXPIRES.unpack_from(entry, KEY_BYTES + EXPIRES_AT)[0]
    return expires_us


def marks_of(entry: bytes) -> int:
    """The marks of a packed entry."""
    return entry[KEY_BYTES + CLASS_AT - 1]


def place_in(entry: bytes) -> tuple[Extent, int]:
    """The place of the record of a packed entry, and its CRC32C."""
    file, offset, length, crc = _CLAIM_IN_ENTRY.unpack_from(entry)
    return Extent(file, offset, length), crc


def tail_of(entry: bytes) -> bytes:
    """The part of an entry that goes with a message from queue to queue."""
    return entry[KEY_BYTES:]


def with_key(tail: bytes, lookup_id: int) -> bytes:
    """Make the entry of a tail that is given its position."""
    priority = PRIORITY_TOP - (tail[KIND_BYTE_AT] >> PRIORITY_AT & THREE_BITS)
    return KEY.pack(priority, lookup_id) + tail


def unpack(entry: bytes) -> Entry:
    """Read an entry."""
    fields = TAIL_IN_ENTRY.unpack(entry)
    *others, ordinal, marks, message_class, kind, aborts, moves = fields
    part, priority = kind & TWO_BITS, kind >> PRIORITY_AT & THREE_BITS
    following, ordinal = ordinal >> ORDINAL_BITS, ordinal & ORDINAL_MAX
    return Entry._make(
        (
            lookup_id_of(entry), *others, ordinal, marks, message_class, aborts, moves,
            part, priority, kind >> COPIES_AT, following,
        )
    )  # fmt: skip


def lookup_id_of(entry: bytes) -> int:
    """The position of a packed entry."""
    return int.from_bytes(entry[1:KEY_BYTES], "big")


def length_of(entry: bytes) -> int:
    """The record length of a packed entry."""
    length: int = LENGTH.unpack_from(entry, LENGTH_AT)[0]
    return length


def number_of(entry: bytes) -> int:
    """The message number of a packed entry."""
    number: int = NUMBER.unpack_from(entry, KEY_BYTES + NUMBER_AT)[0]
    return number


def part_of(entry: bytes) -> int:
    """The `Part` of a packed entry."""
    return entry[KEY_BYTES + KIND_BYTE_AT] & TWO_BITS


def copies_of(entry: bytes) -> int:
    """Notifications and copies that the sender of a packed entry asks for, as in `Entry.copies`."""
    return entry[KEY_BYTES + KIND_BYTE_AT] >> COPIES_AT
