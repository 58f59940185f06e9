"""The observer of worlds notices what nobody may be told, and what nobody asked for."""

from __future__ import annotations

import pytest

from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.testing.promises import BrokenPromiseError
from tests.worlds.message_ends import Asked, MessageEnds


def ends_of(asked_for, **more):
    """One message from a to b, which was committed and has no known end."""
    ends = MessageEnds()
    sent = ends.begin("producer", "a", 1)
    sent.status = "committed"
    message = Message(body=b"", acknowledge=asked_for, **more)
    asked = Asked(sent, "a", "b", "plain", b"", message, 0.0, transactional=True, told_at="a")
    ends.add("an id", asked)
    return ends


@pytest.mark.parametrize("asked_for", [Acknowledge(0), Acknowledge(8), Acknowledge(15)])
def test_a_doubt_that_is_told_breaks_a_promise_whatever_else_is_known(asked_for):
    ends = ends_of(asked_for)
    with pytest.raises(BrokenPromiseError, match="an id was told to be in doubt"):
        ends.found_told("a/acks", "an id", MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER)


def test_of_a_message_without_a_known_end_its_arrival_is_told_to_who_asked():
    ends = ends_of(Acknowledge.POSITIVE_ARRIVAL, time_to_be_received=1.0)
    ends.found_told("a/acks", "an id", MessageClass.ACK_REACH_QUEUE)
    ends.check()


def test_an_arrival_that_nobody_asked_about_breaks_a_promise():
    ends = ends_of(Acknowledge.POSITIVE_RECEIVE, time_to_be_received=1.0)
    ends.found_told("a/acks", "an id", MessageClass.ACK_REACH_QUEUE)
    with pytest.raises(BrokenPromiseError, match="nobody asked for it"):
        ends.check()
