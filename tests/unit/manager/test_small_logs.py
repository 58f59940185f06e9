"""A fact is never larger than a small log can take, however much happens at once."""

from __future__ import annotations

import pytest

from dray.model.message import Message
from dray.wire import frames
from tests.unit.manager import conftest
from tests.unit.manager.net import Net, address

COUNT = 400
BATCH = 40
DEAD = "system$;deadxact"


@pytest.fixture
def small_logs(monkeypatch):
    """Of 16 KiB, which is the least: room for the facts of about ninety messages."""
    monkeypatch.setattr(conftest, "LOG_BYTES", 16 << 10)


def send_all(caller, queue, count: int, **properties) -> None:
    for _ in range(0, count, BATCH):
        caller.send(queue, *[Message(body=b"a", **properties)] * BATCH)


def waiting(caller, name: str) -> int:
    return caller.call(frames.DescribeQueue(name)).info.message_count


@pytest.mark.usefixtures("small_logs")
def test_all_that_expires_at_once_leaves_in_facts_that_fit(tmp_path):
    desk = conftest.Desk(tmp_path)
    caller = desk.session()
    queue = caller.create("orders")
    send_all(caller, queue, COUNT, time_to_be_received=5.0, use_dead_letter_queue=True)
    ticks = 0
    desk.advance(10.0)
    while desk.manager.deadline() is not None and desk.manager.deadline() <= desk.now:
        desk.advance(0.0)
        ticks += 1
        assert ticks < COUNT
    assert (waiting(caller, "orders"), waiting(caller, DEAD)) == (0, COUNT)
    desk.crash()
    assert waiting(desk.session(), DEAD) == COUNT


@pytest.mark.usefixtures("small_logs")
def test_of_a_frame_as_much_enters_as_one_fact_can_tell(tmp_path):
    """The source sends all that waited in one frame when the line comes back."""
    net = Net(tmp_path, "ab")
    there = net["b"].session()
    there.create("orders")
    caller = net["a"].session()
    net.block("a", "b")
    send_all(caller, caller.open(address("b", "orders")), COUNT)
    net.unblock("a", "b")
    for _ in range(2 * COUNT):
        if waiting(there, "orders") == COUNT:
            break
        net["a"].advance(31.0)
        net.deliver()
    assert waiting(there, "orders") == COUNT
