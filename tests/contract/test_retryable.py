"""`retryable` is true only where a repeat is safe: of every error, and of every call that asks.

Each call loses the answer to the request that it is made of. If the error says that it is
retryable, the call is made again, and must succeed.
"""

from __future__ import annotations

import inspect
import io
from typing import NamedTuple

import pytest

import dray
import dray.aio
from dray.client.calls.public_calls import inner_calls
from dray.errors import every_error
from dray.wire import (
    backup_frames,
    large_frames,
    message_frames,
    queue_frames,
    range_frames,
    token_frames,
)
from dray.wire.head import Head

PEER = "dray://127.0.0.1:1"
OUTGOING = f"{PEER}/there"
LOST, DOUBT, ABORTED = dray.ConnectionLost, dray.InDoubt, dray.TransactionAborted
RETRYABLE = {
    "source-changed": "nothing of it was committed",
    "quota-exceeded": "nothing was kept of what was refused",
    "receive-timeout": "nothing was taken",
    "transaction-aborted": "nothing of it happened",
    "store-locked": "nothing was opened",
    "store-full": "nothing was kept of what was refused",
    "peer-error": "nobody was reached",
    "connection-lost": "what lost an answer and is not safe to repeat says so by itself",
    "address-in-use": "nothing was opened",
    "transfer-timeout": "an offer or a transfer that stopped is gone on with",
}
"""Errors of which a repeat is safe, and why. All others are not retryable."""


class Call(NamedTuple):
    """A call, the request of which the answer is lost, and what it has to end with."""

    make: object
    request: type[Head]
    error: type[dray.DrayError] = LOST
    retryable: bool = True
    once: bool = False
    """Whether a repeat, which is safe, cannot succeed: what was begun is over."""


class CallTargets:
    """A queue with messages in it, and what the calls need."""

    def __init__(self, face, manager):
        self.face, self.manager = face, manager
        self.queue = manager.create_queue("orders")
        manager.create_token("targets")
        manager.create_queue("statusq", exist_ok=True)
        manager.create_queue("large")
        self.queue.send_many([dray.Message(body=b"a", correlation_id="c")] * 5)
        self.first = self.queue.peek(0)
        self.queue.move(self.first.lookup_id + 4, "orders;side")
        self.large = face.LargeMessageQueue(manager.queue("large"), fragment_size=1000)
        self.sequence_id = self.large.send([b"x" * 5000], correlation_id="c")
        manager.create_queue("other")
        manager.create_queue("doomed").send(b"dead", use_dead_letter_queue=True)
        manager.delete_queue("doomed")
        self.cursor = self.queue.cursor()
        self.transaction = manager.transaction()
        self.queue.send(b"in one", transaction=self.transaction)
        prepared = manager.transaction()
        self.queue.send(b"prepared", transaction=prepared)
        prepared.prepare()
        self.prepared = prepared.id
        manager.queue(OUTGOING).send(b"x")
        self.target = io.BytesIO


