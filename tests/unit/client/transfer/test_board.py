"""What is told of a transfer, to whoever waits for it."""

from __future__ import annotations

import pytest

from dray.client.transfer.board import Board, settle
from dray.errors import TransferCancelled
from dray.model.transfer import TransferState, TransferStatus


def status(done: int, consumer_id: str = "", state: TransferState = TransferState.SENDING):
    return TransferStatus(state=state, consumer_id=consumer_id, bytes_done=done, bytes_total=10)


@pytest.fixture
def board():
    return Board(status(0))


def test_nobody_is_woken_by_what_is_no_news(board):
    news = board.news(0)
    board.post(status(0), [])
    assert not news.done()
    board.post(status(1), [])
    assert news.done()


def test_who_looks_late_is_not_kept_waiting(board):
    board.post(status(1), [])
    assert board.news(0).done()
    version, _ = board.since(0)
    assert not board.news(version).done()


def test_changes_of_consumers_are_told_in_their_order_and_else_the_whole(board):
    board.post(status(0), [status(1, "1"), status(2, "2")])
    version, found = board.since(0)
    assert [each.consumer_id for each in found] == ["1", "2"]
    board.post(status(3), [status(1, "1"), status(2, "2")])
    _, found = board.since(version)
    assert found == [status(3)]


def test_the_end_wakes_everybody_once_and_the_first_reason_stands(board):
    news, ending = board.news(99), board.ending()
    error = TransferCancelled("it was cancelled", transfer_id="t")
    board.end(error)
    board.end(None)
    assert news.done()
    assert ending.done()
    assert board.error is error
    assert board.ending().done()


def test_r116_who_listens_hears_each_change_with_the_error():
    heard = []
    board = Board(status(0), heard.append)
    board.post(status(4, state=TransferState.FAILED), [status(4, "1")])
    assert [each.consumer_id for each in heard] == ["1"]
    board.post(status(5, state=TransferState.FAILED), [status(4, "1")])
    assert heard[-1].state is TransferState.FAILED


def test_one_who_has_given_up_is_passed_over(board):
    given_up = board.news(0)
    assert given_up.cancel()
    board.post(status(1), [])
    settle(given_up)


def test_percent_of_an_empty_file_is_all_or_nothing():
    empty = TransferStatus(state=TransferState.SENDING)
    assert (empty.percent, status(5).percent) == (0.0, 50.0)
