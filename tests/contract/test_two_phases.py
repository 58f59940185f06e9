"""Promises about preparing a transaction and settling it later."""

from __future__ import annotations

import pytest

import dray
from dray import TransactionStatus


def bodies(queue):
    return [message.body for message in queue.messages()]


@pytest.fixture
def prepared(manager, make_queue):
    """A prepared transaction with its two queues: from one it received, to the other it sent."""
    source, target = make_queue(), make_queue()
    source.send(b"in")
    transaction = manager.transaction()
    assert source.receive(0, transaction).body == b"in"
    target.send(b"out", transaction=transaction)
    transaction.prepare()
    return transaction, source, target


def test_nothing_of_a_prepared_transaction_is_seen_and_nothing_more_can_be_done_in_it(
    manager, prepared
):
    transaction, source, target = prepared
    assert transaction.status is TransactionStatus.PREPARED
    assert manager.outcome(transaction.id) is TransactionStatus.PREPARED
    assert transaction.id in manager.prepared()
    assert bodies(source) == bodies(target) == []
    for act in (
        transaction.prepare,
        lambda: target.send(b"", transaction=transaction),
        lambda: source.receive(0, transaction),
    ):
        with pytest.raises(dray.TransactionSequence):
            act()
    transaction.abort()


def test_a_prepared_transaction_is_committed_by_its_handle(manager, prepared):
    transaction, source, target = prepared
    transaction.commit()
    assert transaction.status is TransactionStatus.COMMITTED
    assert (bodies(source), bodies(target)) == ([], [b"out"])
    assert transaction.id not in manager.prepared()


def test_a_prepared_transaction_is_aborted_by_its_handle(manager, prepared):
    transaction, source, target = prepared
    transaction.abort()
    assert transaction.status is TransactionStatus.ABORTED
    assert (bodies(source), bodies(target)) == ([b"in"], [])
    assert manager.outcome(transaction.id) is not TransactionStatus.COMMITTED


def test_whoever_knows_its_id_settles_it_and_may_do_so_again(manager, prepared):
    transaction, source, target = prepared
    manager.commit_prepared(transaction.id)
    manager.commit_prepared(transaction.id)
    assert (bodies(source), bodies(target)) == ([], [b"out"])
    with pytest.raises(dray.TransactionSequence):
        manager.abort_prepared(transaction.id)


def test_what_was_aborted_cannot_be_committed(manager, prepared):
    transaction, source, target = prepared
    manager.abort_prepared(transaction.id)
    assert (bodies(source), bodies(target)) == ([b"in"], [])
    with pytest.raises(dray.TransactionSequence):
        manager.commit_prepared(transaction.id)


@pytest.mark.parametrize("commits", [True, False])
def test_a_handle_tells_how_its_transaction_was_settled_by_its_id(manager, prepared, commits):
    transaction, _, _ = prepared
    (manager.commit_prepared if commits else manager.abort_prepared)(transaction.id)
    with pytest.raises(dray.TransactionSequence):
        (transaction.abort if commits else transaction.commit)()
    ends = TransactionStatus.COMMITTED if commits else TransactionStatus.ABORTED
    assert transaction.status is ends


def test_a_prepared_transaction_of_another_queue_manager_is_not_settled_here(
    face, tmp_path, manager, prepared
):
    transaction, source, target = prepared
    with face.open(tmp_path / "other") as other:
        for settle in (other.commit_prepared, other.abort_prepared):
            with pytest.raises(dray.TransactionSequence, match="never prepared here"):
                settle(transaction.id)
    transaction.commit()
    assert (bodies(source), bodies(target)) == ([], [b"out"])


def test_a_transaction_in_which_nothing_was_done_can_be_prepared(manager):
    transaction = manager.transaction()
    transaction.prepare()
    transaction.commit()
    assert transaction.status is TransactionStatus.COMMITTED


def test_leaving_the_block_leaves_a_prepared_transaction_prepared(manager, queue):
    with manager.transaction() as transaction:
        queue.send(b"x", transaction=transaction)
        transaction.prepare()
    assert transaction.status is TransactionStatus.PREPARED
    assert bodies(queue) == []
    transaction.commit()
    assert bodies(queue) == [b"x"]


def test_a_refused_send_is_told_by_prepare_and_nothing_is_prepared(manager, make_queue):
    small = make_queue(quota=1000)
    transaction = manager.transaction()
    small.send(bytes(2000), transaction=transaction)
    with pytest.raises(dray.QuotaExceeded):
        transaction.prepare()
    assert transaction.status is TransactionStatus.ABORTED
    assert transaction.id not in manager.prepared()


def test_a_prepared_transaction_survives_the_queue_managers_end(face, tmp_path):
    with face.open(tmp_path / "data") as manager:
        queue = manager.create_queue("orders")
        with manager.transaction() as transaction:
            queue.send(b"kept", transaction=transaction)
            transaction.prepare()
    with face.open(tmp_path / "data") as manager:
        assert manager.prepared() == [transaction.id]
        assert bodies(manager.queue("orders")) == []
        manager.commit_prepared(transaction.id)
        assert bodies(manager.queue("orders")) == [b"kept"]
