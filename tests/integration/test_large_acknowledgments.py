"""What became of a large message is told under the id and label that its sender gave it (R50)."""

from __future__ import annotations

import pytest

import dray

WITHIN_S = 60
LABEL = "a.part.of.it"
ALL = dray.Acknowledge.FULL_RECEIVE | dray.Acknowledge.FULL_REACH_QUEUE


@pytest.fixture
def destination(tmp_path, address):
    with dray.open(tmp_path / "destination", listen=address, open=True) as manager:
        manager.create_queue("statusq")
        manager.create_queue("heavy")
        yield manager


@pytest.fixture(params=["here", "there"])
def sender(request, destination, address, tmp_path):
    """Who sends, and the name by which he knows the queue."""
    if request.param == "here":
        destination.create_queue("admin")
        yield destination, "heavy"
        return
    with dray.open(tmp_path / "source") as source:
        source.create_queue("admin")
        yield source, f"dray://{address}/heavy"


def send(sender, **options):
    manager, name = sender
    large = dray.LargeMessageQueue(manager.queue(name), fragment_size=100)
    options = {"administration_queue": "admin", "acknowledge": ALL, **options}
    return large.send(b"x" * 350, label=LABEL, **options)


def told(sender, count):
    """Class and subject of what comes to the administration queue."""
    admin = sender[0].queue("admin")
    messages = [admin.receive(timeout=WITHIN_S) for _ in range(count)]
    assert {message.label for message in messages} == {LABEL}
    return [(message.message_class, message.correlation_id) for message in messages]


def test_arrival_and_receive_are_told_under_the_sequence_id(destination, sender):
    sequence_id = send(sender)
    with dray.LargeMessageQueue(destination.queue("heavy")).receive(WITHIN_S) as message:
        assert message.sequence_id == sequence_id
    assert told(sender, 2) == [
        (dray.MessageClass.ACK_REACH_QUEUE, sequence_id),
        (dray.MessageClass.ACK_RECEIVE, sequence_id),
    ]


def test_a_hole_is_told_under_the_sequence_id(destination, sender):
    sequence_id = send(sender)
    assert told(sender, 1) == [(dray.MessageClass.ACK_REACH_QUEUE, sequence_id)]
    raw = destination.queue("heavy", raw=True)
    second = list(raw.messages())[2]
    raw.receive_by_lookup_id(second.lookup_id)
    with pytest.raises(dray.LargeMessageHole):
        dray.LargeMessageQueue(destination.queue("heavy")).receive(WITHIN_S)
    assert told(sender, 1) == [(dray.MessageClass.NACK_RECEIVE_REJECTED, sequence_id)]
