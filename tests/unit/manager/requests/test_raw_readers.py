"""Readers of single messages among large ones: what they take is a hole, told once (S0-14)."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.events import Answer
from dray.wire import frames, large_frames, message_frames
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large


def sent_large(caller: Caller, queue: int, fragments: int) -> None:
    transaction = caller.number_for()
    send_large(caller, queue, fragments, transaction)
    caller.commit(transaction, 3)


def test_parts_taken_singly_and_committed_are_told_as_a_hole(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    sent_large(caller, queue, 3)
    caller.receive(queue, transaction=taking, max_messages=2, guarded=False)
    caller.commit(taking, 0)
    with pytest.raises(errors.LargeMessageHole) as told:
        take_large(caller, queue, caller.number_for())
    assert told.value.missing == ["header", [1, 1]]
    assert "lacks header, fragment 1;" in str(told.value)
    assert driver.store.live_bytes == 0


def test_a_part_taken_singly_is_rejected_alone(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    sent_large(caller, queue, 3)
    (envelope, _), _ = caller.receive(queue, transaction=taking, max_messages=2, guarded=False)
    rejected = message_frames.Reject(queue, envelope.lookup_id, taking)
    assert caller.call(rejected) == frames.Done(1)


def test_parts_taken_singly_and_put_back_make_no_hole(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    sent_large(caller, queue, 3)
    caller.receive(queue, transaction=taking, max_messages=2, guarded=False)
    with pytest.raises(errors.ReceiveTimeout):
        take_large(caller, queue, caller.number_for())
    caller.call(message_frames.Abort(taking))
    assert len(take_large(caller, queue, caller.number_for()).parts) == 3


def test_whoever_waits_is_told_when_the_raw_reader_commits(driver: ManagerDriver) -> None:
    raw, waiting = driver.session(), driver.session()
    queue, taking = raw.create("files"), raw.number_for()
    sent_large(raw, queue, 3)
    raw.receive(queue, transaction=taking, max_messages=1, guarded=False)
    request = waiting.ask(large_frames.LargeReceive(queue, waiting.number_for(), None))
    assert waiting.answers(request) == []
    raw.commit(taking, 0)
    (answer,) = waiting.answers(request)
    assert isinstance(answer, Answer)
    assert isinstance(answer.head, frames.Failed)
    assert answer.head.error == "large-message-hole"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("crashes", [0, 1, 2])
def test_parts_that_a_prepared_transaction_took_singly_are_held_until_it_is_settled(
    driver: ManagerDriver, crashes: int, *, commit: bool
) -> None:
    caller = driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    sent_large(caller, queue, 3)
    caller.receive(queue, transaction=taking, max_messages=2, guarded=False)
    caller.call(message_frames.Prepare(taking, 0))
    for _ in range(crashes):
        driver.crash()
        caller = driver.session()
    queue = caller.open("files")
    with pytest.raises(errors.ReceiveTimeout):
        take_large(caller, queue, caller.number_for())
    settled = f"{driver.manager_id}\\{taking}"
    caller.call(message_frames.SettlePrepared(settled, commit=commit))
    if commit:
        with pytest.raises(errors.LargeMessageHole) as told:
            take_large(caller, queue, caller.number_for())
        assert told.value.missing == ["header", [1, 1]]
    else:
        assert len(take_large(caller, queue, caller.number_for()).parts) == 3
