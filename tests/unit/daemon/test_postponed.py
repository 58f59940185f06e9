"""What came when the log was full stands in line, whole and in order."""

from __future__ import annotations

from dray.daemon.pacing.postponed import Follow, Postponed
from dray.machine import Tick
from dray.manager.events import (
    LinkFrame,
    LinkUp,
    Peer,
    Request,
    SessionClosed,
)
from dray.wire import message_frames
from dray.wire.stream import Frame

PEER = Peer("there", 1)


def frame(number: int, body: bytearray) -> Frame:
    return Frame(message_frames.Commit(1, 0), number, memoryview(body))


def test_everything_comes_out_as_it_went_in():
    line = Postponed()
    assert not line.line
    items = [SessionClosed(1), LinkUp(PEER), Follow(()), SessionClosed(2)]
    for item in items:
        line.add(item)
    assert len(line.line) == 4
    assert [line.take() for _ in items] == items
    assert not line.line


def test_a_body_is_kept_though_its_memory_is_used_again():
    line, memory = Postponed(), bytearray(b"first")
    line.add(Request(1, frame(1, memory)))
    line.add(LinkFrame(PEER, frame(2, memory)))
    memory[:] = b"later"
    assert bytes(line.take().frame.body) == bytes(line.take().frame.body) == b"first"


def test_one_look_at_the_time_is_enough_until_it_was_taken():
    line = Postponed()
    for _ in range(3):
        line.add(Tick())
    assert (len(line.line), line.take()) == (1, Tick())
    line.add(Tick())
    assert len(line.line) == 1


def test_only_requests_are_to_be_refused_when_it_is_given_up():
    line, memory = Postponed(), bytearray()
    request = Request(3, frame(1, memory))
    for item in (Tick(), request, SessionClosed(3), Follow(())):
        line.add(item)
    assert list(line.give_up()) == [request]
    assert not line.line
