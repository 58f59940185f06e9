"""R61: what quota or disk left with its source comes as soon as there is room for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dray import errors
from dray.model.limits import LOW_WATER_BYTES, ROOM_LOOK_S
from dray.model.message import Message
from dray.wire import message_frames, peer_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import HEAP_FILE_BYTES, Caller
from tests.unit.manager.disk.test_full_disks import fill_after
from tests.unit.manager.peers.test_links import ADDRESS, Pair
from tests.unit.manager.queue.test_quotas import message

QUOTA = 8_000


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """A source, and a destination of 8,000 bytes with the queues `orders` and `other`."""
    pair = Pair(tmp_path)
    there = pair.destination.session()
    there.call(queue_frames.SetQuota("", QUOTA, None))
    there.create("orders")
    there.create("other")
    return pair


def count(pair: Pair) -> int:
    """How many messages have come."""
    found = pair.destination.session().call(queue_frames.DescribeQueue("orders")).info
    return int(found.message_count)


def told_of_room(pair: Pair) -> int:
    """How often the source was told that there is room again."""
    return sum(isinstance(head, peer_frames.StreamState) and head.room for head in pair.said)


def receive_one(there: Caller) -> None:
    there.receive(there.open("other"), max_messages=1)


def purge(there: Caller) -> None:
    there.call(queue_frames.PurgeQueue(there.open("other")))


def delete(there: Caller) -> None:
    there.call(queue_frames.DeleteQueue("other"))


def raise_the_quota(there: Caller) -> None:
    there.call(queue_frames.SetQuota("", 2 * QUOTA, None))


@pytest.mark.parametrize("make_room", [receive_one, purge, delete, raise_the_quota])
def test_what_was_refused_comes_without_waiting_when_there_is_room(
    pair: Pair, make_room: Callable[[Caller], None]
) -> None:
    there, here = pair.destination.session(), pair.source.session()
    there.send(there.open("other"), message(QUOTA - 500))
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (0, 0)
    make_room(there)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (1, 1)


def test_room_that_a_transaction_gives_back_counts(pair: Pair) -> None:
    there, here = pair.destination.session(), pair.source.session()
    transaction = there.number_for()
    there.send(there.open("other"), message(QUOTA - 500), transaction=transaction)
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    assert count(pair) == 0
    there.call(message_frames.Abort(transaction))
    pair.deliver()
    assert count(pair) == 1


def test_less_room_than_the_first_message_needs_is_not_told(pair: Pair) -> None:
    there, here = pair.destination.session(), pair.source.session()
    other = there.open("other")
    there.send(other, message(400), message(QUOTA - 1_000))
    here.send(here.open(ADDRESS), message(2_000))
    pair.deliver()
    receive_one(there)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (0, 0)
    receive_one(there)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (1, 1)


def test_a_stream_waits_for_the_room_of_the_messages_that_were_left_out_and_of_no_other(
    pair: Pair,
) -> None:
    there, here = pair.destination.session(), pair.source.session()
    there.send(there.open("other"), message(400), message(QUOTA - 1_500))
    here.send(here.open(ADDRESS), message(700), message(600))
    pair.deliver()
    assert count(pair) == 1
    receive_one(there)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (2, 1)


def test_room_counts_from_what_was_used_when_a_message_was_refused(pair: Pair) -> None:
    there, here = pair.destination.session(), pair.source.session()
    other, orders = there.open("other"), here.open(ADDRESS)
    there.send(other, message(QUOTA - 500))
    here.send(orders, message(1_000))
    pair.deliver()
    receive_one(there)
    pair.deliver()
    there.send(other, *[message(2_000)] * 3)
    here.send(orders, message(1_500))
    pair.deliver()
    assert count(pair) == 1
    receive_one(there)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (2, 2), "more is used than after the first one"


def test_what_was_left_out_of_a_frame_comes_in_order_and_in_few_rounds(pair: Pair) -> None:
    """Small messages, two hundred to a frame; those who receive take one at a time."""
    there, here = pair.destination.session(), pair.source.session()
    orders, number = there.open("orders"), 240
    bodies = [b"%0100d" % each for each in range(number)]
    sent = [Message(body=body) for body in bodies]
    here.send(here.open(ADDRESS), *sent)
    pair.deliver()
    came = count(pair)
    assert 0 < came < number / 2
    received = []
    for _ in range(number):
        received += there.receive(orders, max_messages=1)[1]
        pair.deliver()
    assert received == bodies
    an_eighth = QUOTA // 8 // (QUOTA // came)
    assert 0 < told_of_room(pair) <= (number - came) / an_eighth + 1


def test_a_source_that_has_gone_is_forgotten_and_tries_again_when_it_is_back(pair: Pair) -> None:
    there, here = pair.destination.session(), pair.source.session()
    there.send(there.open("other"), message(QUOTA - 500))
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    waiting = look_into(pair.destination.manager).waiting_for_room
    assert len(waiting.for_quota | waiting.for_disk) == 1
    pair.cut()
    assert len(waiting.for_quota | waiting.for_disk) == 0
    receive_one(there)
    pair.source.advance(5.0)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (1, 0)


def test_who_tried_again_by_himself_waits_no_more(pair: Pair) -> None:
    there, here = pair.destination.session(), pair.source.session()
    there.send(there.open("other"), message(QUOTA - 500))
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    receive_one(there)
    pair.destination.effects = []  # The word is lost.
    pair.source.advance(30.0)
    pair.deliver()
    assert count(pair) == 1
    waiting = look_into(pair.destination.manager).waiting_for_room
    assert not waiting.for_quota | waiting.for_disk


def fill(pair: Pair, monkeypatch: pytest.MonkeyPatch, free: int) -> dict[str, int]:
    """Let the destination's disk have so many bytes free; change `free` to change it."""
    room = {"free": free}
    monkeypatch.setattr(pair.destination.disk, "free_bytes", lambda: room["free"])
    return room


