"""Records of a batch that are nearly the same: written and read by few calls for all.

Most batches are of that kind. `encode_record` writes the first head and `read_header` reads it, so
`record.py` alone has the rules; of the others only what may differ is written, or compared:

    | magic .. properties length | body length | source | number | app specific | rest | properties
    |         12 bytes           |      4      |   16   |    8   |      4       |  20  |
            the same                 differs      same    differs     differs     same    the same

Records that are read as alike have zeros for the rest: no part of a large message, no
acknowledgment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, count, repeat
from operator import add
from typing import NamedTuple

from dray.model.limits import MESSAGE_BYTES_MAX
from dray.model.message import Message
from dray.wire.record import HEADER_BYTES, RecordHeader, encode_record, read_header, too_large

_BEFORE_LENGTH = slice(0, 12)
_BEHIND_APP_SPECIFIC = slice(44, None)
_NOTHING_MORE = bytes(20)
_LENGTHS_REMEMBERED = 64
_BODY_BYTES_FIELD = RecordHeader._fields.index("body_bytes")
_header_of: Callable[[tuple[object, ...]], RecordHeader] = partial(tuple.__new__, RecordHeader)
"""Without a call of a Python function for each record."""


class AlikeRecords(NamedTuple):
    """Records that differ only in body, number and `app_specific`; all have the same properties."""

    first: RecordHeader
    numbers: tuple[int, ...]
    app_specific: tuple[int, ...]


def encode_alike(
    message: Message,
    bodies: Sequence[bytes],
    source: bytes,
    first: int,
    *,
    app_specific: Sequence[int] = (),
) -> tuple[list[bytes], list[int]]:
    """Give the heads of records that differ from `message` in their bodies, and the record sizes.

    There is at least one body. The records are numbered from `first` on, and have an `app_specific`
    each if any are given, signed 32-bit integers. Raises as `encode_record` does.
    """
    head, _ = encode_record(message, source, first)
    before, behind = head[_BEFORE_LENGTH], head[_BEHIND_APP_SPECIFIC]
    sizes = [len(head) + len(body) for body in bodies]
    if max(sizes) > MESSAGE_BYTES_MAX:
        raise too_large(next(size for size in sizes if size > MESSAGE_BYTES_MAX))
    pack = struct.Struct(f"<12sI16sQi{len(behind)}s").pack
    said = app_specific or repeat(message.app_specific, len(bodies))
    heads = [
        pack(before, len(body), source, number, each, behind)
        for number, body, each in zip(count(first), bodies, said, strict=False)
    ]
    return heads, sizes


def read_alike(view: memoryview, sizes: Sequence[int]) -> AlikeRecords | None:
    """Read the headers of neighbours of these sizes.

    None if they are not alike, or one is not as long as its header says; `ProtocolError` if the
    first is none. The properties themselves are not read.
    """
    if not sizes or sum(sizes) != len(view):
        return None
    shortest = min(sizes)
    if shortest < HEADER_BYTES or max(sizes) > MESSAGE_BYTES_MAX:
        return None
    first = read_header(view)
    without_body = HEADER_BYTES + first.properties_bytes
    if shortest < without_body:
        return None
    unpack = _without_body(first.properties_bytes).unpack_from
    before, lengths, sources, numbers, said, rest, properties = zip(
        *map(unpack, repeat(view), accumulate(sizes[:-1], initial=0)), strict=True
    )
    same = len(set(before)) == len(set(sources)) == len(set(properties)) == 1
    fits = list(map(add, lengths, repeat(without_body))) == list(sizes)
    if not (same and fits and set(rest) == {_NOTHING_MORE}):
        return None
    return AlikeRecords(first, numbers, said)


@lru_cache(_LENGTHS_REMEMBERED)
def _without_body(properties_bytes: int) -> struct.Struct:
    """Reads a record up to its body."""
    return struct.Struct(f"<12sI16sQi20s{properties_bytes}s")


def headers_of(alike: AlikeRecords, sizes: Sequence[int]) -> list[RecordHeader]:
    """The headers of alike records, one by one."""
    before, (source, _, _, *rest) = (
        alike.first[:_BODY_BYTES_FIELD],
        alike.first[_BODY_BYTES_FIELD + 1 :],
    )
    lengths = map(add, sizes, repeat(-HEADER_BYTES - alike.first.properties_bytes))
    columns = (*map(repeat, before), lengths, repeat(source), alike.numbers, alike.app_specific)
    return list(map(_header_of, zip(*columns, *map(repeat, rest), strict=False)))
