"""What is noted of a peer that refuses."""

from __future__ import annotations

import pytest

from dray.delivery.events import (
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    Open,
    PeerState,
    Refused,
    StreamCondition,
)
from dray.delivery.refusal import RefusalNote
from dray.model.queue import Refusal
from tests.unit.delivery.sender import Sender, sent

NO_QUEUE = Refused("there is no queue", code="queue-not-found", final=True)


def test_a_refusal_counts_its_messages_from_its_first():
    note = RefusalNote()
    note.waiting_refused(1)
    assert note.current is None
    note.stream_refused("queue-not-found", "there is none", 10.0)
    note.waiting_refused(3)
    note.stream_refused("queue-not-found", "there is none", 20.0)
    note.waiting_refused(1)
    assert note.current == Refusal("queue-not-found", "there is none", 10.0, 4)
    note.messages_refused("quota-exceeded", "it is full", 2, 30.0)
    assert note.current == Refusal("quota-exceeded", "it is full", 30.0, 2)


def test_refused_messages_are_a_refusal_until_an_order_ack_without_any():
    note = RefusalNote()
    note.messages_refused("quota-exceeded", "it is full", 1, 10.0)
    note.opened()
    note.acknowledged()
    assert note.current is not None
    note.acknowledged()
    assert note.current is None


def test_a_refused_stream_is_no_refusal_any_more_when_it_is_open():
    note = RefusalNote()
    note.stream_refused("store-full", "no room", 10.0)
    note.opened()
    assert note.current is None


def test_a_stream_of_which_nothing_is_kept_asks_again_with_the_next_message_only():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    sender.give(NO_QUEUE)
    assert sender.stream.condition is StreamCondition.REFUSED
    sender.expire(1)
    assert sender.give(Grown()) == []
    assert sender.stream.deadline() is None
    assert sender.admit(1) == [Open()]
    assert sent(sender.give(PeerState(0, 0))) == [(0, [2])]
    assert sender.stream.condition is StreamCondition.CONNECTED


def test_a_stream_of_which_nothing_is_kept_asks_again_when_the_peer_says_so():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    sender.give(NO_QUEUE)
    sender.expire(1)
    assert sender.give(Invited()) == [Open()]
    sender.give(PeerState(0, 0))
    assert sender.stream.condition is StreamCondition.CONNECTED


@pytest.mark.parametrize(("still_sent", "asked"), [(True, [Open()]), (False, [])])
def test_a_stream_that_was_refused_for_good_asks_again_while_a_large_message_is_being_sent(
    still_sent, asked
):
    sender = Sender()
    sender.stream.expects_messages = True
    assert sender.give(LinkReady()) == [Open()]
    sender.give(NO_QUEUE)
    sender.stream.expects_messages = still_sent
    assert sender.give(Invited()) == asked


def test_a_stream_of_which_nothing_is_kept_asks_again_on_a_new_connection():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    sender.give(NO_QUEUE)
    sender.expire(1)
    sender.give(LinkLost())
    assert sender.give(LinkReady()) == [Open()]


def test_news_tell_once_that_a_stream_is_refused_and_once_that_it_goes_on():
    note = RefusalNote()
    assert note.news() is None
    note.stream_refused("queue-not-found", "there is none", 10.0)
    assert note.news() is True
    note.stream_refused("queue-not-found", "there is none", 20.0)
    assert note.news() is None
    note.opened()
    assert note.news() is False
    note.messages_refused("quota-exceeded", "full", 1, 30.0)
    note.acknowledged()
    assert note.news() is None
