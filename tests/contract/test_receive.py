"""Promises about receiving and looking at plain messages."""

from __future__ import annotations

import threading

import pytest

import dray


def test_messages_come_in_the_order_in_which_they_were_sent(queue):
    for number in range(20):
        queue.send(b"%d" % number)
    assert [int(queue.receive(0).body) for _ in range(20)] == list(range(20))


def test_nothing_in_time_is_a_timeout_error(queue):
    for timeout in (0, 0.02):
        with pytest.raises(dray.ReceiveTimeout):
            queue.receive(timeout)
    with pytest.raises(TimeoutError):
        queue.peek(0)


def test_a_waiting_receive_takes_what_another_thread_sends_over_the_same_connection(queue):
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(queue.receive()))
    waiting.start()
    queue.send(b"at last")
    waiting.join(100)
    assert [message.body for message in taken] == [b"at last"]


@pytest.mark.slow
def test_many_threads_share_one_connection_and_each_message_comes_once(manager, queue):
    def send(worker):
        for number in range(50):
            queue.send(b"%d-%d" % (worker, number))

    taken = []

    def take():
        while (body := queue.receive(10).body) != b"end":
            taken.append(body)

    senders = [threading.Thread(target=send, args=(worker,)) for worker in range(3)]
    takers = [threading.Thread(target=take) for _ in range(3)]
    for thread in [*takers, *senders]:
        thread.start()
    for thread in senders:
        thread.join(100)
    queue.send_many([b"end"] * 3)
    for thread in takers:
        thread.join(100)
    assert sorted(taken) == sorted(
        b"%d-%d" % (worker, number) for worker in range(3) for number in range(50)
    )


def test_peek_leaves_the_message_where_it_is(queue):
    queue.send(b"stay")
    assert queue.peek(0).body == queue.peek(0).body == b"stay"
    assert queue.receive(0).body == b"stay"


def test_many_are_received_at_once_within_the_bounds_that_were_given(queue):
    queue.send_many([bytes(100)] * 5)
    assert len(queue.receive_many(2, timeout=0)) == 2
    assert len(queue.receive_many(10, max_bytes=350, timeout=0)) == 2
    assert len(queue.receive_many(10, timeout=0)) == 1
    with pytest.raises(dray.ReceiveTimeout):
        queue.receive_many(10, timeout=0)


def test_a_message_is_found_by_id_correlation_id_and_position(queue):
    ids = [queue.send(b"%d" % n, correlation_id=f"c{n}") for n in range(4)]
    assert queue.peek_by_id(ids[1]).body == b"1"
    assert queue.peek_by_correlation_id("c2").body == b"2"
    third = queue.peek_by_id(ids[3])
    assert queue.peek_by_lookup_id(third.lookup_id).body == b"3"
    assert queue.receive_by_lookup_id(third.lookup_id).body == b"3"
    assert queue.receive_by_correlation_id("c2").body == b"2"
    assert queue.receive_by_id(ids[1]).body == b"1"
    assert [message.body for message in queue.messages()] == [b"0"]


def test_what_is_not_there_is_not_found_without_a_time_to_wait(manager, queue):
    absent = f"{manager.info().id}\\999999999999"
    for act in (
        lambda: queue.receive_by_id(absent),
        lambda: queue.peek_by_id(absent, 0),
        lambda: queue.receive_by_correlation_id("none"),
        lambda: queue.peek_by_lookup_id(77),
    ):
        with pytest.raises(dray.MessageNotFound):
            act()
    with pytest.raises(dray.ReceiveTimeout):
        queue.receive_by_correlation_id("none", 0.02)
    with pytest.raises(dray.Misuse):
        queue.receive_by_id("no id")


def test_a_snapshot_shows_all_and_removes_nothing(queue):
    queue.send_many([b"%d" % number for number in range(2500)])
    seen = [int(message.body) for message in queue.messages()]
    assert seen == list(range(2500))
    assert queue.info().message_count == 2500


def test_a_snapshot_is_in_the_order_of_receiving_over_many_pages(make_queue):
    plain = make_queue(transactional=False)
    sent = [dray.Message(b"%d" % number, priority=number % 8) for number in range(2500)]
    plain.send_many(sent)
    seen = [int(message.body) for message in plain.messages()]
    assert seen == sorted(range(2500), key=lambda number: (-(number % 8), number))
    taken = plain.receive_many(2500, timeout=0)
    assert [int(message.body) for message in taken] == seen[: len(taken)]


def test_a_range_of_positions_is_read_in_pages(queue):
    queue.send_many([b"%d" % number for number in range(10)])
    first = queue.peek_range(max_messages=4)
    rest = queue.peek_range(after=first[-1].lookup_id)
    assert [int(message.body) for message in [*first, *rest]] == list(range(10))
    assert queue.peek_range(after=rest[-1].lookup_id) == []


def test_settling_receives_everything_up_to_a_position_once(queue):
    queue.send_many([b"%d" % number for number in range(5)])
    upto = queue.peek_range(max_messages=3)[-1].lookup_id
    queue.settle(upto)
    queue.settle(upto)
    assert [message.body for message in queue.messages()] == [b"3", b"4"]


