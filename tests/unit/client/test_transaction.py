"""What goes over the wire for a transaction, and how it ends when the answer does not come."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest

from dray.errors import (
    ConnectionLost,
    InDoubt,
    MessageTooLarge,
    QueueNotFound,
    QuotaExceeded,
    StorePoisoned,
    TransactionAborted,
    TransactionSequence,
)
from dray.model.classes import TransactionStatus
from dray.wire.frames import Done, failure
from dray.wire.message_frames import Abort, Commit, Outcome, OutcomeIs, Receive, Send
from dray.wire.queue_frames import OpenQueue
from tests.unit.client.peer import hang_up

QUOTA = QuotaExceeded("full", quota="queue", limit=1, used=1, requested=1)


def refuse(error):
    return lambda visit, frame: visit.answer(frame, failure(error))


def test_a_run_of_sends_is_one_frame_and_its_ids_need_no_round_trip(peer, manager, queue):
    with manager.transaction() as transaction:
        for _ in range(100):
            queue.send(b"x" * 1024, transaction=transaction)
        assert peer.of(Send) == []
    (send,) = peer.of(Send)
    assert len(send.sizes) == len(send.crcs) == 100
    assert peer.of(Commit) == [Commit(send.transaction, 1)]
    assert transaction.status is TransactionStatus.COMMITTED


def test_the_commit_says_how_many_frames_were_sent(peer, manager, queue):
    other = manager.queue("another")
    with manager.transaction() as transaction:
        for each in (queue, other, queue):
            each.send(b"", transaction=transaction)
        manager.queue("orders", raw=True).send(b"", transaction=transaction)
    assert [(send.queue, send.guarded) for send in peer.of(Send)] == [
        (6, True), (7, True), (6, True), (6, False),
    ]  # fmt: skip
    assert peer.of(Commit)[0].sends == 4


def test_a_run_goes_out_when_it_is_long_and_before_it_is_over_a_frame(peer, manager, queue):
    with manager.transaction() as transaction:
        for _ in range(1001):
            queue.send(b"", transaction=transaction)
        for size in (1 << 19, (1 << 22) - 64, 1 << 20):
            queue.send(bytes(size), transaction=transaction)
    assert [len(send.sizes) for send in peer.of(Send)] == [1000, 2, 1, 1]
    assert all(sum(send.sizes) <= 1 << 22 for send in peer.of(Send))


def test_a_transaction_in_which_nothing_was_done_says_nothing(peer, manager):
    manager.transaction().commit()
    manager.transaction().abort()
    with manager.transaction():
        pass
    assert peer.of(Commit) == peer.of(Abort) == []


def test_an_aborted_transaction_throws_away_what_had_not_gone_out(peer, manager, queue):
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    transaction.abort()
    assert peer.of(Send) == peer.of(Abort) == []


def test_a_commit_whose_answer_is_lost_is_in_doubt_and_settled_later(peer, manager, queue):
    peer.on[Commit] = hang_up
    peer.on[Outcome] = lambda visit, frame: visit.answer(frame, OutcomeIs("committed"))
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    with pytest.raises(InDoubt) as caught:
        transaction.commit()
    assert caught.value.transaction_id == transaction.id
    assert transaction.status is TransactionStatus.IN_DOUBT
    assert manager.outcome(transaction.id) is TransactionStatus.COMMITTED
    assert peer.of(Outcome) == [Outcome(transaction.id)]
    assert len(peer.visits) == 2


def test_an_interrupted_commit_is_in_doubt(peer, manager, queue):
    def interrupt(visit, frame):
        os.kill(os.getpid(), signal.SIGINT)

    peer.on[Commit] = interrupt
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    assert transaction.status is TransactionStatus.IN_DOUBT
    for act in (
        transaction.commit,
        transaction.abort,
        lambda: queue.send(b"", transaction=transaction),
    ):
        with pytest.raises(TransactionSequence, match=r"is in doubt; ask Manager\.outcome\(\)"):
            act()


def test_a_commit_at_a_store_that_failed_is_in_doubt(peer, manager, queue):
    peer.on[Commit] = refuse(StorePoisoned("a sync failed"))
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    with pytest.raises(InDoubt):
        transaction.commit()


def test_a_refused_commit_is_an_abort(peer, manager, queue):
    peer.on[Commit] = refuse(TransactionAborted("no", transaction_id="x"))
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    with pytest.raises(TransactionAborted):
        transaction.commit()
    assert transaction.status is TransactionStatus.ABORTED


def test_what_the_manager_has_against_a_send_is_what_the_commit_raises(peer, manager, queue):
    peer.on[Send] = refuse(QUOTA)
    peer.on[Commit] = refuse(TransactionAborted("doomed", transaction_id="x"))
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    with pytest.raises(QuotaExceeded, match="full"):
        transaction.commit()
    assert transaction.status is TransactionStatus.ABORTED


def test_a_refusal_that_is_known_dooms_the_next_send_and_the_commit(peer, manager, queue):
    peer.on[Send] = refuse(QUOTA)
    peer.on[Receive] = refuse(QueueNotFound("nothing", queue="orders"))
    transaction = manager.transaction()
    queue.send(b"", transaction=transaction)
    with pytest.raises(QueueNotFound):
        queue.receive(0, transaction)
    with pytest.raises(QuotaExceeded):
        queue.send(b"", transaction=transaction)
    with pytest.raises(QuotaExceeded):
        transaction.commit()
    assert len(peer.of(Abort)) == 1
    assert peer.of(Commit) == []


def test_a_deleted_queue_is_resolved_anew_after_the_transaction(peer, manager, queue):
    peer.on[Send] = refuse(QueueNotFound("gone", queue=""))
    peer.on[Commit] = refuse(TransactionAborted("doomed", transaction_id="x"))
    for _ in range(2):
        transaction = manager.transaction()
        queue.send(b"", transaction=transaction)
        with pytest.raises(TransactionAborted, match="a queue that it sent to has been deleted"):
            transaction.commit()
    assert len(peer.of(OpenQueue)) == 2


def test_a_transaction_ends_with_its_connection(peer, manager, queue):
    transaction, idle = manager.transaction(), manager.transaction()
    queue.send(bytes(1 << 20), transaction=transaction)
    peer.visits[0].close()
    with pytest.raises(ConnectionLost):
        manager.queue("other").send(b"", transaction=transaction)
    with pytest.raises(TransactionAborted):
        queue.send(b"", transaction=transaction)
    with pytest.raises(TransactionAborted):
        transaction.commit()
    assert transaction.status is TransactionStatus.ABORTED
    idle.abort()
    assert idle.status is TransactionStatus.ABORTED


def test_an_abort_whose_answer_is_lost_is_an_abort(peer, manager, queue):
    peer.on[Abort] = hang_up
    transaction = manager.transaction()
    queue.send(bytes(1 << 20), transaction=transaction)
    transaction.abort()
    assert transaction.status is TransactionStatus.ABORTED


def test_a_message_that_is_too_large_harms_the_transaction_not(peer, manager, queue):
    with manager.transaction() as transaction:
        with pytest.raises(MessageTooLarge):
            queue.send(bytes(1 << 22), transaction=transaction)
        queue.send(b"small", transaction=transaction)
    assert len(peer.of(Send)) == 1


def test_the_face_shows_its_id_and_state(manager):
    transaction = manager.transaction()
    assert repr(transaction) == f"<Transaction {transaction.id} pending>"


@pytest.mark.parametrize(
    ("count", "size", "frames"),
    [
        (999, 0, [999]),
        (2_500, 0, [1_000, 1_000, 500]),
        (5, 400_000, [3, 2]),
        (3, 3_900_000, [1] * 3),
    ],
)
def test_many_sends_of_a_transaction_go_in_frames_of_a_thousand_or_a_mebibyte(
    peer, manager, queue, *, count, size, frames
):
    with manager.transaction() as transaction:
        queue.send_many([bytes(size)] * count, transaction=transaction)
    assert [len(send.sizes) for send in peer.of(Send)] == frames


def test_a_send_outside_a_transaction_is_answered(peer, queue):
    peer.on[Send] = lambda visit, frame: visit.answer(frame, Done(1))
    queue.send(b"x")
    (send,) = peer.of(Send)
    assert send.transaction == 0


def test_a_transaction_that_is_dropped_runs_nothing_in_which_an_interrupt_would_be_lost(
    manager, queue
):
    transaction = manager.transaction()
    with transaction:
        queue.send(b"", transaction=transaction)
    ran = []
    gc.disable()
    sys.setprofile(lambda frame, event, _: ran.append((event, frame.f_code.co_name)))
    try:
        del transaction
    finally:
        sys.setprofile(None)
        gc.enable()
    assert [name for event, name in ran if event == "call"] == []


def test_transactions_that_nobody_holds_are_forgotten_and_others_are_not(manager):
    held = manager.transaction()
    held.__enter__()
    link = held.awaited.link
    for _ in range(1_000):
        with manager.transaction():
            pass
    assert len(link._begun) < 200
    assert link.is_under_way(held.id)
    held.abort()
    assert not link.is_under_way(held.id)