CALLS = {
    "Manager.create_queue": Call(
        lambda targets: targets.manager.create_queue("new"),
        queue_frames.CreateQueue,
        retryable=False,
    ),
    "Manager.create_queue, exist_ok": Call(
        lambda targets: targets.manager.create_queue("new", exist_ok=True), queue_frames.CreateQueue
    ),
    "Manager.queues": Call(lambda targets: targets.manager.queues(), queue_frames.ListQueues),
    "Manager.delete_queue": Call(
        lambda targets: targets.manager.delete_queue("large"),
        queue_frames.DeleteQueue,
        retryable=False,
    ),
    "Manager.outcome": Call(
        lambda targets: targets.manager.outcome(targets.prepared), message_frames.Outcome
    ),
    "Manager.prepared": Call(
        lambda targets: targets.manager.prepared(), message_frames.ListPrepared
    ),
    "Manager.commit_prepared": Call(
        lambda targets: targets.manager.commit_prepared(targets.prepared),
        message_frames.SettlePrepared,
    ),
    "Manager.abort_prepared": Call(
        lambda targets: targets.manager.abort_prepared(targets.prepared),
        message_frames.SettlePrepared,
    ),
    "Manager.info": Call(lambda targets: targets.manager.info(), queue_frames.Describe),
    "Manager.pause": Call(lambda targets: targets.manager.pause(OUTGOING), queue_frames.PauseQueue),
    "Manager.resume": Call(
        lambda targets: targets.manager.resume(OUTGOING), queue_frames.PauseQueue
    ),
    "Manager.peers": Call(lambda targets: targets.manager.peers(), queue_frames.ListPeers),
    "Manager.accept_peer": Call(
        lambda targets: targets.manager.accept_peer(PEER), queue_frames.AcceptPeer, retryable=False
    ),
    "Manager.accept_peer, by its id": Call(
        lambda targets: targets.manager.accept_peer(PEER, "c" * 32), queue_frames.AcceptPeer
    ),
    "Manager.forget_peer": Call(
        lambda targets: targets.manager.forget_peer(PEER), queue_frames.ForgetPeer, retryable=False
    ),
    "Manager.create_token": Call(
        lambda targets: targets.manager.create_token("till"),
        token_frames.CreateToken,
        retryable=False,
    ),
    "Manager.access": Call(lambda targets: targets.manager.access(), token_frames.DescribeAccess),
    "Manager.unfinished_uploads": Call(
        lambda targets: targets.manager.unfinished_uploads(), large_frames.ListUploads
    ),
    "Manager.tokens": Call(lambda targets: targets.manager.tokens(), token_frames.ListTokens),
    "Manager.revoke_token": Call(
        lambda targets: targets.manager.revoke_token("targets"),
        token_frames.RevokeToken,
        retryable=False,
    ),
    "Manager.accept_outgoing": Call(
        lambda targets: targets.manager.accept_outgoing(OUTGOING),
        queue_frames.ResolveOutgoing,
        retryable=False,
    ),
    "Manager.discard_outgoing": Call(
        lambda targets: targets.manager.discard_outgoing(OUTGOING),
        queue_frames.ResolveOutgoing,
        retryable=False,
    ),
    "Manager.move": Call(
        lambda targets: targets.manager.move("orders", "other"),
        message_frames.MoveMessages,
        DOUBT,
        retryable=False,
    ),
    "Manager.doctor": Call(lambda targets: targets.manager.doctor(), queue_frames.Describe),
    "Manager.dead_letters": Call(
        lambda targets: targets.manager.dead_letters(), range_frames.ReadRange
    ),
    "Manager.retry_dead_letters": Call(
        lambda targets: targets.manager.retry_dead_letters(to="orders"),
        message_frames.MoveMessages,
        DOUBT,
        retryable=False,
    ),
    "Manager.drop_dead_letters": Call(
        lambda targets: targets.manager.drop_dead_letters(
            [each.id for each in targets.manager.dead_letters()]
        ),
        message_frames.MoveMessages,
        DOUBT,
        retryable=False,
    ),
    "Manager.set_quota": Call(
        lambda targets: targets.manager.set_quota("orders", "1GiB"), queue_frames.SetQuota
    ),
    "Manager.backup": Call(
        lambda targets: targets.manager.backup(targets.target()), backup_frames.Backup
    ),
    "Queue.send": Call(
        lambda targets: targets.queue.send(b"x"), message_frames.Send, DOUBT, retryable=False
    ),
    "Queue.send_many": Call(
        lambda targets: targets.queue.send_many([b"x", b"y"]),
        message_frames.Send,
        DOUBT,
        retryable=False,
    ),
    "Queue.receive": Call(lambda targets: targets.queue.receive(0), message_frames.Receive),
    "Queue.receive_many": Call(
        lambda targets: targets.queue.receive_many(2, timeout=0), message_frames.Receive
    ),
    "Queue.receive in a transaction": Call(
        lambda targets: targets.queue.receive(0, targets.transaction),
        message_frames.Receive,
        once=True,
    ),
    "Queue.receive_by_id": Call(
        lambda targets: targets.queue.receive_by_id(targets.first.id), message_frames.Receive
    ),
    "Queue.receive_by_correlation_id": Call(
        lambda targets: targets.queue.receive_by_correlation_id("c"), message_frames.Receive
    ),
    "Queue.receive_by_lookup_id": Call(
        lambda targets: targets.queue.receive_by_lookup_id(targets.first.lookup_id),
        message_frames.Receive,
    ),
    "Queue.receive_transaction": Call(
        lambda targets: targets.queue.receive_transaction(0), message_frames.ReceiveTransaction
    ),
    "Queue.peek": Call(lambda targets: targets.queue.peek(0), message_frames.Receive),
    "Queue.peek_by_id": Call(
        lambda targets: targets.queue.peek_by_id(targets.first.id), message_frames.Receive
    ),
    "Queue.peek_by_correlation_id": Call(
        lambda targets: targets.queue.peek_by_correlation_id("c"), message_frames.Receive
    ),
    "Queue.peek_by_lookup_id": Call(
        lambda targets: targets.queue.peek_by_lookup_id(targets.first.lookup_id),
        message_frames.Receive,
    ),
    "Queue.peek_range": Call(lambda targets: targets.queue.peek_range(), message_frames.Receive),
    "Queue.messages": Call(lambda targets: list(targets.queue.messages()), message_frames.Receive),
    "Queue.contents": Call(lambda targets: list(targets.queue.contents()), range_frames.ReadRange),
    "Queue.parts": Call(lambda targets: list(targets.queue.parts(1)), range_frames.ReadRange),
    "Queue.settle": Call(
        lambda targets: targets.queue.settle(targets.first.lookup_id), message_frames.Settle
    ),
    "Queue.move": Call(
        lambda targets: targets.queue.move(targets.first, "orders;side"),
        message_frames.Move,
        retryable=False,
    ),
    "Queue.move in a transaction": Call(
        lambda targets: targets.queue.move(targets.first, "orders;side", targets.transaction),
        message_frames.Move,
        once=True,
    ),
    "Queue.reject": Call(
        lambda targets: targets.queue.reject(
            targets.queue.receive(0, targets.transaction), targets.transaction
        ),
        message_frames.Reject,
        once=True,
    ),
    "Queue.purge": Call(
        lambda targets: targets.queue.purge(), queue_frames.PurgeQueue, retryable=False
    ),
    "Queue.info": Call(lambda targets: targets.queue.info(), queue_frames.DescribeQueue),
    "Cursor.peek": Call(lambda targets: targets.cursor.peek(0), message_frames.Receive),
    "Cursor.next": Call(lambda targets: targets.cursor.next(0), message_frames.Receive),
    "Cursor.receive": Call(lambda targets: targets.cursor.receive(0), message_frames.Receive),
    "Transaction.commit": Call(
        lambda targets: targets.transaction.commit(), message_frames.Commit, DOUBT, retryable=False
    ),
    "Transaction.prepare": Call(
        lambda targets: targets.transaction.prepare(),
        message_frames.Prepare,
        DOUBT,
        retryable=False,
    ),
    "LargeMessageQueue.send": Call(
        lambda targets: targets.large.send([b"x"]), message_frames.Commit, DOUBT, retryable=False
    ),
    "LargeMessageQueue.receive": Call(
        lambda targets: targets.large.receive(0).close(), large_frames.LargeReceive
    ),
    "LargeMessageQueue.receive_by_correlation_id": Call(
        lambda targets: targets.large.receive_by_correlation_id("c", 5).close(),
        large_frames.LargeReceive,
    ),
    "LargeMessageQueue.peek": Call(
        lambda targets: targets.large.peek(0).close(), large_frames.LargeReceive
    ),
    "LargeMessageQueue.peek_by_id": Call(
        lambda targets: targets.large.peek_by_id(targets.sequence_id).close(),
        large_frames.LargeReceive,
    ),
    "LargeMessageQueue.unfinished": Call(
        lambda targets: targets.large.unfinished(), large_frames.ListUploads
    ),
    "LargeMessageQueue.drop_unfinished": Call(
        lambda targets: targets.large.drop_unfinished(targets.prepared),
        large_frames.UploadDrop,
        retryable=False,
    ),
}
SILENT = {
    "Manager.queue": "asks nothing",
    "Manager.transaction": "asks nothing, as long as the lease lasts",
    "Manager.close": "loses its connection on purpose",
    "Manager.offer_file": "goes on by itself: tests/integration/test_file_transfer.py",
    "Manager.accept_file": "goes on by itself",
    "Manager.unfinished_transfers": "reads the state files of this user",
    "Manager.resume_transfer": "goes on by itself",
    "Manager.cancel_transfer": "again changes nothing",
    "Manager.linger": "waits here",
    "Manager.wait_for_delivery": "goes on by itself: an acknowledgment stays in its queue",
    "Manager.running_transfer": "asks another program of this user",
    "Queue.cursor": "asks nothing",
    "Cursor.close": "asks nothing",
    "Transaction.abort": "is an abort also when its answer is lost",
}
"""Calls that no lost answer of a queue manager can end."""


