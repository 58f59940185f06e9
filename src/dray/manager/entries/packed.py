"""Entries packed one behind the other: cut apart, read, counted.

Questions about all messages of a fact, or of a run of entries, are put to the packed bytes as a
whole: a hundred messages that join or leave together cost little more than one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from operator import itemgetter

from dray.manager.entries.entry import is_express_entry, part_of
from dray.manager.entries.layout import (
    CLASS,
    COPIES_AT,
    COUNT_MAX,
    COUNTS,
    COUNTS_AT,
    ENTRY_BYTES,
    EXPIRES,
    EXPIRES_AT,
    EXPRESS,
    HEAP_KIND_AT,
    HEAP_KIND_SHIFT,
    KEY_BYTES,
    KIND_BYTE_AT,
    LENGTH,
    LENGTH_AT,
    NUMBER,
    NUMBER_AT,
    PRIORITY_AT,
    PRIORITY_TOP,
    TAIL_BYTES,
    TAIL_IN_ENTRY,
    THREE_BITS,
    TWO_BITS,
)
from dray.manager.entries.tails import split_tails
from dray.store.heap.heap import Extent

_ENTRY = struct.Struct(f">BQ{TAIL_BYTES}s")
_NUMBERS_IN_ENTRIES = struct.Struct(
    f"<{KEY_BYTES + NUMBER_AT}xQ{TAIL_BYTES - NUMBER_AT - NUMBER.size}x"
)
_PLACES_IN_ENTRIES = struct.Struct(f"<{KEY_BYTES}xIII{TAIL_BYTES - 12}x")
_CLAIMS_IN_ENTRIES = struct.Struct(f"<{KEY_BYTES}xIIII{TAIL_BYTES - 16}x")
_POSITIONS_IN_ENTRIES = struct.Struct(f">xQ{TAIL_BYTES}x")
_TRANSACTIONS_IN_ENTRIES = struct.Struct(
    f"<{KEY_BYTES + NUMBER_AT + NUMBER.size}xQ{3 * 8}xI4xB{CLASS.size + 1 + COUNTS.size}x"
)
_EXPIRES_IN_ENTRIES = struct.Struct(
    f"<{KEY_BYTES + EXPIRES_AT}xQ{TAIL_BYTES - EXPIRES_AT - EXPIRES.size}x"
)
_PRIORITY_BYTES = bytes(PRIORITY_TOP - (kind >> PRIORITY_AT & THREE_BITS) for kind in range(256))
"""By kind byte: what the key begins with."""
_LASTING = bytes(top for top in range(256) if top >> HEAP_KIND_SHIFT != EXPRESS)
"""The highest byte of the file number of all kinds but express ones."""
_KINDS_OF_PLAIN = bytes(kind for kind in range(256) if not kind & TWO_BITS)
_ONE_MORE = bytes(min(count + 1, COUNT_MAX) for count in range(256))
_KINDS_ASKING_NOTHING = bytes(range(1 << COPIES_AT))


def entries_in(packed: bytes) -> list[bytes]:
    """Cut packed entries apart."""
    return [packed[at : at + ENTRY_BYTES] for at in range(0, len(packed), ENTRY_BYTES)]


def positions_in(packed: bytes) -> Iterator[int]:
    """The positions of packed entries."""
    return chain.from_iterable(_POSITIONS_IN_ENTRIES.iter_unpack(packed))


def lengths_in(packed: bytes) -> tuple[int, ...]:
    """The record lengths of packed entries: one byte of all at a time, then all in one call."""
    count = len(packed) // ENTRY_BYTES
    column = bytearray(count * LENGTH.size)
    for at in range(LENGTH.size):
        column[at :: LENGTH.size] = packed[LENGTH_AT + at :: ENTRY_BYTES]
    return struct.unpack(f"<{count}I", column)


def transactions_in(packed: bytes) -> Iterator[tuple[int, int, int]]:
    """Transaction, route and marks of packed entries."""
    return _TRANSACTIONS_IN_ENTRIES.iter_unpack(packed)


def routes_in(packed: bytes) -> Iterator[int]:
    """The numbers of the routes by which the messages of packed entries came; 0 if sent here."""
    return map(itemgetter(1), transactions_in(packed))


def places_in(packed: bytes) -> Iterator[Extent]:
    """The places of the records of packed entries."""
    return map(Extent._make, _PLACES_IN_ENTRIES.iter_unpack(packed))


def fields_in(packed: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Position and tail fields of packed entries, in the order at the top."""
    return zip(positions_in(packed), TAIL_IN_ENTRY.iter_unpack(packed), strict=True)


def runs_in(packed: bytes) -> list[Extent]:
    """The places of the records of packed entries, neighbours in one piece."""
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
    kinds = packed[KEY_BYTES + HEAP_KIND_AT :: ENTRY_BYTES]
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
    times = [*chain.from_iterable(_EXPIRES_IN_ENTRIES.iter_unpack(packed))]
    if not any(times):
        # Most messages never expire.
        return []
    return [each for each in zip(times, positions_in(packed), strict=True) if each[0]]


def part_count_in(packed: bytes) -> int:
    """The number of packed entries that are parts of large messages."""
    return len(packed[KEY_BYTES + KIND_BYTE_AT :: ENTRY_BYTES].translate(None, _KINDS_OF_PLAIN))


def plain_in(packed: bytes) -> bytes:
    """The packed entries that are no parts of large messages."""
    if not part_count_in(packed):
        return packed
    return b"".join([entry for entry in entries_in(packed) if not part_of(entry)])


def any_asks_in(packed: bytes) -> bool:
    """Whether the sender of any of packed entries asked for a copy or an acknowledgment."""
    return bool(
        packed[KEY_BYTES + KIND_BYTE_AT :: ENTRY_BYTES].translate(None, _KINDS_ASKING_NOTHING)
    )


def any_came_back_in(packed: bytes) -> bool:
    """Whether a receiver has given any of packed entries back."""
    return any(packed[KEY_BYTES + COUNTS_AT :: ENTRY_BYTES])


def with_aborts(packed: bytes) -> bytes:
    """The entries of the same messages after one more transaction that had them was aborted."""
    counted = bytearray(packed)
    aborts = slice(KEY_BYTES + COUNTS_AT, None, ENTRY_BYTES)
    counted[aborts] = packed[aborts].translate(_ONE_MORE)
    return bytes(counted)


def with_keys(tails: bytes, first: int) -> bytes:
    """Make entries of packed tails that are given positions from one on, one behind the other."""
    priorities = tails[KIND_BYTE_AT::TAIL_BYTES].translate(_PRIORITY_BYTES)
    count = len(priorities)
    apart = [tails] if count == 1 else split_tails(tails)
    return b"".join(map(_ENTRY.pack, priorities, range(first, first + count), apart))
