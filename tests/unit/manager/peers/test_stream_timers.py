"""When outgoing streams want to be looked at: the soonest first, and never for what is over."""

from __future__ import annotations

import pytest

from dray.manager.events import LinkDown
from dray.manager.peers.peer_links import StreamTimers
from dray.model.message import Message
from dray.wire import queue_frames
from tests.inspection import look_into
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair


@pytest.fixture
def pair(tmp_path) -> Pair:
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    return pair


def sent(pair: Pair) -> float:
    """A message that was sent and not acknowledged; when it is sent again."""
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"a"))
    pair.deliver(upto=5)
    queue = look_into(pair.source.manager).state.queues.named(ADDRESS)
    at = queue.stream.deadline()
    assert at is not None
    return at


def test_a_manager_asks_to_be_called_when_a_stream_wants_to_send_again(pair: Pair) -> None:
    at = sent(pair)
    assert pair.source.manager.deadline() == at
    pair.source.now = at - 0.001
    pair.source.turn(LinkDown(PEER, "cut"))
    assert pair.source.manager.deadline() != at, "no stream sends on a link that is down"


def test_a_stream_that_has_another_deadline_by_now_is_not_due_at_the_earlier_one(
    pair: Pair,
) -> None:
    at = sent(pair)
    state = look_into(pair.source.manager).state
    number = state.queues.named(ADDRESS).number
    timers = StreamTimers(state.queues)
    timers.note(number, None)
    assert (timers.soonest(), timers.noted) == (None, [])
    for each in (at - 5, at, at, at + 5):
        timers.note(number, each)
    assert len(timers.noted) == 3, "the same deadline is noted once"
    assert timers.soonest() == at
    assert list(timers.due(at - 0.001)) == []
    assert [each.number for each in timers.due(at)] == [number]
    assert list(timers.due(at + 10)) == []
    assert timers.soonest() is None


def test_a_deadline_that_was_dropped_and_holds_again_is_noted_again(pair: Pair) -> None:
    at = sent(pair)
    state = look_into(pair.source.manager).state
    number = state.queues.named(ADDRESS).number
    timers = StreamTimers(state.queues)
    timers.note(number, at + 1)
    assert timers.soonest() is None
    timers.note(number, at + 1)
    assert timers.noted == [(at + 1, number)]
    timers.note(number, at)
    assert timers.soonest() == at
    assert [each.number for each in timers.due(at)] == [number]
    timers.note(number, at)
    assert [each.number for each in timers.due(at)] == [number], "it is due once more"


def test_a_queue_that_was_deleted_is_due_no_more(pair: Pair) -> None:
    at = sent(pair)
    state = look_into(pair.source.manager).state
    timers = StreamTimers(state.queues)
    timers.note(state.queues.named(ADDRESS).number, at)
    pair.source.session().call(queue_frames.DeleteQueue(ADDRESS))
    assert timers.soonest() is None
    timers.note(10_000, at)
    assert list(timers.due(at)) == []
