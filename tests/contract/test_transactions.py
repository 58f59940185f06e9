"""Promises about transactions: all or nothing, in commit order."""

from __future__ import annotations

import threading

import pytest

import dray
from dray import TransactionStatus


def bodies(queue):
    return [message.body for message in queue.messages()]


def test_nothing_is_seen_before_the_commit_and_all_after(manager, make_queue):
    left, right = make_queue(), make_queue()
    with manager.transaction() as transaction:
        left.send(b"1", transaction=transaction)
        right.send(b"2", transaction=transaction)
        left.send(b"3", transaction=transaction)
        assert bodies(left) == bodies(right) == []
    assert bodies(left) == [b"1", b"3"]
    assert bodies(right) == [b"2"]


def test_groups_stand_in_the_order_of_their_commits(manager, queue):
    early, late = manager.transaction(), manager.transaction()
    for number in range(3):
        queue.send(b"early%d" % number, transaction=early)
        queue.send(b"late%d" % number, transaction=late)
    late.commit()
    early.commit()
    assert bodies(queue) == [b"late0", b"late1", b"late2", b"early0", b"early1", b"early2"]


def test_an_aborted_send_never_appears(manager, queue):
    transaction = manager.transaction()

    def send_and_fail():
        with transaction:
            queue.send(b"never", transaction=transaction)
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        send_and_fail()
    assert transaction.status is TransactionStatus.ABORTED
    assert bodies(queue) == []


def test_an_aborted_receive_puts_the_message_back_in_its_place(manager, queue):
    queue.send_many([b"1", b"2", b"3"])
    transaction = manager.transaction()
    assert queue.receive(0, transaction).body == b"1"
    assert queue.receive(0).body == b"2"
    transaction.abort()
    message = queue.receive(0)
    assert (message.body, message.abort_count) == (b"1", 1)


def test_receive_and_send_are_one(manager, make_queue):
    inbox, outbox = make_queue(), make_queue()
    inbox.send(b"question")
    with manager.transaction() as transaction:
        message = inbox.receive(0, transaction)
        outbox.send(b"answer to " + message.body, transaction=transaction)
    assert bodies(inbox) == []
    assert bodies(outbox) == [b"answer to question"]


def test_first_and_last_of_a_transaction_are_marked(manager, queue):
    with manager.transaction() as transaction:
        for _ in range(3):
            queue.send(b"", transaction=transaction)
    marks = [
        (message.first_in_transaction, message.last_in_transaction, message.transaction_id)
        for message in queue.messages()
    ]
    assert marks == [
        (True, False, transaction.id),
        (False, False, transaction.id),
        (False, True, transaction.id),
    ]


def test_first_and_last_are_marked_in_each_queue_and_a_single_message_is_both(manager, make_queue):
    several, single = make_queue(), make_queue()
    with manager.transaction() as transaction:
        several.send(b"", transaction=transaction)
        single.send(b"", transaction=transaction)
        several.send(b"", transaction=transaction)
    single.send(b"")
    found = [*several.messages(), *single.messages()]
    marks = [(message.first_in_transaction, message.last_in_transaction) for message in found]
    assert marks == [(True, False), (False, True), (True, True), (True, True)]
    assert {message.transaction_id for message in found[:3]} == {transaction.id}
    assert found[3].transaction_id not in (None, transaction.id)


