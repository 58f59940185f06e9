"""Sub-queues, moves, whole transactions, two phases (semantics 1.4, 1.10; R2, R10)."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.change import names
from dray.manager.events import SessionClosed
from dray.model.message import Message
from dray.wire import frames, large_frames, message_frames, queue_frames, selections
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver


def text(*bodies: str) -> list[Message]:
    return [Message(body=body.encode()) for body in bodies]


def lookups(caller: Caller, queue: int) -> list[int]:
    return [each.lookup_id for each in caller.receive(queue, peek=True)[0]]


def bodies(caller: Caller, queue: int) -> list[bytes]:
    return caller.what_is_in(queue, peek=True)[1]


def test_a_message_moves_to_a_sub_queue_and_back_counting_its_moves(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", quota=200)
    caller.send(queue, *text("a", "b"))
    retry = caller.open("orders;retry")
    caller.call(message_frames.Move(queue, lookups(caller, queue)[0], retry, 0))
    assert (bodies(caller, queue), bodies(caller, retry)) == ([b"b"], [b"a"])
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, *text("c" * 20))
    driver.crash()
    caller = driver.session()
    queue, retry = caller.open("orders"), caller.open("orders;retry")
    caller.call(message_frames.Move(retry, lookups(caller, retry)[0], queue, 0))
    envelopes, found = caller.receive(queue)
    assert found == [b"b", b"a"]
    assert [each.move_count for each in envelopes] == [0, 2]


def test_sub_queues_are_bounded_like_queues_and_can_be_deleted(
    driver: ManagerDriver, monkeypatch
) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.open("orders;retry")
    monkeypatch.setattr(names, "QUEUES_MAX", len(look_into(driver.manager).state.queues))
    for name in ("orders;another", "dray://127.0.0.1:7340/far"):
        with pytest.raises(errors.Misuse, match="queues and sub-queues; delete one first"):
            caller.open(name)
    caller.call(queue_frames.DeleteQueue("orders;retry"))
    caller.send(queue, *text("a"))
    another = caller.open("orders;another")
    caller.call(message_frames.Move(queue, lookups(caller, queue)[0], another, 0))
    driver.crash()
    caller = driver.session()
    assert bodies(caller, caller.open("orders;another")) == [b"a"]
    with pytest.raises(errors.QueueNotFound):
        caller.call(queue_frames.DescribeQueue("orders;retry"))


def test_a_move_in_a_transaction_happens_at_commit_or_not_at_all(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *text("a"))
    retry = caller.open("orders;retry")
    for settle in (message_frames.Abort, lambda number: message_frames.Commit(number, 0)):
        transaction = caller.number_for()
        caller.call(message_frames.Move(queue, lookups(caller, queue)[0], retry, transaction))
        assert (bodies(caller, queue), bodies(caller, retry)) == ([], [])
        caller.call(settle(transaction))
        if settle is message_frames.Abort:
            assert (bodies(caller, queue), bodies(caller, retry)) == ([b"a"], [])
    assert (bodies(caller, queue), bodies(caller, retry)) == ([], [b"a"])


def test_a_message_moves_only_within_its_family_and_nobody_sends_to_a_sub_queue(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, *text("a"))
    with pytest.raises(errors.Misuse):
        caller.call(message_frames.Move(queue, lookups(caller, queue)[0], other, 0))
    with pytest.raises(errors.AccessDenied):
        caller.send(caller.open("orders;retry"), *text("b"))


def test_messages_move_to_any_queue_all_or_none(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, *text("a", "b"))
    first, second = lookups(caller, queue)
    with pytest.raises(errors.MessageNotFound):
        caller.call(
            message_frames.MoveMessages(queue, [first, second + 1], other, caller.number_for())
        )
    number = caller.number_for()
    moved = caller.call(message_frames.MoveMessages(queue, [second, first, first], other, number))
    assert isinstance(moved, frames.Done)
    assert moved.count == 2
    assert (bodies(caller, queue), bodies(caller, other)) == ([], [b"b", b"a"])
    driver.crash()
    caller = driver.session()
    assert bodies(caller, caller.open("other")) == [b"b", b"a"]


def test_messages_do_not_move_under_the_number_of_an_open_transaction(
    driver: ManagerDriver,
) -> None:
    """It would end an upload of that number, of which the open transaction is then left."""
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, *text("a"))
    number = caller.number_for()
    caller.call(large_frames.UploadBegin(queue, number, 0, b"here"))
    with pytest.raises(errors.InvalidArgument, match="number is that of no open transaction"):
        caller.call(message_frames.MoveMessages(queue, lookups(caller, queue), other, number))
    driver.turn(SessionClosed(caller.number))
    caller = driver.session()
    assert (len(look_into(driver.manager).state.uploads), bodies(caller, other)) == (1, [])


def test_only_kept_messages_are_dropped_and_none_moves_to_the_system(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, *text("a"))
    at = lookups(caller, queue)
    with pytest.raises(errors.Misuse, match="keeps no ended messages"):
        caller.call(message_frames.MoveMessages(queue, at, 0, caller.number_for()))
    system = caller.open("system$;deadxact")
    with pytest.raises(errors.AccessDenied):
        caller.call(message_frames.MoveMessages(queue, at, system, caller.number_for()))
    caller.receive(queue)
    journal = caller.open("orders;journal")
    dropping = message_frames.MoveMessages(
        journal, lookups(caller, journal), 0, caller.number_for()
    )
    caller.call(dropping)
    assert bodies(caller, journal) == []


def test_a_whole_transaction_is_received_once_its_last_message_is_there(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for group in (("a", "b", "c"), ("d",)):
        sending = caller.number_for()
        caller.send(queue, *text(*group), transaction=sending)
        caller.commit(sending, 1)
    transaction = caller.number_for()
    plain = caller.create("plain", transactional=False)
    for where, owner in ((queue, 0), (plain, transaction)):
        with pytest.raises(errors.TransactionUsage, match="in a transaction of your own"):
            caller.call(message_frames.ReceiveTransaction(where, owner, 0.0))
    whole, _ = caller.call_whole(message_frames.ReceiveTransaction(queue, transaction, 0.0))
    assert [each.ordinal for each in whole.envelopes] == [1, 2, 3]
    assert whole.missing == []
    caller.call(message_frames.Abort(transaction))
    caller.receive(queue, select=selections.SelectAt(lookups(caller, queue)[1]))
    transaction = caller.number_for()
    holed, _ = caller.call_whole(message_frames.ReceiveTransaction(queue, transaction, 0.0))
    assert [each.ordinal for each in holed.envelopes] == [1, 3]
    assert holed.missing == [2]
    caller.commit(transaction, 0)
    assert bodies(caller, queue) == [b"d"]


def test_a_prepared_transaction_survives_a_crash_and_is_settled_by_anyone(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(other, *text("taken", "left"))
    numbers = [caller.number_for(), caller.number_for()]
    ids = [f"{driver.manager_id}\\{number}" for number in numbers]
    for number, body in zip(numbers, ("committed", "aborted"), strict=True):
        caller.send(queue, *text(body), transaction=number)
        caller.receive(other, transaction=number, max_messages=1)
        caller.call(message_frames.Prepare(number, 1))
    driver.turn(SessionClosed(caller.number))
    for _ in range(2):
        driver.crash()
        caller = driver.session()
        assert caller.call(message_frames.ListPrepared()) == message_frames.PreparedList(ids)
        assert caller.call(message_frames.Outcome(ids[0])) == message_frames.OutcomeIs("prepared")
        queue, other = caller.open("orders"), caller.open("other")
        assert (bodies(caller, queue), bodies(caller, other)) == ([], [])
        driver.store.checkpoint(driver.manager.snapshot())
    caller.call(message_frames.SettlePrepared(ids[0], commit=True))
    caller.call(message_frames.SettlePrepared(ids[1], commit=False))
    caller.call(message_frames.SettlePrepared(ids[0], commit=True))
    with pytest.raises(errors.TransactionSequence):
        caller.call(message_frames.SettlePrepared(ids[0], commit=False))
    driver.crash()
    caller = driver.session()
    assert caller.call(message_frames.ListPrepared()) == message_frames.PreparedList([])
    queue, other = caller.open("orders"), caller.open("other")
    assert (bodies(caller, queue), bodies(caller, other)) == ([b"committed"], [b"left"])
    outcomes = [caller.call(message_frames.Outcome(each)).status for each in ids]
    assert outcomes == ["committed", "aborted"]
    caller.receive(queue)
    caller.receive(other)
    driver.store.sync()
    assert driver.store.live_bytes == 0


def test_a_doomed_transaction_cannot_be_prepared(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("small", quota=70)
    transaction = caller.number_for()
    caller.send(queue, *text("a"), transaction=transaction)
    with pytest.raises(errors.TransactionAborted):
        caller.call(message_frames.Prepare(transaction, 2))
    assert caller.call(message_frames.ListPrepared()) == message_frames.PreparedList([])
    caller.send(queue, *text("b"))


def test_a_receive_that_waits_ends_with_its_transaction_and_takes_nothing(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    transaction, other = caller.number_for(), caller.number_for()
    waiting = [
        caller.ask(message_frames.Receive(queue, number, None)) for number in (transaction, other)
    ]
    caller.call(message_frames.Abort(transaction))
    (refused,) = caller.answers(waiting[0])
    assert refused.head.error == errors.TransactionAborted.code
    caller.send(queue, *text("a"))
    (taken,) = caller.answers(waiting[1])
    assert isinstance(taken.head, message_frames.Messages)


def test_the_next_message_is_found_behind_what_another_holds(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *text("a", "b", "c"))
    caller.call(message_frames.Receive(queue, caller.number_for(), 0.0))

    def by(select: selections.Select) -> message_frames.Receive:
        return message_frames.Receive(queue, 0, 0.0, peek=True, select=select)

    assert caller.call_whole(by(selections.SelectNext(0)))[0].envelopes[0].lookup_id == 2
    with pytest.raises(errors.ReceiveTimeout):
        caller.call(by(selections.SelectRange(0)))


def test_a_rejected_message_counts_once_among_those_of_its_transaction(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.transactions.open_transaction.TRANSACTION_OPERATIONS_MAX", 2)
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *text("1", "2"))
    transaction = caller.number_for()
    for envelope in caller.receive(queue, transaction=transaction)[0]:
        caller.call(message_frames.Reject(queue, envelope.lookup_id, transaction))
    caller.commit(transaction, 0)
    assert bodies(caller, queue) == []


def test_a_message_that_a_transaction_moves_counts_once_among_those_of_it(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.transactions.open_transaction.TRANSACTION_OPERATIONS_MAX", 2)
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, *text("1", "2", "3"))
    retry = caller.open("orders;retry")
    for lookup_id in (1, 2):
        caller.call(message_frames.Move(queue, lookup_id, retry, transaction))
    with pytest.raises(errors.TransactionAborted, match="commit more often"):
        caller.call(message_frames.Move(queue, 3, retry, transaction))


def test_of_a_whole_transaction_as_many_messages_come_with_their_bodies_as_fit_a_frame(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, *text("1", "2", "3"), transaction=transaction)
    caller.commit(transaction, 1)
    size = caller.receive(queue, peek=True)[0][0].length
    for most, count in ((3 * size, 3), (3 * size - 1, 2), (2 * size, 2), (2 * size - 1, 1)):
        monkeypatch.setattr("dray.manager.requests.moving.FRAME_BODY_BYTES_MAX", most)
        taking = caller.number_for()
        head, body = caller.call_whole(message_frames.ReceiveTransaction(queue, taking, 0.0))
        assert (len(head.envelopes), len(body)) == (count, count * size)
        assert [each.lookup_id for each in (*head.envelopes, *head.left_out)] == [1, 2, 3]
        caller.call(message_frames.Abort(taking))
