"""Of each request: whether a repeat is safe when its answer was lost."""

from __future__ import annotations

import pytest

from dray.client.connections.lost_answers import answer_lost, send_in_doubt, sent_in_part
from dray.errors import ConnectionLost, QuotaExceeded
from dray.model.queue import QueueOptions
from dray.wire import large_frames, message_frames, queue_frames
from dray.wire.head import Head

LOST = ConnectionLost("the line broke")
SAFE: list[Head] = [
    queue_frames.OpenQueue("orders"),
    queue_frames.Describe(),
    queue_frames.ListQueues(),
    message_frames.Outcome("x"),
    message_frames.SettlePrepared("x", commit=True),
    queue_frames.CreateQueue("orders", QueueOptions(transactional=True), exist_ok=True),
    queue_frames.PauseQueue("orders", paused=True),
    queue_frames.SetQuota("orders", 1, 1),
    message_frames.Settle(1, 7, 0),
    message_frames.Receive(1, 0, 0.0, peek=True),
    message_frames.Receive(1, 7, 0.0),
    message_frames.Move(1, 7, 2, 9),
    message_frames.Send(1, 9, [], []),
    message_frames.Reject(1, 7, 9),
]
DONE_ONCE: list[Head] = [
    queue_frames.CreateQueue("orders", QueueOptions(transactional=True)),
    queue_frames.DeleteQueue("orders"),
    queue_frames.PurgeQueue(1),
    message_frames.Receive(1, 0, 0.0),
    message_frames.Move(1, 7, 2, 0),
    message_frames.Send(1, 0, [], []),
    large_frames.UploadDrop("x"),
]


@pytest.mark.parametrize("head", SAFE, ids=lambda head: type(head).__name__)
def test_what_asks_or_changes_nothing_the_second_time_may_be_repeated(head: Head) -> None:
    assert answer_lost(head, LOST) is LOST
    assert LOST.retryable


@pytest.mark.parametrize("head", DONE_ONCE, ids=lambda head: type(head).__name__)
def test_what_does_something_each_time_is_not_retryable_and_says_what_to_look_for(
    head: Head,
) -> None:
    told = answer_lost(head, LOST)
    assert type(told) is ConnectionLost
    assert not told.retryable
    assert str(told).startswith("the line broke; it is not known whether ")


def test_a_send_in_doubt_names_what_settles_it() -> None:
    doubt = send_in_doubt("m\\7", 3, LOST)
    assert (doubt.transaction_id, doubt.sent, doubt.count) == ("m\\7", 0, 3)
    assert "Manager.outcome()" in str(doubt)


def test_an_error_after_a_part_was_sent_says_how_much_and_is_not_retryable() -> None:
    full = QuotaExceeded("full", quota="queue", limit=1, used=1, requested=1)
    assert full.retryable
    for sent, words in ((1, "1 message before it was sent"), (2, "2 messages before it were sent")):
        told = sent_in_part(full, sent)
        assert isinstance(told, QuotaExceeded)
        assert (told.quota, told.fields["sent"], told.retryable) == ("queue", sent, False)
        assert words in str(told)