def test_groups_of_many_threads_stand_together(manager, make_queue):
    """Receives between the sends make each of these a frame, so that groups really overlap."""
    queue, empty = make_queue(), make_queue()

    def commit_groups(worker):
        for group in range(10):
            with manager.transaction() as transaction:
                for _ in range(5):
                    queue.send(b"%d.%d" % (worker, group), transaction=transaction)
                    with pytest.raises(dray.ReceiveTimeout):
                        empty.receive(0, transaction)

    workers = [threading.Thread(target=commit_groups, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
    seen = bodies(queue)
    groups = [seen[start] for start in range(0, len(seen), 5)]
    assert seen == [group for group in groups for _ in range(5)]
    for worker in range(4):
        prefix = b"%d." % worker
        own = [group for group in groups if group.startswith(prefix)]
        assert own == [prefix + b"%d" % group for group in range(10)]


def test_the_outcome_of_a_transaction_can_be_asked_for(manager, queue):
    committed, aborted, pending = (manager.transaction() for _ in range(3))
    for transaction in (committed, aborted, pending):
        queue.send_many([bytes(1 << 20)] * 2, transaction=transaction)
    committed.commit()
    aborted.abort()
    assert manager.outcome(committed.id) is TransactionStatus.COMMITTED
    assert manager.outcome(aborted.id) is not TransactionStatus.COMMITTED
    assert manager.outcome(pending.id) is TransactionStatus.PENDING
    pending.abort()


def test_asking_for_the_outcome_of_an_open_transaction_does_not_end_it(manager, queue):
    """Its sends are still gathered in the program: the queue manager has not heard of it."""
    with manager.transaction() as transaction:
        assert manager.outcome(transaction.id) is TransactionStatus.PENDING
        queue.send(b"kept", transaction=transaction)
        assert manager.outcome(transaction.id) is TransactionStatus.PENDING
    assert manager.outcome(transaction.id) is TransactionStatus.COMMITTED
    assert bytes(queue.receive(0).body) == b"kept"


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_finished_transaction_takes_nothing_more(manager, queue, end):
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    getattr(transaction, end)()
    for act in (
        transaction.commit,
        transaction.abort,
        lambda: queue.send(b"", transaction=transaction),
        lambda: queue.receive(0, transaction),
    ):
        with pytest.raises(dray.TransactionSequence) as caught:
            act()
        assert caught.value.transaction_id == transaction.id


def test_a_transaction_in_which_nothing_was_done_commits(manager):
    transaction = manager.transaction()
    assert transaction.status is TransactionStatus.PENDING
    transaction.commit()
    assert transaction.status is TransactionStatus.COMMITTED


def test_a_mutable_body_may_change_once_send_has_returned(manager, queue):
    body = bytearray(b"before")
    with manager.transaction() as transaction:
        queue.send(body, transaction=transaction)
        body[:] = b"after!"
    assert queue.receive(0).body == b"before"


def test_a_long_transaction_goes_out_in_several_frames(manager, queue):
    with manager.transaction() as transaction:
        for number in range(3500):
            queue.send(b"%d" % number, transaction=transaction)
    assert queue.info().message_count == 3500


def test_a_refused_send_is_told_at_the_commit_and_nothing_of_it_happens(manager, make_queue):
    small, other = make_queue(quota=1000), make_queue()
    transaction = manager.transaction()
    other.send(b"with it", transaction=transaction)
    small.send(bytes(2000), transaction=transaction)
    with pytest.raises(dray.QuotaExceeded):
        transaction.commit()
    assert transaction.status is TransactionStatus.ABORTED
    assert bodies(other) == bodies(small) == []


def test_a_refused_send_is_told_by_the_next_operation(manager, make_queue):
    small = make_queue(quota=1000)
    transaction = manager.transaction()
    small.send(bytes(2000), transaction=transaction)
    # The receive lets the send go out; the refusal is here before the receive's answer.
    with pytest.raises(dray.ReceiveTimeout):
        small.receive(0, transaction)
    with pytest.raises(dray.QuotaExceeded):
        small.receive(0, transaction)
    with pytest.raises(dray.QuotaExceeded):
        transaction.commit()
    assert transaction.status is TransactionStatus.ABORTED


def test_a_transaction_on_a_queue_without_transactions_is_refused(manager, make_queue):
    plain = make_queue(transactional=False)
    transaction = manager.transaction()
    for act in (
        lambda: plain.receive(0, transaction),
        lambda: plain.send(b"", transaction=transaction),
        lambda: plain.send_many([b""], transaction=transaction),
    ):
        with pytest.raises(dray.TransactionUsage):
            act()
    transaction.commit()
    assert bodies(plain) == []


def test_a_transaction_of_another_handle_is_refused(face, queue, tmp_path):
    with face.open(tmp_path / "other") as other:
        transaction = other.transaction()
        with pytest.raises(dray.TransactionUsage):
            queue.send(b"", transaction=transaction)


def test_who_asks_about_a_transaction_that_another_program_is_gathering_ends_it(face, addresses):
    """The answer `ABORTED` is final: it may be about frames of a connection that was lost."""
    with face.connect(addresses["unix"]) as gathering, face.connect(addresses["unix"]) as asking:
        queue = gathering.create_queue("gathered", exist_ok=True)
        transaction = gathering.transaction()
        assert gathering.outcome(transaction.id) is TransactionStatus.PENDING
        assert asking.outcome(transaction.id) is TransactionStatus.ABORTED
        queue.send(b"too late", transaction=transaction)
        with pytest.raises(dray.TransactionAborted, match="already reported as aborted"):
            transaction.commit()
        assert asking.outcome(transaction.id) is TransactionStatus.ABORTED
        assert queue.info().message_count == 0
