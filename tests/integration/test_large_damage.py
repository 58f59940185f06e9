"""Verified before visible: bits that flip in a heap file are a hole, and no byte of it is seen."""

from __future__ import annotations

import random

import pytest

import dray


def flip(data, wanted):
    """Flip a bit of the first record whose bytes hold `wanted`, where they lie."""
    for path in sorted((data / "storage").glob("p*.mq")):
        at = path.read_bytes().find(wanted)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([wanted[0] ^ 1]))
            return
    raise AssertionError("no heap file holds those bytes")


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def manager(data):
    with dray.open(data) as manager:
        manager.create_queue("statusq")
        manager.create_queue("heavy")
        yield manager


@pytest.fixture
def large(manager):
    return dray.LargeMessageQueue(manager.queue("heavy"), fragment_size=100_000)


BODY = random.Random(7).randbytes(350_000)


READERS = {
    "body": lambda message, _: message.body(),
    "save_to": lambda message, path: message.save_to(path),
    "read": lambda message, _: message.read(),
    "iterate": lambda message, _: list(message),
}


@pytest.mark.parametrize("lost", [1, 2, 4])
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_fragment_is_a_hole_told_once(manager, data, reader, lost):
    large = dray.LargeMessageQueue(manager.queue("heavy"), fragment_size=100_000)
    holed = large.send(BODY, use_dead_letter_queue=True)
    large.send(b"whole")
    begin = (lost - 1) * 100_000
    flip(data, BODY[begin : begin + 64])
    out = data.with_name("out")
    with pytest.raises(dray.LargeMessageHole) as caught, large.receive(timeout=10) as message:
        READERS[reader](message, out)
    assert (caught.value.sequence_id, caught.value.missing) == (holed, [[lost, lost]])
    assert not out.exists()
    with large.receive(timeout=10) as message:
        assert message.body() == b"whole"
    assert manager.queue("heavy").info().message_count == 0
    assert manager.queue("statusq").info().message_count == 0
    # What was left of it was rejected; the damaged record is kept for people to look at.
    dead = list(manager.queue("system$;deadxact", raw=True).messages())
    assert {message.message_class for message in dead} == {dray.MessageClass.NACK_RECEIVE_REJECTED}
    assert len(dead) == 5
    assert manager.queue("system$;quarantine").info().message_count == 1


def test_in_the_callers_transaction_the_next_receive_rejects_it(manager, large, data):
    holed = large.send(BODY)
    flip(data, BODY[150_000:150_064])
    transaction = manager.transaction()
    with pytest.raises(dray.LargeMessageHole):
        large.receive(10, transaction).body()
    assert transaction.status is dray.TransactionStatus.PENDING
    transaction.abort()
    with pytest.raises(dray.LargeMessageHole) as caught:
        large.receive(10)
    assert (caught.value.sequence_id, caught.value.missing) == (holed, [[2, 2]])
    assert manager.queue("heavy").info().message_count == 0


@pytest.mark.parametrize("end", ["header", "trailer"])
def test_a_damaged_header_or_trailer_is_a_hole(manager, large, data, end):
    mark, missing = {"header": b"blob", "trailer": b".part.-9999"}[end], end
    holed = large.send(b"x" * 2000, label="blob")
    flip(data, mark)
    for act in (large.peek, large.receive):
        with pytest.raises(dray.LargeMessageHole) as caught:
            act(10)
        assert caught.value.sequence_id == holed
        assert missing in caught.value.missing or act == large.peek
    assert manager.queue("heavy").info().message_count == 0


def test_peek_at_a_damaged_fragment_removes_nothing(manager, large, data):
    large.send(BODY)
    flip(data, BODY[150_000:150_064])
    with pytest.raises(dray.LargeMessageCorrupt), large.peek(timeout=10) as message:
        message.body()
    assert manager.queue("heavy").info().message_count == 6


def test_no_byte_of_a_damaged_fragment_is_handed_out(large, data):
    large.send(BODY)
    flip(data, BODY[150_000:150_064])
    seen = bytearray()

    def read():
        with large.receive(timeout=10) as message:
            for piece in message:
                seen.extend(piece)

    with pytest.raises(dray.LargeMessageHole):
        read()
    assert bytes(seen) == BODY[:100_000]


def test_a_hole_by_damage_survives_the_end_of_the_manager(data):
    with dray.open(data) as manager:
        manager.create_queue("statusq")
        large = dray.LargeMessageQueue(manager.create_queue("heavy"), fragment_size=100_000)
        holed = large.send(BODY)
        flip(data, BODY[150_000:150_064])
        transaction = manager.transaction()
        with pytest.raises(dray.LargeMessageHole):
            large.receive(10, transaction).body()
        # Neither committed nor aborted: the manager ends first.
    with dray.open(data) as manager:
        large = dray.LargeMessageQueue(manager.queue("heavy"))
        with pytest.raises(dray.LargeMessageHole) as caught:
            large.receive(10)
        assert (caught.value.sequence_id, caught.value.missing) == (holed, [[2, 2]])
        with pytest.raises(dray.ReceiveTimeout):
            large.receive(0)


def test_with_repair_a_damaged_fragment_that_nobody_kept_is_a_hole_in_the_end(large, data):
    holed = large.send(BODY)
    flip(data, BODY[150_000:150_064])
    with (
        pytest.raises(dray.LargeMessageCorrupt, match="receive it once more"),
        large.receive(timeout=10, repair=True) as message,
    ):
        message.body()
    with pytest.raises(dray.LargeMessageHole) as caught:
        large.receive(10, repair=True)
    assert (caught.value.sequence_id, caught.value.missing) == (holed, [[2, 2]])
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0, repair=True)


@pytest.mark.slow
def test_a_damaged_fragment_is_fetched_again_from_the_manager_that_sent_it(tmp_path, address):
    data = tmp_path / "destination"
    with (
        dray.open(data, listen=address, open=True) as manager,
        dray.open(tmp_path / "source") as source,
    ):
        manager.create_queue("statusq")
        large = dray.LargeMessageQueue(manager.create_queue("heavy"))
        leading = source.queue(f"dray://{address}/heavy")
        sending = dray.LargeMessageQueue(leading, fragment_size=100_000)
        sequence_id = sending.send(BODY, use_dead_letter_queue=True)
        large.receive(timeout=60).close()
        flip(data, BODY[150_000:150_064])
        with (
            pytest.raises(dray.LargeMessageCorrupt),
            large.receive(timeout=60, repair=True) as message,
        ):
            message.body()
        with large.receive(timeout=60, repair=True) as message:
            assert (message.sequence_id, message.body()) == (sequence_id, BODY)
        assert manager.queue("heavy").info().message_count == 0
