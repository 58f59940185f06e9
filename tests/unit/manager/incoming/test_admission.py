"""What enters of a frame from another manager: as many messages as one fact can tell of."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.model.message import Message
from dray.wire import peer_frames, queue_frames
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
