"""An answer that is lost: nothing is done twice by following what the error says, nothing is lost.

Each call goes through a line that lets the request pass and loses the answer, or the request.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

import dray
from dray.wire.message_frames import Commit, Receive, Send
from tests.contract.conftest import DOORS

PIECE = bytes(3 << 20)
KINDS = pytest.mark.parametrize(
    "kind",
    [
        ({"transactional": True}, {}),
        ({"transactional": False}, {}),
        ({"transactional": True}, {"recoverable": False}),
        ({"transactional": False}, {"recoverable": False}),
    ],
    ids=["transactional", "not-transactional", "express-to-transactional", "express"],
)
BOTH = pytest.mark.parametrize("transactional", [True, False], ids=["transactional", "not"])


@pytest.fixture(params=DOORS)
def manager(face, request, tmp_path):
    """A handle of its own, whose connection is a test's to break."""
    if request.param == "embedded":
        with face.open(tmp_path / "data") as opened:
            yield opened
        return
    with face.connect(request.getfixturevalue("addresses")[request.param]) as connected:
        yield connected


@KINDS
def test_a_send_whose_answer_was_lost_is_in_doubt_and_its_outcome_is_committed(
    manager, make_queue, line, kind
):
    options, properties = kind
    queue = make_queue(**options)
    queue.send(b"before", **properties)
    line.lose_answer(Send)
    with pytest.raises(dray.InDoubt) as caught:
        queue.send(b"once", **properties)
    assert not caught.value.retryable
    assert (caught.value.sent, caught.value.count) == (0, 1)
    assert manager.outcome(caught.value.transaction_id) is dray.TransactionStatus.COMMITTED
    assert [each.body for each in queue.messages()] == [b"before", b"once"]


@KINDS
def test_a_send_that_was_lost_itself_is_in_doubt_and_its_outcome_is_aborted(
    manager, make_queue, line, kind
):
    options, properties = kind
    queue = make_queue(**options)
    line.lose_request(Send)
    with pytest.raises(dray.InDoubt) as caught:
        queue.send(b"never", **properties)
    assert manager.outcome(caught.value.transaction_id) is dray.TransactionStatus.ABORTED
    queue.send(b"once", **properties)
    assert [each.body for each in queue.messages()] == [b"once"]


@BOTH
def test_many_messages_in_one_frame_are_in_doubt_together(manager, make_queue, line, transactional):
    queue = make_queue(transactional=transactional)
    line.lose_answer(Send)
    with pytest.raises(dray.InDoubt) as caught:
        queue.send_many([b"a", b"b", b"c"])
    assert (caught.value.sent, caught.value.count) == (0, 3)
    assert manager.outcome(caught.value.transaction_id) is dray.TransactionStatus.COMMITTED
    assert queue.info().message_count == 3


def test_many_messages_in_several_frames_are_one_transaction_in_doubt(manager, queue, line):
    line.lose_answer(Commit)
    with pytest.raises(dray.InDoubt) as caught:
        queue.send_many([PIECE, PIECE])
    assert not caught.value.retryable
    assert manager.outcome(caught.value.transaction_id) is dray.TransactionStatus.COMMITTED
    assert queue.info().message_count == 2


def test_a_send_piece_by_piece_says_what_was_sent_before_the_piece_in_doubt(
    manager, make_queue, line
):
    queue = make_queue(transactional=False)
    line.lose_answer(Send, after=1)
    with pytest.raises(dray.InDoubt) as caught:
        queue.send_many([PIECE, PIECE, PIECE])
    assert (caught.value.sent, caught.value.count) == (1, 1)
    assert manager.outcome(caught.value.transaction_id) is dray.TransactionStatus.COMMITTED
    assert queue.info().message_count == 2


def test_a_send_piece_by_piece_that_is_refused_later_is_not_retryable(make_queue):
    queue = make_queue(transactional=False, quota=4 << 20)
    with pytest.raises(dray.QuotaExceeded) as caught:
        queue.send_many([PIECE, PIECE])
    assert (caught.value.sent, caught.value.retryable) == (1, False)
    assert queue.info().message_count == 1
    with pytest.raises(dray.QuotaExceeded) as caught:
        queue.send(PIECE)
    assert caught.value.retryable


def test_a_large_message_whose_commit_was_lost_is_in_doubt(manager, line, large):
    line.lose_answer(Commit)
    with pytest.raises(dray.InDoubt) as caught:
        large.send([bytes(5000)])
    assert manager.outcome(caught.value.transaction_id) is dray.TransactionStatus.COMMITTED
    with large.receive(0) as message:
        assert message.size == 5000


def test_the_outcome_of_a_send_is_remembered_like_that_of_a_transaction(manager, make_queue):
    queue = make_queue(transactional=False)
    for body in (b"one", b"two"):
        id = queue.send(body)
        assert manager.outcome(id) is dray.TransactionStatus.COMMITTED


def test_what_was_not_sent_at_all_may_be_repeated(manager, queue, line):
    line.refusing = True
    line.cut()
    with pytest.raises(dray.ConnectionLost) as caught:
        queue.send(b"not yet")
    assert caught.value.retryable
    line.refusing = False
    queue.send(b"now")
    assert queue.info().message_count == 1


