"""What enters of a frame from another manager: as many messages as one fact can tell of."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c

from dray import errors
from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.model.message import Message
from dray.testing.keyed_manager import id_named
from dray.wire import peer_frames, queue_frames
from dray.wire.message_frames import MARK_FIRST, MARK_LAST, Envelope
from dray.wire.record import encode_record
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.net import Net, address


@pytest.mark.parametrize(
    ("fact_bytes", "entered"),
    [
        (5 * TAIL_BYTES, 5),
        (3 * TAIL_BYTES + 1, 3),
        (3 * TAIL_BYTES, 3),
        (3 * TAIL_BYTES - 1, 2),
        (TAIL_BYTES, 1),
        (TAIL_BYTES - 1, 1),
    ],
)
def test_of_a_frame_exactly_as_many_messages_enter_as_fit_one_fact_but_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fact_bytes: int, entered: int
) -> None:
    net = Net(tmp_path, "ab")
    there = net["b"].session()
    there.create("orders")
    caller = net["a"].session()
    net.block("a", "b")
    caller.send(caller.open(address("b", "orders")), *[Message(body=b"a")] * 5)
    with monkeypatch.context() as patch:
        patch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: fact_bytes))
        net.unblock("a", "b")
        net["a"].advance(31.0)
        while not any(isinstance(head, peer_frames.Data) for _, _, head in net.said):
            assert net.step()
    info = there.call(queue_frames.DescribeQueue("orders")).info
    # None of them can be received before the last one has come; see open transactions.
    assert info.message_count == entered
    net.advance(31.0)
    assert there.receive(there.open("orders"))[1] == [b"a"] * 5


@pytest.mark.parametrize(("left_us", "is_there"), [(0, False), (-1, True)])
def test_a_message_that_arrives_as_its_time_ends_is_not_received(
    driver: ManagerDriver, left_us: int, is_there: bool
) -> None:
    caller = driver.session()
    orders = caller.create("orders")
    source = driver.source(500, "b")
    source.say(peer_frames.OpenStream(1, "orders"))
    record = b"".join(encode_record(Message(body=b"x"), bytes.fromhex(id_named("b")), 1))
    envelope = Envelope(
        0, len(record), crc32c(record), 5, 0, 0, MARK_FIRST | MARK_LAST,
        ordinal=1, number=1, remaining_us=left_us,
    )  # fmt: skip
    source.say(peer_frames.Data(1, 1 << 32, 0, [envelope]), record)
    driver.advance(0.1)
    if is_there:
        assert caller.receive(orders)[1] == [b"x"]
    else:
        with pytest.raises(errors.ReceiveTimeout):
            caller.receive(orders)
