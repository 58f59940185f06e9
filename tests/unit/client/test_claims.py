"""What a receive outside of transactions does when an answer is lost, frame by frame."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from dray.client.calls.messages import record_of
from dray.client.connections.claims import Claims, Doubt
from dray.client.connections.threads import run
from dray.errors import ConnectionLost, InDoubt, ProtocolError, ReceiveTimeout, TransactionAborted
from dray.model.message import Message
from dray.wire.frames import failure
from dray.wire.message_frames import Abort, Commit, Envelope, Messages, Outcome, OutcomeIs, Receive
from dray.wire.selections import SelectById, SelectFirst
from tests.unit.client.peer import MANAGER_ID, hang_up


def giving(*bodies, damaged=False):
    """Answers a receive with messages at the positions 1, 2 and so on."""

    def give(visit, frame):
        records = [
            record_of(Message(body=body), bytes.fromhex(MANAGER_ID), 700 + at)
            for at, body in enumerate(bodies)
        ]
        envelopes = [
            Envelope(at, record.size, record.crc + damaged, 1, 0, 0, 0)
            for at, record in enumerate(records, 1)
        ]
        body = b"".join(record.head + bytes(record.body) for record in records)
        visit.answer(frame, Messages(envelopes), body)

    return give


def telling(*statuses):
    """Answers the questions for an outcome, one after another."""
    left = list(statuses)
    return lambda visit, frame: visit.answer(frame, OutcomeIs(left.pop(0)))


def interrupt(visit, frame):
    os.kill(os.getpid(), signal.SIGINT)


def claim_ids(peer):
    return [f"{MANAGER_ID}\\{each.transaction}" for each in peer.of(Receive)]


def test_a_receive_claims_and_confirms_before_it_hands_over(peer, queue):
    peer.on[Receive] = giving(b"a")
    assert queue.receive(0).body == b"a"
    (receive,) = peer.of(Receive)
    assert receive.claim
    assert peer.of(Commit) == [Commit(receive.transaction, 0)]


def test_a_claim_without_an_answer_is_given_up_before_the_next_one(peer, queue):
    peer.on[Receive] = hang_up
    with pytest.raises(ConnectionLost) as caught:
        queue.receive(0)
    assert caught.value.retryable
    peer.on[Receive] = giving(b"a")
    peer.on[Outcome] = telling("aborted")
    assert queue.receive(0).body == b"a"
    assert peer.of(Outcome) == [Outcome(claim_ids(peer)[0], claim=True)]


def test_a_commit_without_an_answer_is_asked_for_and_handed_over(peer, queue):
    peer.on[Receive] = giving(b"a")
    peer.on[Commit] = hang_up
    peer.on[Outcome] = telling("committed")
    assert queue.receive(0).body == b"a"
    assert peer.of(Outcome) == [Outcome(claim_ids(peer)[0], claim=True)]


def test_what_nobody_can_say_is_kept_and_asked_for_again(peer, queue):
    peer.on[Receive] = giving(b"a", b"b")
    peer.on[Commit] = peer.on[Outcome] = hang_up
    with pytest.raises(ConnectionLost, match=r"message .* and 1 more was taken") as caught:
        queue.receive_many(2, timeout=0)
    assert caught.value.retryable
    assert caught.value.fields["transaction_id"] == claim_ids(peer)[0]
    with pytest.raises(ConnectionLost):
        queue.receive(0)
    peer.on[Outcome] = telling("committed")
    assert [queue.receive(0).body, queue.receive(0).body] == [b"a", b"b"]
    assert len(peer.of(Receive)) == 1


def test_what_was_not_taken_after_all_is_not_handed_over(peer, queue):
    peer.on[Receive] = giving(b"a")
    peer.on[Commit] = peer.on[Outcome] = hang_up
    with pytest.raises(ConnectionLost):
        queue.receive(0)
    peer.on[Receive] = lambda visit, frame: visit.answer(frame, failure(ReceiveTimeout("none")))
    peer.on[Outcome] = telling("aborted")
    with pytest.raises(ReceiveTimeout):
        queue.receive(0)


def test_what_was_forgotten_is_in_doubt_by_its_name(peer, queue):
    peer.on[Receive] = giving(b"a")
    peer.on[Commit] = hang_up
    peer.on[Outcome] = telling("unknown")
    with pytest.raises(InDoubt, match="look for it") as caught:
        queue.receive(0)
    assert caught.value.transaction_id == claim_ids(peer)[0]


def test_only_a_receive_that_asked_for_it_is_handed_what_was_kept(peer, queue):
    peer.on[Receive] = giving(b"a", b"b")
    peer.on[Commit] = peer.on[Outcome] = hang_up
    with pytest.raises(ConnectionLost):
        queue.receive_many(2, timeout=0)
    peer.on[Outcome] = telling("committed")
    peer.on[Receive] = lambda visit, frame: visit.answer(frame, failure(ReceiveTimeout("none")))
    with pytest.raises(ReceiveTimeout):
        queue.receive_by_lookup_id(3, 1)
    with pytest.raises(ReceiveTimeout):
        queue.receive_by_correlation_id("none", 1)
    assert queue.receive_by_lookup_id(2).body == b"b"
    assert queue.receive_by_id(f"{MANAGER_ID}\\700").body == b"a"


def test_a_claim_that_was_damaged_on_the_way_is_given_back(peer, queue):
    peer.on[Receive] = giving(b"a", damaged=True)
    with pytest.raises(ProtocolError, match="damaged"):
        queue.receive(0)
    assert len(peer.of(Abort)) == 1
    assert peer.of(Commit) == []


def test_a_claim_that_was_refused_says_why(peer, queue):
    peer.on[Receive] = giving(b"a")
    peer.on[Commit] = lambda visit, frame: visit.answer(
        frame, failure(TransactionAborted("the queue was deleted", transaction_id="x"))
    )
    with pytest.raises(TransactionAborted, match="deleted"):
        queue.receive(0)
    assert peer.of(Outcome) == []


def test_an_interrupt_while_the_commit_is_under_way_loses_nothing(peer, queue):
    peer.on[Receive] = giving(b"a")
    peer.on[Commit] = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.receive(0)
    peer.on[Outcome] = telling("committed")
    assert queue.receive(0).body == b"a"
    assert len(peer.of(Receive)) == 1


def test_two_threads_do_not_take_the_same_kept_message():
    class Committed:
        async def ask(self, *_):
            return OutcomeIs("committed")

    claims, message, other = Claims(), Message(b"a", id=f"{MANAGER_ID}\\1"), []
    claims.keep(Doubt(f"{MANAGER_ID}\\2", "orders", [message]))
    run(claims.settle(Committed()))
    thread = threading.Thread(
        target=lambda: other.extend(claims.taken("orders", SelectFirst(), 1)), daemon=True
    )

    class Meanwhile(str):
        """Another thread takes messages while this one looks for an id."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, text):
            thread.start()
            thread.join(0.05)
            return str.__eq__(self, text)

    taken = claims.taken("orders", SelectById(Meanwhile(message.id)), 1)
    thread.join()
    assert [*taken, *other] == [message]
