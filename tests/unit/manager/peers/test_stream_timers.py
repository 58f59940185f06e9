"""When outgoing streams want to be looked at: the soonest first, and never for what is over."""

from __future__ import annotations

import pytest

from dray.machine import Tick
from dray.manager.events import Dial, LinkDown
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


def test_a_stream_is_due_when_it_wants_to_send_again_and_not_after_its_queue_is_gone(
    pair: Pair,
) -> None:
    at = sent(pair)
    pair.source.session().call(queue_frames.DeleteQueue(ADDRESS))
    pair.source.advance(at - pair.source.now)
    assert pair.source.manager.deadline() != at


def test_a_peer_that_is_down_is_dialled_at_the_time_at_which_a_manager_asks_to_be_called(
    pair: Pair,
) -> None:
    sent(pair)
    pair.source.turn(LinkDown(PEER, "cut"))
    at = pair.source.manager.deadline()
    assert at is not None
    pair.source.now = at
    assert repr(pair.source.turn(Tick())) == repr([Dial(PEER)])