@pytest.fixture
def manager(face, tmp_path):
    with face.open(tmp_path / "data") as opened:
        yield opened


@pytest.mark.parametrize("name", list(CALLS))
def test_after_a_lost_answer_the_flag_is_right(face, manager, line, name):
    targets, call = CallTargets(face, manager), CALLS[name]
    line.lose_answer(call.request)
    with pytest.raises(call.error) as caught:
        call.make(targets)
    assert line.lost == 1
    assert type(caught.value) is call.error
    assert caught.value.retryable is call.retryable
    if call.once:
        with pytest.raises(ABORTED) as caught:
            call.make(targets)
        assert caught.value.retryable
    elif call.retryable:
        call.make(targets)
    else:
        assert "look" in str(caught.value) or hasattr(caught.value, "transaction_id")


def test_a_call_that_reached_nobody_may_be_made_again(face, manager, line):
    targets = CallTargets(face, manager)
    line.refuse()
    line.cut()
    for call in CALLS.values():
        if call.request not in (message_frames.Commit, message_frames.Prepare):
            with pytest.raises((LOST, ABORTED)) as caught:
                call.make(targets)
            assert caught.value.retryable


@pytest.mark.parametrize("code", list(every_error()))
def test_each_error_is_retryable_only_for_a_reason(code):
    assert every_error()[code].retryable is (code in RETRYABLE)


def test_every_call_is_in_the_table():
    faces = {
        "Manager": dray.aio.Manager,
        "Queue": dray.aio.Queue,
        "Cursor": dray.aio.Cursor,
        "Transaction": dray.Transaction,
        "LargeMessageQueue": dray.aio.LargeMessageQueue,
    }
    offered = {
        f"{name}.{each}"
        for name, cls in faces.items()
        for each, value in vars(cls).items()
        if not each.startswith("_") and inspect.isfunction(value)
    }
    inner = {f"{name}.{each}" for name, cls in faces.items() for each in inner_calls(cls)}
    inner |= {"Queue.next_after", "Transaction.join"}
    assert offered - inner == {name for name in CALLS if " " not in name} | set(SILENT)