def test_purging_empties_the_queue_and_counts(queue):
    queue.send_many([b""] * 7)
    assert queue.purge() == 7
    assert queue.purge() == 0


def test_a_dead_letter_says_why_and_is_otherwise_the_message_that_was_sent(manager, queue):
    identity = queue.send(b"kept", label="mine", use_dead_letter_queue=True)
    unasked = queue.send(b"not asked for")
    queue.purge()
    letters = {each.id: each for each in manager.queue("system$;deadxact").messages()}
    letter = letters[identity]
    assert (letter.body, letter.label) == (b"kept", "mine")
    assert letter.message_class is dray.MessageClass.NACK_Q_PURGED
    assert letter.destination == queue.name
    assert unasked not in letters


@pytest.mark.parametrize("name", ["nonsense", "x" * 5000, "0" * 32 + "\\" + "9" * 5000, ""])
def test_no_message_has_an_id_that_is_none(queue, name):
    queue.send(b"")
    for call in (queue.receive_by_id, queue.peek_by_id):
        with pytest.raises(dray.MessageNotFound):
            call(name)
    assert queue.info().message_count == 1


@pytest.mark.parametrize("position", [-1, 0, 1 << 63, (1 << 64) - 1])
def test_a_position_where_nothing_can_be_is_no_mishap(queue, position):
    queue.send(b"here")
    for call in (queue.receive_by_lookup_id, queue.peek_by_lookup_id):
        with pytest.raises(dray.MessageNotFound):
            call(position)
    assert len(queue.peek_range(after=position)) == (position < 1)


@pytest.mark.parametrize("position", [1 << 64, -(1 << 64)])
def test_a_position_beyond_every_number_is_misuse(queue, position):
    for call in (queue.peek_by_lookup_id, queue.peek_range, queue.settle):
        with pytest.raises(dray.Misuse):
            call(position)
    assert queue.info().message_count == 0


def test_a_message_that_is_there_comes_however_long_one_would_wait(queue):
    for timeout in (1e7, 1e30, float("inf"), None):
        queue.send(b"")
        assert queue.receive(timeout).body == b""


def test_a_wait_of_years_ends_when_something_comes(queue):
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(queue.receive(1e9 - 1)))
    waiting.start()
    queue.send(b"at last")
    waiting.join(100)
    assert [message.body for message in taken] == [b"at last"]


def test_a_timeout_that_is_no_number_is_misuse(queue):
    with pytest.raises(dray.Misuse):
        queue.receive(float("nan"))


def test_more_may_be_asked_for_than_one_frame_holds(queue):
    queue.send_many([b"1", b"2"])
    assert len(queue.peek_range(max_messages=10**9)) == 2
    assert len(queue.receive_many(10**9, max_bytes=10**12, timeout=0)) == 2


@pytest.mark.parametrize("room", [0, -5, 1])
def test_one_message_comes_however_little_room_is_given(queue, room):
    queue.send_many([b"1", b"2"])
    assert len(queue.receive_many(10, max_bytes=room, timeout=0)) == 1


OWED = "dray://127.0.0.1:1/orders"


def takes(queue, transaction):
    """Every way of taking a message from a queue."""
    return {
        "receive": lambda: queue.receive(0, transaction=transaction),
        "receive_many": lambda: queue.receive_many(1, timeout=0, transaction=transaction),
        "receive_by_lookup_id": lambda: queue.receive_by_lookup_id(1, transaction=transaction),
        "receive_transaction": lambda: queue.receive_transaction(0, transaction),
        "settle": lambda: queue.settle(1, transaction=transaction),
    }


@pytest.mark.parametrize("way", takes(None, None))
def test_what_is_owed_to_another_manager_cannot_be_taken(face, manager, way):
    queue = manager.queue(OWED)
    queue.send(b"owed")
    there = queue.info().message_count
    with pytest.raises(dray.AccessDenied):
        takes(queue, manager.transaction())[way]()
    manager.create_queue("statusq", exist_ok=True)
    with pytest.raises(dray.AccessDenied):
        face.LargeMessageQueue(queue).receive(0)
    assert queue.info().message_count == there


@pytest.mark.parametrize("name", ["order_queue$", "admin_queue$", "notify_queue$"])
def test_the_managers_own_queues_are_its_own(manager, name):
    queue = manager.queue(name)
    for take in (lambda: queue.receive(0), lambda: queue.settle(1), queue.purge):
        with pytest.raises(dray.AccessDenied):
            take()
    with pytest.raises(dray.ReceiveTimeout):
        queue.peek(0)


def test_nothing_is_settled_in_a_transaction_where_there_are_none(manager, make_queue):
    plain = make_queue(transactional=False)
    plain.send(b"")
    with pytest.raises(dray.TransactionUsage):
        plain.settle(1, transaction=manager.transaction())
    assert plain.info().message_count == 1
