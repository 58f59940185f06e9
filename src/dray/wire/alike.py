"""Records of a batch that are nearly the same: written and read by few calls for all.

Most batches are of that kind. `encode_record` writes the first head and `read_header` reads it, so
`record.py` alone has the rules; of the others only what may differ is written, or compared:

    | magic .. properties length | body length | source | number | app specific | the rest |
    |         12 bytes           |      4      |   16   |    8   |      4       |    20    |
            the same                 differs      same    differs     differs     the same

Records that are read as alike have no properties, and zeros behind the number: no `app_specific`,
no part of a large message, no acknowledgment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, count, repeat
from operator import add
from typing import NamedTuple

from dray.model.limits import MESSAGE_BYTES_MAX
from dray.model.message import Message
from dray.wire.record import HEADER_BYTES, RecordHeader, encode_record, read_header, too_large

_FIXED = struct.Struct("<12sI16sQ24s")
_BEFORE_LENGTH = slice(0, 12)
_BEHIND_APP_SPECIFIC = slice(44, None)
_NOTHING_MORE = bytes(24)
_BODY_BYTES_FIELD = RecordHeader._fields.index("body_bytes")
_header_of: Callable[[tuple[object, ...]], RecordHeader] = partial(tuple.__new__, RecordHeader)
"""Without a call of a Python function for each record."""


class AlikeRecords(NamedTuple):
    """Records without properties that differ only in body and number."""

    first: RecordHeader
    numbers: tuple[int, ...]


def encode_alike(
    message: Message,
    bodies: Sequence[bytes],
    source: bytes,
    first: int,
    *,
    app_specific: Sequence[int] = (),
) -> tuple[list[bytes], list[int]]:
    """Give the heads of records that differ from `message` in their bodies, and the record sizes.

    They are numbered from `first` on, and have an `app_specific` each if any are given, signed
    32-bit integers. Raises as `encode_record` does.
    """
    head, _ = encode_record(message, source, first)
    before, behind = head[_BEFORE_LENGTH], head[_BEHIND_APP_SPECIFIC]
    sizes = [len(head) + len(body) for body in bodies]
    if max(sizes, default=0) > MESSAGE_BYTES_MAX:
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
    first is none.
    """
    if not sizes or sum(sizes) != len(view):
        return None
    if min(sizes) < HEADER_BYTES or max(sizes) > MESSAGE_BYTES_MAX:
        return None
    before, lengths, sources, numbers, rest = zip(
        *map(_FIXED.unpack_from, repeat(view), accumulate(sizes[:-1], initial=0)), strict=True
    )
    first = read_header(view)
    same = len(set(before)) == len(set(sources)) == 1 and set(rest) == {_NOTHING_MORE}
    fits = list(map(add, lengths, repeat(HEADER_BYTES))) == list(sizes)
    return AlikeRecords(first, numbers) if same and fits and not first.properties_bytes else None


def headers_of(alike: AlikeRecords, sizes: Sequence[int]) -> list[RecordHeader]:
    """The headers of alike records, one by one."""
    before, (source, _, *rest) = (
        alike.first[:_BODY_BYTES_FIELD],
        alike.first[_BODY_BYTES_FIELD + 1 :],
    )
    lengths = map(add, sizes, repeat(-HEADER_BYTES))
    columns = (*map(repeat, before), lengths, repeat(source), alike.numbers, *map(repeat, rest))
    return list(map(_header_of, zip(*columns, strict=False)))
