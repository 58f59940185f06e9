"""Promises about cursors."""

from __future__ import annotations

import pytest

import dray


@pytest.fixture
def filled(queue):
    queue.send_many([b"%d" % number for number in range(4)])
    return queue


def test_a_cursor_goes_through_the_queue_and_removes_nothing(filled):
    with filled.cursor() as cursor:
        assert cursor.peek(0).body == cursor.peek(0).body == b"0"
        assert [cursor.next(0).body for _ in range(3)] == [b"1", b"2", b"3"]
        with pytest.raises(dray.ReceiveTimeout):
            cursor.next(0)
        assert cursor.peek(0).body == b"3"
    assert filled.info().message_count == 4


def test_a_cursor_takes_the_message_at_which_it_stands_and_goes_on(filled):
    cursor = filled.cursor()
    assert cursor.receive(0).body == b"0"
    assert cursor.next(0).body == b"1"
    assert cursor.next(0).body == b"2"
    assert cursor.receive(0).body == b"2"
    assert cursor.next(0).body == b"3"
    assert [message.body for message in filled.messages()] == [b"1", b"3"]


def test_what_the_cursor_has_received_cannot_be_looked_at_or_taken_again(filled):
    cursor = filled.cursor()
    cursor.receive(0)
    for act in (cursor.peek, cursor.receive):
        with pytest.raises(dray.IllegalCursorAction, match="next"):
            act(0)


def test_a_message_that_another_reader_has_taken_is_told(filled):
    cursor = filled.cursor()
    cursor.peek(0)
    filled.receive(0)
    for act in (cursor.peek, cursor.receive):
        with pytest.raises(dray.MessageAlreadyReceived):
            act(0)
    assert cursor.next(0).body == b"1"


def test_what_is_received_through_a_cursor_in_a_transaction_comes_back_by_its_abort(
    manager, filled
):
    cursor, transaction = filled.cursor(), manager.transaction()
    cursor.next(0)
    cursor.next(0)
    assert cursor.receive(transaction=transaction).body == b"1"
    transaction.abort()
    assert [message.body for message in filled.messages()] == [b"0", b"1", b"2", b"3"]


def test_a_cursor_passes_over_what_a_transaction_holds(manager, filled):
    cursor, transaction = filled.cursor(), manager.transaction()
    filled.receive_many(2, timeout=0, transaction=transaction)
    assert cursor.next(0).body == b"2"
    assert [message.body for message in filled.messages()] == [b"2", b"3"]
    transaction.abort()


def test_behind_the_last_message_a_cursor_waits_for_the_next(filled):
    cursor = filled.cursor()
    for _ in range(4):
        cursor.next(0)
    with pytest.raises(dray.ReceiveTimeout):
        cursor.next(0.02)
    filled.send(b"4")
    assert cursor.next(10).body == b"4"


def test_a_closed_cursor_does_nothing_more(filled):
    with filled.cursor() as cursor:
        cursor.next(0)
    for act in (cursor.peek, cursor.next, cursor.receive):
        with pytest.raises(dray.IllegalCursorAction, match="closed"):
            act(0)


def test_an_empty_queue_has_nothing_to_stand_at(queue):
    cursor = queue.cursor()
    for act in (cursor.peek, cursor.next, cursor.receive):
        with pytest.raises(dray.ReceiveTimeout):
            act(0)
