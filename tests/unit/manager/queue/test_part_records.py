"""A part of a large message, as its record tells of it."""

from __future__ import annotations

import pytest

from dray.errors import LargeMessageHole
from dray.large.join import PartSeen, SequenceKey
from dray.manager.queue import seen_in_record
from dray.model.classes import Part
from dray.model.message import Message
from dray.wire import message_frames
from dray.wire.record import PartMark, encode_record, read_header
from dray.wire.selections import SelectAt
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large

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


def test_parts_of_this_manager_without_a_trailer_are_a_hole_after_a_start(
    driver: ManagerDriver,
) -> None:
    """Also if the last message of their transaction, which tells its end, has left the queue."""
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 1, transaction, trailer=False)
    caller.send(queue, Message(body=b"last"), transaction=transaction, guarded=False)
    caller.commit(transaction, 3)
    assert caller.receive(queue, select=SelectAt(3), guarded=False)[1] == [b"last"]
    driver.crash()
    caller = driver.session()
    with pytest.raises(LargeMessageHole, match="lacks trailer"):
        take_large(caller, caller.open("files"), caller.number_for())


def test_parts_that_come_to_a_queue_with_the_last_of_their_transaction_are_a_hole(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    aside = caller.open("files;aside")
    send_large(caller, queue, 1, transaction, trailer=False)
    caller.commit(transaction, 2)
    for position in (1, 2):
        caller.call(message_frames.Move(queue, position, aside, 0, guarded=False))
    with pytest.raises(LargeMessageHole, match="lacks trailer"):
        take_large(caller, aside, caller.number_for())