class Take:
    """A call that takes the first message of a queue; made again, it is the same call."""

    def __init__(self, queue, how):
        self.queue, self._how = queue, how
        self._first, self._cursor = queue.peek(0), queue.cursor()
        self._cursor.next(0)

    def __call__(self):
        queue, first, cursor = self.queue, self._first, self._cursor
        match self._how:
            case "receive":
                found = queue.receive(5)
            case "receive_many":
                (found,) = queue.receive_many(1, timeout=5)
            case "receive_by_id":
                found = queue.receive_by_id(first.id)
            case "receive_by_correlation_id":
                found = queue.receive_by_correlation_id("one")
            case "receive_by_lookup_id":
                found = queue.receive_by_lookup_id(first.lookup_id)
            case "cursor":
                found = cursor.receive(5)
        return found.body


TAKES = (
    "receive",
    "receive_many",
    "receive_by_id",
    "receive_by_correlation_id",
    "receive_by_lookup_id",
    "cursor",
)
"""Every call that takes a message outside of transactions."""


@pytest.fixture(params=["transactional", "not-transactional", "express"])
def takes(request, make_queue):
    """Each such call, at a queue of its own in which three messages are."""

    def each():
        express = {"recoverable": False} if request.param == "express" else {}
        for how in TAKES:
            queue = make_queue(transactional=request.param == "transactional")
            three(queue, **express)
            yield Take(queue, how)

    return each()


def three(queue, **properties):
    """Three messages, of which the first is picked by every call."""
    for each in (b"1", b"2", b"3"):
        queue.send(each, correlation_id="one" if each == b"1" else "more", **properties)


def rest(queue):
    found = []
    while True:
        try:
            found.append(queue.receive(0).body)
        except dray.ReceiveTimeout:
            return found


def test_a_receive_whose_answer_was_lost_gives_the_message_back(takes, line):
    for take in takes:
        line.lose_answer(Receive)
        with pytest.raises(dray.ConnectionLost) as caught:
            take()
        assert caught.value.retryable
        assert take() == b"1"
        assert rest(take.queue) == [b"2", b"3"]


def test_a_receive_whose_commit_was_lost_hands_the_message_over_all_the_same(takes, line):
    for count, take in enumerate(takes, 1):
        line.lose_answer(Commit)
        assert take() == b"1"
        assert line.lost == count
        assert rest(take.queue) == [b"2", b"3"]


def test_a_receive_whose_commit_was_lost_on_its_way_leaves_the_message(takes, line):
    for take in takes:
        line.lose_request(Commit)
        with pytest.raises(dray.ConnectionLost) as caught:
            take()
        assert caught.value.retryable
        assert take() == b"1"
        assert rest(take.queue) == [b"2", b"3"]


def test_a_receive_that_cannot_ask_hands_the_message_over_at_the_next_call(takes, line):
    line.then = line.refuse
    for take in takes:
        line.lose_answer(Commit)
        with pytest.raises(dray.ConnectionLost) as caught:
            take()
        assert caught.value.retryable
        with pytest.raises(dray.ConnectionLost):
            take()
        line.refusing = False
        assert take() == b"1"
        assert rest(take.queue) == [b"2", b"3"]


def test_what_was_taken_and_not_handed_over_is_not_given_to_another_receiver(make_queue, line):
    queue = make_queue()
    queue.send_many([b"1", b"2", b"3"])
    line.then = line.refuse
    line.lose_answer(Commit)
    with pytest.raises(dray.ConnectionLost):
        queue.receive_many(2, timeout=5)
    line.refusing = False
    assert [each.body for each in queue.messages()] == [b"3"]
    assert queue.receive(5).body == b"1"
    assert [each.body for each in queue.receive_many(5, timeout=5)] == [b"2"]
    assert rest(queue) == [b"3"]


def test_a_whole_transaction_whose_commit_was_lost_is_handed_over(manager, make_queue, line):
    queue = make_queue()
    for bodies in ([b"1", b"2"], [b"3"], [b"4"]):
        with manager.transaction() as transaction:
            queue.send_many(bodies, transaction=transaction)
    line.lose_answer(Commit)
    assert [each.body for each in queue.receive_transaction(5).messages] == [b"1", b"2"]
    line.then = line.refuse
    line.lose_answer(Commit)
    with pytest.raises(dray.ConnectionLost) as caught:
        queue.receive_transaction(5)
    assert caught.value.retryable
    line.refusing = False
    found = again(lambda: queue.receive_transaction(5))
    assert [each.body for each in found.messages] == [b"3"]
    assert [each.body for each in queue.receive_transaction(5).messages] == [b"4"]


def again(call):
    """Make a call until the queue manager has noticed that the old connection is gone."""
    while True:
        with suppress(dray.ConnectionLost):
            return call()


def test_a_claim_that_goes_back_counts_as_no_try(manager, make_queue, line):
    queue = make_queue()
    queue.send(b"1")
    line.lose_answer(Receive)
    with pytest.raises(dray.ConnectionLost):
        queue.receive(5)
    assert queue.receive(5).abort_count == 0
