"""Records whose bodies the daemon read from a client's file, and copies into one."""

from __future__ import annotations

import crc32c
import msgspec
import pytest

from dray import errors
from dray.manager.events import Into
from dray.model.classes import Part
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.wire import file_frames, frames
from dray.wire.head import Head
from dray.wire.record import HEADER_BYTES, PartMark, encode_record
from tests.unit.manager.conftest import Caller, ManagerDriver


def record_for(caller: Caller, body: bytes = b"abc") -> bytes:
    source = bytes.fromhex(caller.driver.manager_id)
    number = caller.number_for()
    mark = PartMark(Part.FRAGMENT, number)
    head, encoded = encode_record(Message(body=body, app_specific=1), source, number, mark)
    return head + bytes(encoded)


def send_file(caller: Caller, queue: int, transaction: int, record: bytes) -> int:
    head = file_frames.SendFile(queue, transaction, len(record), crc32c.crc32c(record), 0)
    return caller.ask(head, record)


def heads(caller: Caller, request: int) -> list[Head]:
    return [answer.head for answer in caller.answers(request)]


def test_a_record_from_a_file_is_sent_like_any_other_and_answered_at_once(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    (answer,) = caller.answers(send_file(caller, queue, transaction, record_for(caller)))
    assert (answer.head, answer.held) == (frames.Done(1), False)
    caller.commit(transaction, 1)
    _, found = caller.receive(queue, guarded=False)
    assert found == [b"abc"]


SPOILT = {
    "other bytes": errors.SourceChanged,
    "too short": errors.SourceChanged,
    "nothing": errors.SourceUnreadable,
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_file_that_is_not_as_it_was_said_dooms_its_transaction(
    driver: ManagerDriver, spoil: str
) -> None:
    expected = SPOILT[spoil]
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    record = record_for(caller, b"abcdef")
    read = {"other bytes": record[:-1] + b"x", "too short": record[:-1], "nothing": b""}[spoil]
    head = file_frames.SendFile(queue, transaction, len(record), crc32c.crc32c(record), 0)
    with pytest.raises(expected):
        caller.call(head, read)
    # Whatever else is lent in it is refused for the same reason, and so is the commit.
    (refused,) = heads(caller, send_file(caller, queue, transaction, record_for(caller)))
    assert isinstance(refused, frames.Failed)
    assert refused.error == expected.code
    with pytest.raises(expected):
        caller.commit(transaction, 2)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)


def test_a_record_that_finds_no_room_dooms_its_transaction(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files", quota=100), caller.number_for()
    (refused,) = heads(caller, send_file(caller, queue, transaction, record_for(caller, b"x" * 90)))
    assert isinstance(refused, frames.Failed)
    assert refused.error == errors.QuotaExceeded.code
    # One that would fit is refused all the same: nothing of the transaction is to come in part.
    (again,) = heads(caller, send_file(caller, queue, transaction, record_for(caller)))
    assert again == refused
    with pytest.raises(errors.QuotaExceeded):
        caller.commit(transaction, 2)


def test_a_file_is_sent_in_a_transaction(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("files")
    with pytest.raises(errors.InvalidArgument):
        caller.call(file_frames.SendFile(queue, 0, 100, 0, 0), b"")


def test_a_copy_names_its_range_and_what_stands_before_it(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("q")
    caller.send(queue, Message(body=b"abcdef", label="x"))
    (envelope,), _ = caller.receive(queue, peek=True)
    request = caller.ask(
        file_frames.CopyPart(queue, envelope.lookup_id, envelope.length - 6, 6, at=50)
    )
    (answer,) = caller.answers(request)
    (extent,) = answer.body
    assert isinstance(extent, Extent)
    into = Into(at=50, before=envelope.length - 6)
    assert (answer.head, answer.into, answer.held) == (file_frames.Copied(), into, True)
    assert driver.store.read(extent).startswith(b"DMSG")
    assert driver.store.read(extent)[into.before :] == b"abcdef"


@pytest.mark.parametrize(
    ("offset", "length", "at"),
    [(0, 0, 0), (-1, 5, 0), (0, -1, 0), (0, 1 << 30, 0), (1 << 62, 1 << 62, 0), (0, 5, -1)],
)
def test_a_copy_of_what_is_not_in_the_message_is_refused(
    driver: ManagerDriver, offset: int, length: int, at: int
) -> None:
    caller = driver.session()
    queue = caller.create("q")
    caller.send(queue, Message(body=b"abcdef"), Message(body=b"secret"))
    (envelope, _), _ = caller.receive(queue, peek=True)
    with pytest.raises(errors.InvalidArgument):
        caller.call(file_frames.CopyPart(queue, envelope.lookup_id, offset, length, at))


def test_a_copy_begins_behind_properties_however_long_and_no_further(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.requests.large_messages.PROPERTIES_BYTES_MAX", 100)
    caller = driver.session()
    queue = caller.create("q")
    caller.send(queue, Message(body=bytes(200)))
    (envelope,), _ = caller.receive(queue, peek=True)
    copy = file_frames.CopyPart(queue, envelope.lookup_id, HEADER_BYTES + 100, 5, 0)
    assert caller.call(copy) == file_frames.Copied()
    with pytest.raises(errors.InvalidArgument):
        caller.call(msgspec.structs.replace(copy, offset=copy.offset + 1))


def test_nobody_copies_what_another_holds(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    queue, transaction = caller.create("q"), caller.number_for()
    caller.send(queue, Message(body=b"abcdef"))
    (envelope,), _ = caller.receive(queue, transaction=transaction)
    copy = file_frames.CopyPart(queue, envelope.lookup_id, 64, 6, 0)
    with pytest.raises(errors.MessageNotFound):
        other.call(copy)
    (answer,) = caller.answers(caller.ask(copy))
    assert answer.held is False
