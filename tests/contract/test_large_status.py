"""Promises about the status queue of large messages (S0-4, S0-16, S0-17; R86, R87, R91, R95)."""

from __future__ import annotations

import uuid

import msgspec
import pytest

import dray
from dray.large.status import Verdict, read_status


@pytest.fixture
def statuses(manager):
    """A status queue of this test's own."""
    return manager.create_queue(f"status-{uuid.uuid4().hex}")


@pytest.fixture
def large(face, queue, statuses):
    return face.LargeMessageQueue(queue, fragment_size=1000, status_queue=statuses.name)


@pytest.fixture
def other_queue(make_queue):
    return make_queue()


@pytest.fixture
def other(face, other_queue, statuses):
    """Another queue for large messages with the same status queue."""
    return face.LargeMessageQueue(other_queue, status_queue=statuses.name)


def verdicts(statuses):
    return [
        (Verdict(message.app_specific), message.correlation_id) for message in statuses.messages()
    ]


def received(large, **options):
    with large.receive(timeout=10, **options) as message:
        return message.body()


def make_hole(manager, queue, lost=2):
    raw = manager.queue(queue.name, raw=True)
    positions = [message.lookup_id for message in raw.messages()]
    raw.receive_by_lookup_id(positions[lost])


def test_an_aborted_receive_leaves_the_status_complete(large, queue, statuses):
    sequence_id = large.send(b"x" * 2500)
    large.receive(timeout=10).close()
    assert verdicts(statuses) == [(Verdict.COMPLETE, sequence_id)]
    (message,) = statuses.messages()
    status = read_status(message.body)
    assert (status.queue, status.missing) == (queue.name, [])
    assert message.label == f"complete {queue.name};{status.sub_queue}"[:249]
    assert len(status.sub_queue) <= 32
    assert received(large) == b"x" * 2500
    assert statuses.info().message_count == queue.info().message_count == 0


def test_a_status_leaves_with_its_message_and_is_hidden_meanwhile(large, statuses):
    large.send(b"x")
    with large.receive(timeout=10) as message:
        assert statuses.info().message_count == 1
        assert list(statuses.messages()) == []
        assert message.body() == b"x"
    assert statuses.info().message_count == 0


def test_a_message_that_has_a_status_is_received_before_all_others(large, statuses):
    first = large.send(b"first")
    second = large.send(b"second", correlation_id="second")
    large.receive_by_correlation_id("second", 10).close()
    assert verdicts(statuses) == [(Verdict.COMPLETE, second)]
    with large.receive(timeout=10) as message:
        assert message.sequence_id == second
    with large.receive(timeout=10) as message:
        assert message.sequence_id == first


def test_a_hole_is_told_with_the_status_delete_and_both_are_gone(manager, large, queue, statuses):
    holed = large.send(b"x" * 2500)
    large.send(b"whole")
    make_hole(manager, queue)
    with pytest.raises(dray.LargeMessageHole) as caught:
        large.receive(10)
    assert (caught.value.sequence_id, caught.value.missing) == (holed, [[2, 2]])
    assert statuses.info().message_count == 0
    assert queue.info().message_count == 3
    assert received(large) == b"whole"


def test_a_hole_leaves_the_callers_transaction_as_it_was(manager, large, queue):
    large.send(b"x" * 2500)
    large.send(b"whole")
    make_hole(manager, queue)
    with manager.transaction() as transaction:
        with pytest.raises(dray.LargeMessageHole):
            large.receive(10, transaction)
        assert large.receive(10, transaction).body() == b"whole"
    assert queue.info().message_count == 0


@pytest.mark.parametrize("waiting", [False, True])
def test_junk_in_the_status_queue_is_discarded(large, statuses, waiting):
    statuses.send(b"junk")
    statuses.send(b"\x93\x01\x02\x03", correlation_id="x", app_specific=3)
    if waiting:
        large.send(b"x" * 2500)
        assert received(large) == b"x" * 2500
    else:
        with pytest.raises(dray.ReceiveTimeout):
            large.receive(0)
    assert statuses.info().message_count == 0


