"""Which messages a queue holds, and where: one packed entry a message, kept in receiving order.

An entry is 79 bytes, so that a million queued messages take about a hundred megabytes, not a
gigabyte of objects. The first nine bytes are big-endian, so that entries sort by priority, then
position:

    | 7 - priority | lookup id | file | offset | length | crc | number | transaction |
    |      1       |     8     |  4   |   4    |   4    |  4  |   8    |      8      |
    | sent | arrived | expires | stream | ordinal | marks | class | kind | aborts | moves |
    |  8   |    8    |    8    |   4    |    4    |   1   |   2   |  1   |   1    |   1   |

    kind: part 2 bits, priority 3, then one each if the sender asked for dead letters, for the
    journal, for acknowledgments
    ordinal: place in its transaction 22 bits, then 10 of how many follow it there (1023: or more)

The part behind the key (the *tail*, 70 bytes) is what facts carry: positions are given when a fact
is applied, and a replay gives the same ones. Entries that a transaction has taken are *held*: out
of the order, invisible to others, and back in their old place when it aborts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sortedcontainers import SortedList

from dray.store.heap import Extent
from dray.store.kinds import KIND_AT, Kind

_KEY = struct.Struct(">BQ")
_TAIL_FORM = "IIIIQQQQQIIBHBBB"
_TAIL = struct.Struct(f"<{_TAIL_FORM}")
KEY_BYTES = _KEY.size
TAIL_BYTES = _TAIL.size
ENTRY_BYTES = KEY_BYTES + TAIL_BYTES
_TAIL_IN_ENTRY = struct.Struct(f"<{KEY_BYTES}x{_TAIL_FORM}")
_PLACE = struct.Struct("<III")
_HEAP_KIND_AT = 3
"""In a tail: the byte whose highest bits are the kind of the heap file."""
_HEAP_KIND_SHIFT = KIND_AT - 8 * _HEAP_KIND_AT
_CLAIM_IN_ENTRY = struct.Struct(f"<{KEY_BYTES}xIIII")
_LENGTH_IN_ENTRY = struct.Struct("<I")
_LENGTH_AT = KEY_BYTES + 8
_COUNTS = struct.Struct("BB")
_COUNTS_AT = TAIL_BYTES - _COUNTS.size
_KIND_AT = _COUNTS_AT - 1
_CLASS = struct.Struct("<H")
_CLASS_AT = _KIND_AT - _CLASS.size
_EXPIRES = struct.Struct("<Q")
_EXPIRES_AT = _CLASS_AT - 1 - 2 * 4 - _EXPIRES.size
_WAY = struct.Struct("<I")
_WAY_AT = _CLASS_AT - 1 - 2 * 4
_COUNT_MAX = 255
_PRIORITY_TOP = 7
_TWO_BITS = 3
_PRIORITY_AT = 2
_THREE_BITS = 7
_COPIES_AT = 5
_ORDINAL_BITS = 22
_ORDINAL_MAX = (1 << _ORDINAL_BITS) - 1
FOLLOWING_MAX = (1 << 32 - _ORDINAL_BITS) - 1

COPY_DEAD_LETTER = 1
COPY_JOURNAL = 2
WANTS_ACKNOWLEDGMENTS = 4

MARK_FIRST = 1
MARK_LAST = 2
MARK_SINGLE = 4
"""Sent outside a transaction: a group of its own, welcome in queues of either kind."""


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
    stream: int
    """The way it came by (`ways.py`); 0 if it was sent here. In the order queue the number of the
    outgoing queue that it left by."""
    ordinal: int
    """Its place among what its transaction sent to the queue, from 1; 0 outside transactions."""
    marks: int
    message_class: int
    abort_count: int
    move_count: int
    """In an outgoing queue: how many managers have forwarded it."""
    part: int
    priority: int
    copies: int
    """`COPY_DEAD_LETTER`, `COPY_JOURNAL` and `WANTS_ACKNOWLEDGMENTS`, as the sender asked."""
    following: int = 0
    """How many messages its transaction sent to the queue behind it, `FOLLOWING_MAX` at most."""

    @property
    def extent(self) -> Extent:
        """Where the record is."""
        return Extent(self.file, self.offset, self.length)


def pack_tail(  # noqa: PLR0917 - one argument a field, on the path of every message
    extent: Extent,
    crc: int,
    number: int,
    transaction: int,
    sent_us: int,
    arrived_us: int,
    expires_us: int,
    stream: int,
    ordinal: int,
    marks: int,
    message_class: int,
    part: int,
    priority: int,
    copies: int,
    following: int = 0,
) -> bytes:
    """Pack what a fact carries of a message; `copies` and `following` as in `Entry`."""
    ordinal |= min(following, FOLLOWING_MAX) << _ORDINAL_BITS
    return _TAIL.pack(
        extent.file, extent.offset, extent.length, crc, number, transaction, sent_us, arrived_us,
        expires_us, stream, ordinal, marks, message_class,
        part | priority << _PRIORITY_AT | copies << _COPIES_AT, 0, 0,
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
    return tail[_HEAP_KIND_AT] >> _HEAP_KIND_SHIFT == Kind.EXPRESS


def is_express_entry(entry: bytes) -> bool:
    """The same of a packed entry."""
    return entry[KEY_BYTES + _HEAP_KIND_AT] >> _HEAP_KIND_SHIFT == Kind.EXPRESS


def at_place(tail: bytes, extent: Extent) -> bytes:
    """The tail of the same message with its record at another place."""
    return _PLACE.pack(*extent) + tail[_PLACE.size :]


def expires_us_of(entry: bytes) -> int:
    """When a packed entry expires, or 0."""
    expires_us: int = _EXPIRES.unpack_from(entry, KEY_BYTES + _EXPIRES_AT)[0]
    return expires_us


def with_class(tail: bytes, message_class: int) -> bytes:
    """The tail of the same message as another class, and with no time left to expire."""
    packed = bytearray(tail)
    _CLASS.pack_into(packed, _CLASS_AT, message_class)
    _EXPIRES.pack_into(packed, _EXPIRES_AT, 0)
    return bytes(packed)


def with_expiry(tail: bytes, expires_us: int) -> bytes:
    """The tail of the same message with another time to expire; 0 is never."""
    packed = bytearray(tail)
    _EXPIRES.pack_into(packed, _EXPIRES_AT, expires_us)
    return bytes(packed)


def with_way(tail: bytes, way: int) -> bytes:
    """The tail of the same message with another number for the way it came, or goes, by."""
    packed = bytearray(tail)
    _WAY.pack_into(packed, _WAY_AT, way)
    return bytes(packed)


def without_dead_letter(tail: bytes) -> bytes:
    """The tail of the same message as if its sender had not asked for dead letters."""
    packed = bytearray(tail)
    packed[_KIND_AT] &= ~(COPY_DEAD_LETTER << _COPIES_AT)
    return bytes(packed)


def place_in(entry: bytes) -> tuple[Extent, int]:
    """Where the record of a packed entry is, and its CRC32C."""
    file, offset, length, crc = _CLAIM_IN_ENTRY.unpack_from(entry)
    return Extent(file, offset, length), crc


def place_of(tail: bytes) -> tuple[Extent, int]:
    """Where the record of a packed tail is, and its CRC32C."""
    extent = extent_of(tail)
    crc: int = _LENGTH_IN_ENTRY.unpack_from(tail, _PLACE.size)[0]
    return extent, crc


def moved(tail: bytes) -> bytes:
    """The tail of a message in another queue: one more move, no aborts yet."""
    _, moves = _COUNTS.unpack_from(tail, _COUNTS_AT)
    return tail[:_COUNTS_AT] + _COUNTS.pack(0, min(moves + 1, _COUNT_MAX))


def with_hops(tail: bytes, hops: int) -> bytes:
    """The tail of the same message as one that so many managers have forwarded."""
    return tail[:_COUNTS_AT] + _COUNTS.pack(0, min(hops, _COUNT_MAX))


def as_group(tail: bytes) -> bytes:
    """The tail of the same message as one that is sent again, by itself."""
    packed = bytearray(tail)
    packed[_CLASS_AT - 1] = MARK_FIRST | MARK_LAST
    return with_hops(with_class(bytes(packed), 0), 0)


def pack_place(extent: Extent) -> bytes:
    """A place as a fact carries it."""
    return _PLACE.pack(*extent)


def unpack_places(packed: bytes) -> list[Extent]:
    """Read places that were packed one behind the other."""
    return [Extent(*each) for each in _PLACE.iter_unpack(packed)]


def tail_of(entry: bytes) -> bytes:
    """The part of an entry that goes with a message from queue to queue."""
    return entry[KEY_BYTES:]


def with_key(tail: bytes, lookup_id: int) -> bytes:
    """Make the entry of a tail that is given its position."""
    return (
        _KEY.pack(_PRIORITY_TOP - (tail[_KIND_AT] >> _PRIORITY_AT & _THREE_BITS), lookup_id) + tail
    )


def unpack(entry: bytes) -> Entry:
    """Read an entry."""
    fields = _TAIL_IN_ENTRY.unpack(entry)
    *others, ordinal, marks, message_class, kind, aborts, moves = fields
    part, priority, copies = (
        kind & _TWO_BITS,
        kind >> _PRIORITY_AT & _THREE_BITS,
        kind >> _COPIES_AT,
    )
    following, ordinal = ordinal >> _ORDINAL_BITS, ordinal & _ORDINAL_MAX
    return Entry._make(
        (
            lookup_id_of(entry), *others, ordinal, marks, message_class, aborts, moves,
            part, priority, copies, following,
        )
    )  # fmt: skip


def lookup_id_of(entry: bytes) -> int:
    """The position of a packed entry."""
    return int.from_bytes(entry[1:KEY_BYTES], "big")


def length_of(entry: bytes) -> int:
    """The record length of a packed entry."""
    length: int = _LENGTH_IN_ENTRY.unpack_from(entry, _LENGTH_AT)[0]
    return length


def part_of(entry: bytes) -> int:
    """The `Part` of a packed entry."""
    return entry[KEY_BYTES + _KIND_AT] & _TWO_BITS


class QueueIndex:
    """The entries of one queue, available and held."""

    def __init__(self) -> None:
        """Begin empty."""
        self._available: SortedList[bytes] = SortedList()
        self._held: dict[int, tuple[bytes, int]] = {}
        self._aside: dict[int, bytes] = {}
        self.byte_count = 0
        """Bytes of all records, available, held or put aside."""
        self.express_count = self.express_bytes = 0
        """How many of all these are express messages, and their bytes."""

    def __len__(self) -> int:
        """Messages available, held or put aside."""
        return len(self._available) + len(self._held) + len(self._aside)

    @property
    def available_count(self) -> int:
        """Messages that a receive could take now."""
        return len(self._available)

    def add(self, entry: bytes) -> None:
        """Put a new entry at its place."""
        self._available.add(entry)
        self._count(entry, 1)

    def load(self, entries: Iterable[bytes]) -> None:
        """Fill an empty index from a checkpoint."""
        self._available = SortedList(entries)
        self.byte_count = sum(map(length_of, self._available))

    def first(self) -> bytes | None:
        """The entry that the next receive takes."""
        return self._available[0] if self._available else None

    def available(self) -> Iterator[bytes]:
        """All available entries in receiving order."""
        return iter(self._available)

    def after(self, lookup_id: int) -> Iterator[bytes]:
        """Available entries of a queue of one priority above a position, in order."""
        first = self.first()
        if first is None:
            return iter(())
        # In queues without priorities every key begins with the same byte.
        return self._available.irange(
            minimum=_KEY.pack(first[0], max(0, lookup_id)) + b"\xff" * TAIL_BYTES,
            inclusive=(False, True),
        )

    def from_entry(self, packed: bytes) -> Iterator[bytes]:
        """Available entries behind a packed one, which need not be there any more."""
        return self._available.irange(minimum=packed, inclusive=(False, True))

    def relocate(self, lookup_id: int, extent: Extent) -> Extent | None:
        """Give an available entry's record another place; the old one, None if it is not there."""
        entry = self.find(lookup_id)
        if entry is None:
            return None
        self._available.remove(entry)
        self._available.add(entry[:KEY_BYTES] + at_place(entry[KEY_BYTES:], extent))
        return place_in(entry)[0]

    def in_position_order(self, after: int = 0) -> Iterator[bytes]:
        """Available entries above a position, by position whatever their priority."""
        if not self._available or self._available[0][0] == self._available[-1][0]:
            return self.after(after)
        entries = (entry for entry in self._available if lookup_id_of(entry) > after)
        return iter(sorted(entries, key=lookup_id_of))

    def find(self, lookup_id: int) -> bytes | None:
        """The available entry at a position; there are none below 1."""
        if lookup_id < 1:
            return None
        for priority_byte in self._priority_bytes():
            key = _KEY.pack(priority_byte, lookup_id)
            at = self._available.bisect_left(key)
            if at < len(self._available) and self._available[at].startswith(key):
                entry: bytes = self._available[at]
                return entry
        return None

    def held(self, lookup_id: int) -> tuple[bytes, int] | None:
        """The held entry at a position, and the transaction that holds it."""
        return self._held.get(lookup_id)

    def held_positions(self) -> list[int]:
        """Positions of all held entries."""
        return list(self._held)

    def held_entries(self) -> Iterator[bytes]:
        """All held entries."""
        return (entry for entry, _ in self._held.values())

    def hold(self, entry: bytes, transaction: int) -> None:
        """Take an available entry out of sight, for a transaction."""
        self._available.remove(entry)
        self._held[lookup_id_of(entry)] = entry, transaction

    def put_aside(self, entry: bytes) -> None:
        """Keep an available entry, out of everyone's way until the next start."""
        self._available.remove(entry)
        self._aside[lookup_id_of(entry)] = entry

    @property
    def aside_count(self) -> int:
        """Messages put aside."""
        return len(self._aside)

    def put_back(self, lookup_id: int) -> bytes:
        """Return a held entry to its old place."""
        entry, _ = self._held.pop(lookup_id)
        self._available.add(entry)
        return entry

    def count_abort(self, lookup_id: int) -> None:
        """Note that a transaction that had taken the available entry was aborted."""
        entry = self.find(lookup_id)
        if entry is not None:
            aborts, moves = _COUNTS.unpack_from(entry, KEY_BYTES + _COUNTS_AT)
            counts = _COUNTS.pack(min(aborts + 1, _COUNT_MAX), moves)
            self._available.remove(entry)
            self._available.add(entry[: KEY_BYTES + _COUNTS_AT] + counts)

    def remove(self, lookup_id: int) -> bytes | None:
        """Take an entry away for good, held or available; None if it is not there."""
        entry = self._aside.pop(lookup_id, None)
        if entry is None and lookup_id in self._held:
            entry, _ = self._held.pop(lookup_id)
        elif entry is None:
            entry = self.find(lookup_id)
            if entry is None:
                return None
            self._available.remove(entry)
        self._count(entry, -1)
        return entry

    def durable(self) -> list[bytes]:
        """All entries but those of express messages: what checkpoints keep and crashes restore."""
        if not self.express_count:
            return self.everything()
        return [entry for entry in self.everything() if not is_express_entry(entry)]

    def everything(self) -> list[bytes]:
        """All entries, held ones in their old place."""
        if not (self._held or self._aside):
            return list(self._available)
        held = (entry for entry, _ in self._held.values())
        return sorted([*self._available, *held, *self._aside.values()])

    def _count(self, entry: bytes, sign: int) -> None:
        length = sign * length_of(entry)
        self.byte_count += length
        if is_express_entry(entry):
            self.express_count += sign
            self.express_bytes += length

    def _priority_bytes(self) -> Iterable[int]:
        if not self._available:
            return ()
        return range(self._available[0][0], self._available[-1][0] + 1)
