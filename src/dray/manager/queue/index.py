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
    ordinal: place in its transaction 22 bits, then 10 of how many follow it there (1023: or more);
    with MARK_LARGE, of how many messages its transaction sent to the queue

The part behind the key (the *tail*, 70 bytes) is what facts carry: positions are given when a fact
is applied, and a replay gives the same ones. Entries that a transaction has taken are *held*: out
of the order, invisible to others, and back in their old place when it aborts.

Questions about all messages of a fact, or of a run of entries, are put to the packed bytes as a
whole: a hundred messages that join or leave together cost little more than one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dray.store.heap.heap import Extent
from dray.store.kinds import KIND_AT, Kind
from dray.wire.frames import FOLLOWING_MAX, MARK_FIRST, MARK_LARGE, MARK_LAST
from dray.wire.record import COPY_DEAD_LETTER

if TYPE_CHECKING:
    from dray.manager.queue.staged import GroupPlace, Staged

_KEY = struct.Struct(">BQ")
_TAIL_FORM = "IIIIQQQQQIIBHBBB"
TAIL = struct.Struct(f"<{_TAIL_FORM}")
KEY_BYTES = _KEY.size
TAIL_BYTES = TAIL.size
ENTRY_BYTES = KEY_BYTES + TAIL_BYTES
_TAIL_IN_ENTRY = struct.Struct(f"<{KEY_BYTES}x{_TAIL_FORM}")
_ENTRY = struct.Struct(f">BQ{TAIL_BYTES}s")
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
_ROUTE = struct.Struct("<I")
_ROUTE_AT = _CLASS_AT - 1 - 2 * 4
_NUMBER = struct.Struct("<Q")
_NUMBER_AT = 16
_NUMBERS_IN_ENTRIES = struct.Struct(
    f"<{KEY_BYTES + _NUMBER_AT}xQ{TAIL_BYTES - _NUMBER_AT - _NUMBER.size}x"
)
_PLACES_IN_ENTRIES = struct.Struct(f"<{KEY_BYTES}xIII{TAIL_BYTES - 12}x")
_CLAIMS_IN_ENTRIES = struct.Struct(f"<{KEY_BYTES}xIIII{TAIL_BYTES - 16}x")
_LENGTHS_IN_ENTRIES = struct.Struct(f"<{_LENGTH_AT}xI{ENTRY_BYTES - _LENGTH_AT - 4}x")
_POSITIONS_IN_ENTRIES = struct.Struct(f">xQ{TAIL_BYTES}x")
_TRANSACTIONS_IN_ENTRIES = struct.Struct(
    f"<{KEY_BYTES + _NUMBER_AT + _NUMBER.size}xQ{3 * 8}xI4xB{_CLASS.size + 1 + _COUNTS.size}x"
)
_EXPIRES_IN_ENTRIES = struct.Struct(
    f"<{KEY_BYTES + _EXPIRES_AT}xQ{TAIL_BYTES - _EXPIRES_AT - _EXPIRES.size}x"
)
_TRANSACTION_FIELD = 5
_KIND_FIELD = 13
"""In an unpacked tail: the places of the transaction and of the kind."""
_COUNT_MAX = 255
_PRIORITY_TOP = 7
_TWO_BITS = 3
PRIORITY_AT = 2
_THREE_BITS = 7
COPIES_AT = 5
ORDINAL_BITS = 22
ORDINAL_MAX = (1 << ORDINAL_BITS) - 1
_PRIORITY_BYTES = bytes(_PRIORITY_TOP - (kind >> PRIORITY_AT & _THREE_BITS) for kind in range(256))
"""By kind byte: what the key begins with."""
_EXPRESS = int(Kind.EXPRESS)
_LASTING = bytes(top for top in range(256) if top >> _HEAP_KIND_SHIFT != _EXPRESS)
"""The highest byte of the file number of all kinds but express ones."""
_KINDS_OF_PLAIN = bytes(kind for kind in range(256) if not kind & _TWO_BITS)
_KINDS_ASKING_NOTHING = bytes(range(1 << COPIES_AT))
assert FOLLOWING_MAX == (1 << 32 - ORDINAL_BITS) - 1


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
    """How often it was moved; in an outgoing queue, how many managers have forwarded it."""
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
        """Where the record is."""
        return Extent(self.file, self.offset, self.length)


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
    file, offset, length = record.extent
    following = min(following, FOLLOWING_MAX)
    return TAIL.pack(
        file, offset, length, record.crc, record.number, transaction, record.sent_us, arrived_us,
        record.expires_us, route, ordinal | following << ORDINAL_BITS, marks, record.message_class,
        record.part | record.priority << PRIORITY_AT | record.copies << COPIES_AT,
        0, min(_COUNT_MAX, hops),
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
    return tail[_HEAP_KIND_AT] >> _HEAP_KIND_SHIFT == _EXPRESS


def is_express_entry(entry: bytes) -> bool:
    """The same of a packed entry."""
    return entry[KEY_BYTES + _HEAP_KIND_AT] >> _HEAP_KIND_SHIFT == _EXPRESS


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


def marks_of(entry: bytes) -> int:
    """The marks of a packed entry."""
    return entry[KEY_BYTES + _CLASS_AT - 1]


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
    packed[_KIND_AT] &= ~(COPY_DEAD_LETTER << COPIES_AT)
    return bytes(packed)


def with_abort(entry: bytes) -> bytes:
    """The entry of the same message after one more transaction that had taken it was aborted."""
    aborts, moves = _COUNTS.unpack_from(entry, KEY_BYTES + _COUNTS_AT)
    return entry[: KEY_BYTES + _COUNTS_AT] + _COUNTS.pack(min(aborts + 1, _COUNT_MAX), moves)


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


def as_group(tail: bytes) -> bytes:
    """The tail of the same message as one that is sent again, by itself."""
    packed = bytearray(tail)
    packed[_CLASS_AT - 1] = MARK_FIRST | MARK_LAST | packed[_CLASS_AT - 1] & MARK_LARGE
    packed[_COUNTS_AT:] = _COUNTS.pack(0, 0)
    return with_class(bytes(packed), 0)


def sent_anew(
    tail: bytes, *, transaction: int, when_us: int, expires_us: int, place: GroupPlace
) -> bytes:
    """The tail of a message that was kept somewhere, as one sent now; transaction 0 is none."""
    ordinal, following, marks = place
    fields = list(TAIL.unpack(tail))
    kind = fields[_KIND_FIELD]
    if transaction:
        kind &= ~(_THREE_BITS << PRIORITY_AT)
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


def tail_of(entry: bytes) -> bytes:
    """The part of an entry that goes with a message from queue to queue."""
    return entry[KEY_BYTES:]


def with_key(tail: bytes, lookup_id: int) -> bytes:
    """Make the entry of a tail that is given its position."""
    priority = _PRIORITY_TOP - (tail[_KIND_AT] >> PRIORITY_AT & _THREE_BITS)
    return _KEY.pack(priority, lookup_id) + tail


def unpack(entry: bytes) -> Entry:
    """Read an entry."""
    fields = _TAIL_IN_ENTRY.unpack(entry)
    *others, ordinal, marks, message_class, kind, aborts, moves = fields
    part, priority = kind & _TWO_BITS, kind >> PRIORITY_AT & _THREE_BITS
    following, ordinal = ordinal >> ORDINAL_BITS, ordinal & ORDINAL_MAX
    return Entry._make(
        (
            lookup_id_of(entry), *others, ordinal, marks, message_class, aborts, moves,
            part, priority, kind >> COPIES_AT, following,
        )
    )  # fmt: skip


def entries_in(packed: bytes) -> list[bytes]:
    """Cut packed entries apart."""
    return [packed[at : at + ENTRY_BYTES] for at in range(0, len(packed), ENTRY_BYTES)]


def positions_in(packed: bytes) -> Iterator[int]:
    """The positions of packed entries."""
    return chain.from_iterable(_POSITIONS_IN_ENTRIES.iter_unpack(packed))


def lengths_in(packed: bytes) -> Iterator[int]:
    """The record lengths of packed entries."""
    return chain.from_iterable(_LENGTHS_IN_ENTRIES.iter_unpack(packed))


def transactions_in(packed: bytes) -> Iterator[tuple[int, int, int]]:
    """Transaction, route and marks of packed entries."""
    return _TRANSACTIONS_IN_ENTRIES.iter_unpack(packed)


def places_in(packed: bytes) -> Iterator[Extent]:
    """The places of the records of packed entries."""
    return map(Extent._make, _PLACES_IN_ENTRIES.iter_unpack(packed))


def fields_in(packed: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Position and tail fields of packed entries, in the order at the top."""
    return zip(positions_in(packed), _TAIL_IN_ENTRY.iter_unpack(packed), strict=True)


def runs_in(packed: bytes) -> list[Extent]:
    """Where the records of packed entries lie, neighbours in one piece."""
    runs: list[Extent] = []
    file = start = stop = 0
    for its_file, offset, length in _PLACES_IN_ENTRIES.iter_unpack(packed):
        if offset == stop and its_file == file:
            stop += length
            continue
        if stop > start:
            runs.append(Extent(file, start, stop - start))
        file, start, stop = its_file, offset, offset + length
    if stop > start:
        runs.append(Extent(file, start, stop - start))
    return runs


def claims_in(packed: bytes) -> Iterator[tuple[Extent, int]]:
    """The places of the records of packed entries, and the CRC32C of each."""
    for file, offset, length, crc in _CLAIMS_IN_ENTRIES.iter_unpack(packed):
        yield Extent(file, offset, length), crc


def express_in(packed: bytes) -> bytes:
    """The packed entries of express messages."""
    kinds = packed[KEY_BYTES + _HEAP_KIND_AT :: ENTRY_BYTES]
    if not kinds.translate(None, _LASTING):
        return b""
    return b"".join([entry for entry in entries_in(packed) if is_express_entry(entry)])


def entries_numbered(packed: bytes, wanted: AbstractSet[int]) -> list[bytes]:
    """The packed entries whose message numbers are wanted."""
    numbers = chain.from_iterable(_NUMBERS_IN_ENTRIES.iter_unpack(packed))
    places = [at * ENTRY_BYTES for at, number in enumerate(numbers) if number in wanted]
    return [packed[at : at + ENTRY_BYTES] for at in places]


def expiries_in(packed: bytes) -> list[tuple[int, int]]:
    """Expiry times and positions of the packed entries that expire."""
    times = chain.from_iterable(_EXPIRES_IN_ENTRIES.iter_unpack(packed))
    return [each for each in zip(times, positions_in(packed), strict=True) if each[0]]


def part_count_in(packed: bytes) -> int:
    """How many of packed entries are parts of large messages."""
    return len(packed[KEY_BYTES + _KIND_AT :: ENTRY_BYTES].translate(None, _KINDS_OF_PLAIN))


def any_asks_in(packed: bytes) -> bool:
    """Whether the sender of any of packed entries asked for a copy or an acknowledgment."""
    return bool(packed[KEY_BYTES + _KIND_AT :: ENTRY_BYTES].translate(None, _KINDS_ASKING_NOTHING))


def has_come_back(entry: bytes) -> bool:
    """Whether a receiver has given a message back."""
    return bool(entry[KEY_BYTES + _COUNTS_AT])


def with_keys(tails: bytes, first: int) -> bytes:
    """Make entries of packed tails that are given positions from one on, one behind the other."""
    priorities = tails[_KIND_AT::TAIL_BYTES].translate(_PRIORITY_BYTES)
    count = len(priorities)
    apart = [tails] if count == 1 else split_tails(tails)
    return b"".join(map(_ENTRY.pack, priorities, range(first, first + count), apart))


def lookup_id_of(entry: bytes) -> int:
    """The position of a packed entry."""
    return int.from_bytes(entry[1:KEY_BYTES], "big")


def length_of(entry: bytes) -> int:
    """The record length of a packed entry."""
    length: int = _LENGTH_IN_ENTRY.unpack_from(entry, _LENGTH_AT)[0]
    return length


def number_of(entry: bytes) -> int:
    """The message number of a packed entry."""
    number: int = _NUMBER.unpack_from(entry, KEY_BYTES + _NUMBER_AT)[0]
    return number


def part_of(entry: bytes) -> int:
    """The `Part` of a packed entry."""
    return entry[KEY_BYTES + _KIND_AT] & _TWO_BITS


def copies_of(entry: bytes) -> int:
    """Notifications and copies that the sender of a packed entry asks for, as in `Entry.copies`."""
    return entry[KEY_BYTES + _KIND_AT] >> COPIES_AT