def test_a_status_of_a_message_that_is_gone_is_junk(manager, large, queue, statuses):
    sequence_id = large.send(b"x")
    large.receive(timeout=10).close()
    (message,) = statuses.messages()
    assert received(large) == b"x"
    statuses.send(message.body, app_specific=0, correlation_id=sequence_id)
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
    assert statuses.info().message_count == 0


def test_a_second_status_of_one_message_is_junk(large, queue, statuses):
    large.send(b"x")
    large.receive(timeout=10).close()
    (message,) = statuses.messages()
    statuses.send(message.body, correlation_id=message.correlation_id)
    assert received(large) == b"x"
    assert statuses.info().message_count == 0


def test_the_status_of_another_queue_is_not_touched(other, large, statuses):
    of_other = other.send(b"other")
    other.receive(timeout=10).close()
    large.send(b"x")
    assert received(large) == b"x"
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
    assert verdicts(statuses) == [(Verdict.COMPLETE, of_other)]
    assert received(other) == b"other"


def test_the_status_of_a_deleted_queue_is_junk(manager, other, large, statuses):
    other.send(b"other")
    other.receive(timeout=10).close()
    (message,) = statuses.messages()
    manager.delete_queue(read_status(message.body).queue)
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
    assert statuses.info().message_count == 0


def test_what_looks_like_a_status_of_an_unknown_message_harms_nothing(large, queue, statuses):
    sequence_id = large.send(b"x" * 2500)
    large.receive(timeout=10).close()
    (message,) = statuses.messages()
    forged = msgspec.msgpack.decode(message.body)
    forged[3] = int(Verdict.DELETE)
    statuses.receive(0)
    statuses.send(msgspec.msgpack.encode(forged), correlation_id=sequence_id, app_specific=3)
    # What is to become of a message is told by its parts, whatever a status message says.
    assert received(large) == b"x" * 2500


def test_peek_writes_no_status(large, statuses):
    large.send(b"x")
    with large.peek(timeout=10) as message:
        assert message.body() == b"x"
    assert statuses.info().message_count == 0


def test_a_status_queue_without_room_keeps_no_receive_from_happening(manager, large, statuses):
    large.send(b"x" * 2500)
    manager.set_quota(statuses.name, quota=0, journal_quota=None)
    large.receive(timeout=10).close()
    assert statuses.info().message_count == 0
    assert received(large) == b"x" * 2500


def test_a_status_queue_that_has_another_use_is_refused(face, other, other_queue, queue):
    other.send(b"x")
    for name in (queue.name, other_queue.name):
        wrong = face.LargeMessageQueue(queue, status_queue=name)
        with pytest.raises(dray.StatusQueueMissing) as caught:
            wrong.receive(0)
        assert caught.value.queue == name
    assert other_queue.info().message_count == 3


def test_a_large_message_sent_to_the_status_queue_does_not_end_its_use_for_ever(
    face, large, statuses
):
    """By mistake, or from afar: they are told, stay until they are purged, and then it goes on."""
    large.send(b"x")
    face.LargeMessageQueue(statuses).send(b"astray")
    with pytest.raises(dray.StatusQueueMissing, match="it has large messages; purge it"):
        large.receive(0)
    assert statuses.info().message_count == 3
    statuses.purge()
    assert received(large) == b"x"


def test_a_status_queue_that_was_deleted_is_made_anew(manager, large, statuses):
    large.send(b"x")
    large.receive(timeout=10).close()
    manager.delete_queue(statuses.name)
    assert received(large) == b"x"
    assert manager.queue(statuses.name).info().transactional


def test_a_status_queue_deleted_and_made_anew_between_two_receives_is_found(
    manager, large, statuses
):
    large.send(b"x")
    large.receive(timeout=10).close()
    manager.delete_queue(statuses.name)
    manager.create_queue(statuses.name)
    assert received(large) == b"x"
