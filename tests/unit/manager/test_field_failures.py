"""Failures of the original in the field (semantics 2.9) that need whole managers to show.

Each with its defence and without it: what cannot fail proves nothing. Those of single streams are
in tests/unit/delivery/test_field_failures.py.
"""

from __future__ import annotations

import pytest

from dray.delivery.outgoing import OutgoingStream
from dray.manager.peers import links
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from tests.unit.manager.change.test_departures import acknowledged, dead
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair, pair  # noqa: F401 - a fixture

MISSING = f"dray://{PEER.host}:{PEER.port}/missing"
EVERYTHING = {
    "use_dead_letter_queue": True,
    "acknowledge": Acknowledge(15),
    "administration_queue": "acks",
}


# KB 898618: messages to a queue that does not exist stayed in the outgoing queue for ever.


def left_after_sending_to_a_missing_queue(pair: Pair) -> list[bytes]:  # noqa: F811
    caller = pair.source.session()
    caller.create("acks")
    caller.send(caller.open(MISSING), Message(body=b"a", **EVERYTHING))
    pair.deliver()
    return [body for _, body in dead(caller, MISSING)]


def test_messages_to_a_queue_that_is_not_there_become_dead_letters(
    pair: Pair,  # noqa: F811
) -> None:
    assert left_after_sending_to_a_missing_queue(pair) == []
    caller = pair.source.session()
    assert dead(caller) == [(MessageClass.NACK_BAD_DST_Q, b"a")]
    assert [each for each, _ in acknowledged(caller)] == [MessageClass.NACK_BAD_DST_Q]


def test_without_giving_up_they_would_stay_in_the_outgoing_queue(
    pair: Pair,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "_UNDELIVERABLE", {})
    assert left_after_sending_to_a_missing_queue(pair) == [b"a"]
    assert dead(pair.source.session()) == []


# KB 290892: what was delivered was put into the dead-letter queue as undelivered, because the order
# ack did not outlive a restart of the sender.


def why_dead_after_a_lost_order_ack(pair: Pair) -> list[MessageClass]:  # noqa: F811
    caller = pair.source.session()
    mortal = Message(body=b"a", use_dead_letter_queue=True, time_to_reach_queue=5.0)
    caller.send(caller.open(ADDRESS), mortal)
    receiver = pair.destination.session()
    orders = receiver.open("orders")
    while not dead(receiver, "orders"):
        pair.deliver(upto=1)
    pair.cut()
    assert receiver.receive(orders)[1] == [b"a"]
    pair.source.crash()
    pair.source.effects.clear()
    pair.source.advance(6.0)
    return [why for why, _ in dead(pair.source.session())]


def test_what_may_be_delivered_is_never_called_undelivered(pair: Pair) -> None:  # noqa: F811
    assert why_dead_after_a_lost_order_ack(pair) == [MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER]


def test_without_doubt_a_received_message_would_be_called_undelivered(
    pair: Pair,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OutgoingStream, "may_be_delivered", lambda *_: False)
    assert why_dead_after_a_lost_order_ack(pair) == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]