LOW = LOW_WATER_BYTES


def test_a_full_disk_is_looked_at_and_the_source_told_when_others_made_room(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells a manager that files were deleted: it looks, and only while one waits."""
    here, there = pair.source.session(), pair.destination
    idle = there.manager.deadline()
    room = fill(pair, monkeypatch, LOW + 999)
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (0, 0)
    assert refusals(pair) == [errors.StoreFull.code]
    assert there.manager.deadline() == there.now + ROOM_LOOK_S
    there.advance(ROOM_LOOK_S)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (0, 0)
    assert there.manager.deadline() == there.now + ROOM_LOOK_S
    room["free"] = LOW + 1_000 + HEAP_FILE_BYTES
    there.advance(ROOM_LOOK_S)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (1, 1)
    assert there.manager.deadline() == idle


def test_a_full_disk_that_a_receive_made_room_on_is_told_at_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = pair.destination.session(), pair.source.session()
    there.call(queue_frames.SetQuota("", None, None))
    parts = [message(HEAP_FILE_BYTES)] * 8
    for part in parts:
        there.send(there.open("other"), part)
    fill(pair, monkeypatch, LOW)
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (0, 0)
    for _ in parts:
        receive_one(there)
        pair.deliver()
    assert (count(pair), told_of_room(pair)) == (1, 1)


def test_a_file_that_finds_no_room_though_some_is_free_waits_for_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may have no place for another name: to be told again and again would be no help."""
    here, there = pair.source.session(), pair.destination
    free = 1 << 40
    room = fill(pair, monkeypatch, free)
    with monkeypatch.context() as patch:
        fill_after(patch, there, 0)
        here.send(here.open(ADDRESS), message(1_000))
        for _ in range(3):
            pair.deliver()
            there.advance(ROOM_LOOK_S)
        assert (count(pair), told_of_room(pair)) == (0, 0)
    room["free"] = free + HEAP_FILE_BYTES
    there.advance(ROOM_LOOK_S)
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (1, 1)


def test_a_stream_that_found_the_disk_full_and_then_its_quota_is_told_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = pair.destination.session(), pair.source.session()
    there.send(there.open("other"), message(QUOTA - 500))
    room = fill(pair, monkeypatch, 0)
    there.call(queue_frames.SetQuota("", None, None))
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    waiting = look_into(pair.destination.manager).waiting_for_room
    assert len(waiting.for_quota | waiting.for_disk) == 1
    there.call(queue_frames.SetQuota("", QUOTA, None))
    room["free"] = 1 << 40
    pair.destination.advance(ROOM_LOOK_S)
    pair.deliver()
    assert (count(pair), told_of_room(pair), len(waiting.for_quota | waiting.for_disk)) == (0, 1, 1)
    receive_one(there)
    pair.deliver()
    assert (count(pair), told_of_room(pair), len(waiting.for_quota | waiting.for_disk)) == (1, 2, 0)


def refusals(pair: Pair) -> list[str]:
    """Why streams were refused."""
    return [head.error for head in pair.said if isinstance(head, peer_frames.StreamRefused)]


def test_a_source_that_has_gone_is_not_waited_for_with_a_full_disk_either(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = pair.source.session(), pair.destination
    fill(pair, monkeypatch, 0)
    here.send(here.open(ADDRESS), message(1_000))
    pair.deliver()
    assert there.manager.deadline() is not None
    pair.cut()
    waiting = look_into(there.manager).waiting_for_room
    assert not waiting.for_quota | waiting.for_disk
    assert there.manager.deadline() is None


def test_a_new_sequence_that_finds_the_quota_full_waits_on_its_connection(pair: Pair) -> None:
    """Its numbers begin anew, below those of the sequence that was accepted before."""
    here, there = pair.source.session(), pair.destination.session()
    stream = here.open(ADDRESS)
    here.send(stream, *[message(100)] * 3)
    pair.deliver()
    receive_all(there)
    there.call(queue_frames.SetQuota("", 10, None))
    pair.source.advance(10.0)
    here.send(stream, *[message(100)] * 3)
    pair.deliver()
    sequences = {head.sequence_id for head in pair.said if isinstance(head, peer_frames.Data)}
    assert (len(sequences), refusals(pair)) == (2, ["quota-exceeded"])
    there.call(queue_frames.SetQuota("", QUOTA, None))
    pair.deliver()
    assert (count(pair), told_of_room(pair)) == (3, 1)


def receive_all(there: Caller) -> None:
    there.receive(there.open("orders"), max_messages=3)
