"""A sender waits until its messages have arrived, in both faces."""

from __future__ import annotations

import pytest

import dray

ACCEPTED = {"administration_queue": "told", "acknowledge": dray.Acknowledge.FULL_REACH_QUEUE}
RECEIVED = {"administration_queue": "told", "acknowledge": dray.Acknowledge.FULL_RECEIVE}
WITHIN_S = 60


@pytest.fixture(autouse=True)
def told(manager):
    """The queue of the acknowledgments; the next test has the same queue manager."""
    yield manager.create_queue("told")
    manager.delete_queue("told")


def test_a_wait_ends_when_the_destination_has_accepted_everything(manager, queue):
    with manager.transaction() as transaction:
        ids = [queue.send(b"x", transaction=transaction, **ACCEPTED) for _ in range(3)]
    manager.wait_for_delivery(ids, "told", timeout=WITHIN_S)
    manager.wait_for_delivery([], "told")


def test_a_wait_for_receivers_ends_when_they_have_committed(manager, queue):
    first, second = (queue.send(each, **RECEIVED) for each in (b"1", b"2"))
    queue.receive(0)
    manager.wait_for_delivery([first], "told", until="received", timeout=WITHIN_S)
    with pytest.raises(dray.DeliveryTimeout) as late:
        manager.wait_for_delivery([second], "told", until="received", timeout=0)
    assert late.value.ids == [second]
    # It has been accepted, but no acknowledgment of that was asked for.
    with pytest.raises(dray.DeliveryTimeout, match=r"no acknowledgment .* 1 message was accepted"):
        manager.wait_for_delivery([second], "told", timeout=0)
    queue.receive(0)
    manager.wait_for_delivery(late.value.ids, "told", until="received", timeout=WITHIN_S)


def test_a_wait_names_the_message_that_was_refused(manager, queue):
    good, bad = (queue.send(each, **RECEIVED) for each in (b"1", b"2"))
    queue.receive(0)
    queue.purge()
    with pytest.raises(dray.DeliveryRefused, match="it was purged from its queue") as refused:
        manager.wait_for_delivery([good, bad], "told", until="received", timeout=WITHIN_S)
    assert refused.value.id == bad
    assert refused.value.message_class == dray.MessageClass.NACK_Q_PURGED


def test_an_end_after_the_arrival_is_no_refusal_for_a_sender_that_waits_for_the_arrival(
    manager, queue
):
    id = queue.send(b"1", administration_queue="told", acknowledge=dray.Acknowledge(15))
    queue.purge()
    manager.wait_for_delivery([id], "told", timeout=WITHIN_S)


def test_acknowledgments_that_no_queue_would_receive_are_refused(queue, large):
    asking = {"acknowledge": dray.Acknowledge.FULL_RECEIVE}
    message = dray.Message(body=b"x", **asking)
    for send in (
        lambda: queue.send(b"x", **asking),
        lambda: queue.send(message),
        lambda: queue.send_many([message, message]),
        lambda: queue.send_many([message, dray.Message(body=b"x", label="another")]),
        lambda: large.send(b"x", **asking),
    ):
        with pytest.raises(dray.InvalidArgument, match="needs administration_queue") as refused:
            send()
        assert refused.value.argument == "acknowledge"
    assert queue.info().message_count == 0
    with pytest.raises(dray.ReceiveTimeout), large.receive(0):
        pass
