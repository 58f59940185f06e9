"""Many messages that are received at once leave their queue as one, whatever lies between them."""

from __future__ import annotations

from random import Random

import pytest

from dray.manager.entries import Staged, pack_tail, with_keys
from dray.manager.requests.receiving import within_frame
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.wire import message_frames, selections
from tests.cost import calls_of

BATCH = 100
CALLS_MAX = 5
"""Calls of Python functions for each message; 42 when every message was taken by itself."""


@pytest.fixture
def caller(driver):
    return driver.session()


def test_a_batch_leaves_its_queue_in_few_calls_a_message(driver, caller):
    queue = caller.create("orders", transactional=True)
    caller.send(queue, *[Message(body=b"body")] * BATCH)
    number = caller.number_for()
    receive = message_frames.Receive(queue, number, 0.0, BATCH)

    def receive_and_commit():
        head = caller.call(receive)
        assert len(head.envelopes) == BATCH
        caller.commit(number, 0)

    assert calls_of(receive_and_commit) <= CALLS_MAX * BATCH
    assert driver.store.live_bytes == 0


def test_a_batch_around_held_messages_leaves_them_alone(driver, caller):
    queue = caller.create("orders", transactional=True)
    caller.send(queue, *[Message(body=b"%d" % at) for at in range(20)])
    held = caller.number_for()
    envelopes, _ = caller.receive(queue, max_messages=20, peek=True)
    for at in (3, 4, 11):
        select = selections.SelectAt(envelopes[at].lookup_id)
        caller.receive(queue, transaction=held, max_messages=1, select=select)
    taken = caller.number_for()
    _, bodies = caller.receive(queue, transaction=taken, max_messages=12)
    assert bodies == [b"%d" % at for at in range(15) if at not in {3, 4, 11}]
    caller.call(message_frames.Abort(held))
    caller.commit(taken, 0)
    _, rest = caller.receive(queue, transaction=caller.number_for())
    assert rest == [b"3", b"4", b"11", b"15", b"16", b"17", b"18", b"19"]


@pytest.mark.parametrize("seed", range(20))
def test_a_frame_has_as_many_messages_as_fit_and_one_at_least(seed):
    rng = Random(seed)
    lengths = [rng.choice([1, 64, 1000, 70_000]) for _ in range(rng.randrange(400))]
    entries = entries_of(lengths)
    most, room = rng.choice([1, 2, 100, 128, 129, 1000]), rng.choice([1, 1000, 100_000, 0])
    expected, total = 0, 0
    for length in lengths[:most]:
        total += length
        if expected and total > (room or FRAME_BODY_BYTES_MAX):
            break
        expected += 1
    assert within_frame(iter(entries), most, room) == entries[:expected]


@pytest.mark.parametrize("count", [1, 127, 128, 129, 255, 256, 257])
def test_of_many_messages_as_many_are_given_as_fit_to_the_byte(count):
    entries = entries_of([1000] * 300)
    for room in (count * 1000, count * 1000 + 999):
        assert len(within_frame(iter(entries), 1000, room)) == count


def entries_of(lengths: list[int]) -> list[bytes]:
    return [
        with_keys(pack_tail(staged(Extent(1, 0, length)), 0, 0), at)
        for at, length in enumerate(lengths, 1)
    ]


def staged(extent: Extent) -> Staged:
    return Staged(extent, 0, 1, 0, 0, 0)
