"""A part of a large message, as its record tells of it."""

from __future__ import annotations

import pytest

from dray.large.join import PartSeen, SequenceKey
from dray.manager.queue import seen_in_record
from dray.model.classes import Part
from dray.model.message import Message
from dray.wire.record import PartMark, encode_record, read_header

SOURCE = bytes(range(16))


@pytest.mark.parametrize(
    ("part", "size", "correlation_id"),
    [(Part.HEADER, 0, "c"), (Part.FRAGMENT, 7, None), (Part.TRAILER, 0, None)],
)
def test_only_a_fragment_has_bytes_of_the_body_and_only_a_header_a_correlation_id(
    part: Part, size: int, correlation_id: str | None
) -> None:
    message = Message(body=b"1234567", correlation_id="c")
    mark = PartMark(part, 5 if part == Part.HEADER else 3, 0)
    record = b"".join(encode_record(message, SOURCE, 5, mark))
    key = SequenceKey(SOURCE, 5 if part == Part.HEADER else 3)
    expected = PartSeen(0, part, key, 0, 0, 0, size, correlation_id)
    assert seen_in_record(read_header(record), record) == expected
