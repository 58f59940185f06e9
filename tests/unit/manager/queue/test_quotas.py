"""Quotas: whose, how much, who is told (S3-1 to S3-7, R60 to R69)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.events import SessionClosed
from dray.manager.queue.accounts import Account
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.change.test_departures import asking, dead
from tests.unit.manager.conftest import Caller, ManagerDriver


def message(size: int) -> Message:
    """A message whose record, with its 64 bytes of header, has `size` bytes."""
    return Message(body=bytes(size - 64))


def used(caller: Caller) -> tuple[int, int]:
    info = caller.call(queue_frames.Describe()).info
    return info.bytes_used, info.journal_bytes_used


def test_a_queue_quota_is_exact_to_the_byte_and_frees_with_a_receive(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("small", quota=1000)
    caller.send(queue, message(900))
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queue, message(101))
    error = raised.value
    assert (error.quota, error.limit, error.used, error.requested) == ("queue", 1000, 900, 101)
    caller.send(queue, message(100))
    caller.receive(queue, max_messages=1)
    caller.send(queue, message(900))


def test_the_computer_quota_is_enforced_first(tmp_path: Path) -> None:
    """S3-7 in small: six queues of 10, a computer of 50."""
    caller = ManagerDriver(tmp_path, quota=5000).session()
    queues = [caller.create(f"q{n}", quota=1000) for n in range(6)]
    for queue in queues[:5]:
        caller.send(queue, message(1000))
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queues[5], message(65))
    assert raised.value.quota == "computer"
    caller.receive(queues[0])
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queues[5], message(1001))
    assert raised.value.quota == "computer"
    caller.send(queues[5], message(1000))


def test_use_is_recomputed_exactly_after_a_crash(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    outgoing = caller.open("dray://127.0.0.1:1/elsewhere")
    caller.send(queue, message(500), message(300), message(200))
    caller.send(outgoing, message(700))
    caller.receive(queue, max_messages=1)
    before = used(caller)
    assert before == (1700, 0)
    driver.crash()
    assert used(driver.session()) == before
    driver.store.checkpoint(driver.manager.snapshot())
    driver.crash()
    assert used(driver.session()) == before


def test_staged_bytes_count_until_the_transaction_ends(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("small", quota=1000)
    transaction = caller.number_for()
    caller.send(queue, message(900), transaction=transaction)
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, message(200))
    caller.call(message_frames.Abort(transaction))
    caller.send(queue, message(1000))


@pytest.mark.parametrize("end", ["abort", "commit", "the connection is lost"])
def test_what_was_staged_for_a_queue_that_was_deleted_is_given_back(
    driver: ManagerDriver, end: str
) -> None:
    caller, other = driver.session(), driver.session()
    other.call(queue_frames.SetQuota("", 1000, None))
    queue, remaining = caller.create("going"), other.create("remaining")
    transaction = caller.number_for()
    caller.call(message_frames.Reserve(queue, transaction, 600))
    caller.send(queue, message(400), transaction=transaction)
    caller.send(queue, message(300), transaction=transaction)
    other.call(queue_frames.DeleteQueue("going"))
    with pytest.raises(errors.QuotaExceeded):
        other.send(remaining, message(400))
    match end:
        case "abort":
            caller.call(message_frames.Abort(transaction))
        case "commit":
            with pytest.raises(errors.TransactionAborted):
                caller.commit(transaction, 2)
        case _:
            driver.turn(SessionClosed(caller.number))
    other.send(remaining, message(1000))
    assert look_into(driver.manager).ledger.staged == dict.fromkeys(Account, 0)


def test_a_reservation_holds_room_and_gives_back_what_was_not_used(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("small", quota=1000)
    transaction = caller.number_for()
    caller.call(message_frames.Reserve(queue, transaction, 900))
    with pytest.raises(errors.QuotaExceeded):
        other.send(queue, message(200))
    caller.send(queue, message(500), transaction=transaction)
    with pytest.raises(errors.QuotaExceeded):
        caller.call(message_frames.Reserve(queue, caller.number_for(), 101))
    caller.send(queue, message(400), transaction=transaction)
    caller.commit(transaction, 2)
    other.send(queue, message(100))
    assert used(caller) == (1000, 0)
    unused = caller.number_for()
    with pytest.raises(errors.QuotaExceeded):
        caller.call(message_frames.Reserve(queue, unused, 1))


def test_a_lowered_quota_keeps_messages_and_refuses_arrivals(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, message(500), message(500))
    caller.call(queue_frames.SetQuota("orders", 600, None))
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, message(100))
    driver.crash()
    caller = driver.session()
    queue = caller.open("orders")
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, message(100))
    assert len(caller.receive(queue)[1]) == 2
    caller.send(queue, message(600))


def test_the_managers_quotas_are_set_while_it_runs_and_stay_set(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.call(queue_frames.SetQuota("", 700, 100))
    driver.crash()
    caller = driver.session()
    info = caller.call(queue_frames.Describe()).info
    assert (info.quota, info.journal_quota) == (700, 100)
    with pytest.raises(errors.QuotaExceeded):
        caller.send(caller.create("orders"), message(701))


def test_a_disk_below_the_low_water_mark_refuses_new_messages(tmp_path: Path) -> None:
    driver = ManagerDriver(tmp_path, low_water_bytes=1 << 62)
    caller = driver.session()
    queue = caller.create("orders")
    with pytest.raises(errors.StoreFull):
        caller.send(queue, message(100))
    with pytest.raises(errors.StoreFull):
        caller.call(message_frames.Reserve(queue, caller.number_for(), 1))


def test_a_queue_with_a_quota_of_nothing_refuses_everything_and_names_that_quota(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("closed", quota=0)
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queue, message(64))
    assert (raised.value.limit, raised.value.used) == (0, 0)


def test_a_refused_message_is_a_dead_letter_of_no_transaction(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("small", quota=70)
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, Message(body=bytes(100), use_dead_letter_queue=True))
    ((envelope,), _) = caller.what_is_in("system$;deadxact", peek=True)
    assert (envelope.transaction, envelope.message_class) == (0, MessageClass.NACK_Q_EXCEED_QUOTA)


def test_a_refused_message_that_finds_no_room_on_the_disk_is_counted(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    caller.create("acks")
    queue = caller.create("small", quota=70)
    monkeypatch.setattr(driver.disk, "free_bytes", lambda: 0)
    driver.advance(60.0)
    asked = asking(bytes(100), Acknowledge.FULL_REACH_QUEUE, use_dead_letter_queue=True)
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, asked)
    assert dead(caller) == []
    info = caller.call(queue_frames.DescribeQueue("system$;deadxact")).info
    assert info.copies_skipped == 1


@pytest.mark.parametrize("recoverable", [True, False])
def test_the_acknowledgment_of_a_refused_message_lasts_as_long_as_the_message_would(
    driver: ManagerDriver, recoverable: bool
) -> None:
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue = caller.create("small", quota=70, transactional=False)
    asked = asking(bytes(100), Acknowledge.FULL_REACH_QUEUE, recoverable=recoverable)
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, asked)
    assert len(caller.what_is_in("acks", peek=True)[1]) == 1
    driver.crash()
    assert len(driver.session().what_is_in("acks", peek=True)[1]) == recoverable
