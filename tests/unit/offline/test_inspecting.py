"""`dray inspect`: log, heap file, queue and the story of one message, of a stopped manager."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from dray.errors import Misuse, QueueNotFound
from dray.model.message import Message
from dray.offline.backup import back_up_stopped
from dray.offline.inspecting import look_at_heap, look_at_log, look_at_queue
from dray.offline.restoring import restore
from dray.offline.story import tell_story
from dray.wire import queue_frames
from tests.unit.manager.conftest import LOG_BYTES, Caller, ManagerDriver


@pytest.fixture
def caller(driver: ManagerDriver) -> Caller:
    return driver.session()


def stop(driver: ManagerDriver) -> Path:
    driver.store.close()
    return driver.path


def message_id(driver: ManagerDriver, number: int) -> str:
    return f"{driver.manager_id}\\{number}"


def test_the_log_is_shown_group_by_group_in_words(driver: ManagerDriver, caller: Caller):
    queue = caller.create("orders")
    transaction = caller.number_for()
    caller.send(queue, Message(body=b"1"), Message(body=b"2"), transaction=transaction)
    caller.commit(transaction, 1)
    caller.send(queue, Message(body=b"3"))
    groups = look_at_log(stop(driver), 100)
    facts = [fact for group in groups for fact in group.facts]
    assert f"committed, transaction {transaction}: 2 messages joined 'orders'" in facts
    assert groups[0].mark == "opening"
    assert [group.mark for group in groups[-2:]] == ["copies", "seal"]
    assert [group.lsn for group in groups] == sorted(group.lsn for group in groups)


def test_only_the_last_groups_are_shown_if_so_wanted(driver: ManagerDriver, caller: Caller):
    caller.create("orders")
    path = stop(driver)
    assert look_at_log(path, 1) == look_at_log(path, 100)[-1:]


def test_a_heap_file_shows_what_lies_in_it_in_order(driver: ManagerDriver, caller: Caller):
    queue = caller.create("orders")
    numbers = caller.send(queue, *(Message(body=b"x" * 10) for _ in range(4)))
    caller.receive(queue, max_messages=1)
    seen = look_at_heap(stop(driver), "p0000001.mq")
    assert [each.message_id for each in seen] == [message_id(driver, n) for n in numbers[1:]]
    assert [each.offset for each in seen] == sorted(each.offset for each in seen)
    assert all(each.intact for each in seen)


def test_what_is_no_heap_file_or_queue_is_said_to_be_none(driver: ManagerDriver):
    path = stop(driver)
    with pytest.raises(Misuse, match="holds express messages"):
        look_at_heap(driver.path, "r0000001.mq")
    with pytest.raises(Misuse, match="is not a heap file"):
        look_at_heap(path, "QMLog")
    with pytest.raises(QueueNotFound):
        look_at_queue(path, "nowhere", 5)


def test_a_queue_shows_its_first_messages(driver: ManagerDriver, caller: Caller):
    queue = caller.create("orders")
    numbers = caller.send(queue, *(Message(body=b"%d" % n) for n in range(9)))
    seen = look_at_queue(stop(driver), "orders", 3)
    assert [each.lookup_id for each in seen] == [1, 2, 3]
    assert [each.message_id for each in seen] == [message_id(driver, n) for n in numbers[:3]]


def test_the_story_of_a_message_goes_from_its_commit_to_its_journal(
    driver: ManagerDriver, caller: Caller
):
    queue = caller.create("orders", journal=True)
    transaction, taking = caller.number_for(), caller.number_for()
    (number,) = caller.send(queue, Message(body=b"one"), transaction=transaction)
    caller.commit(transaction, 1)
    caller.receive(queue, transaction=taking)
    caller.commit(taking, 0)
    story = tell_story(stop(driver), message_id(driver, number))
    told = [each.what for each in story.happened]
    assert told[0].startswith(f"was committed by transaction {transaction}: joined 'orders'")
    assert told[-2] == f"left by transaction {taking}: 'orders', position 1"
    assert told[-1].startswith("was moved to 'orders;journal' at position 1")
    (now,) = story.now
    assert (now.queue, now.intact) == ("orders;journal", True)


def test_what_the_log_does_not_tell_begins_with_where_the_message_was(
    driver: ManagerDriver, caller: Caller
):
    (number,) = caller.send(caller.create("orders"), Message(body=b"one"))
    out = io.BytesIO()
    driver.store.close(driver.manager.snapshot())
    back_up_stopped(driver.path, out.write, lambda *_: None, now=driver.now, version="1")
    path = driver.path.parent / "restored"
    restore(io.BytesIO(out.getvalue()), path, now=driver.now + 10, log_bytes=LOG_BYTES)
    again = ManagerDriver(path)
    asks = again.session()
    asks.receive(asks.open("orders"))
    told = [each.what for each in tell_story(stop(again), message_id(driver, number)).happened]
    assert told[0] == "was in 'orders' at position 1"
    assert told[1].startswith("left by no transaction")


def test_a_message_that_was_received_is_in_no_queue_any_more(driver: ManagerDriver, caller: Caller):
    queue = caller.create("orders")
    (number,) = caller.send(queue, Message(body=b"one"))
    caller.receive(queue)
    story = tell_story(stop(driver), message_id(driver, number))
    assert [each.what.split(":")[0] for each in story.happened][-1] == "left by no transaction"
    assert story.now == []


def test_a_message_that_went_with_its_queue_says_so(driver: ManagerDriver, caller: Caller):
    (number,) = caller.send(caller.create("orders"), Message(body=b"one"))
    caller.call(queue_frames.DeleteQueue("orders"))
    story = tell_story(stop(driver), message_id(driver, number))
    assert any("orders" in each.what for each in story.happened)
    assert story.now == []


def test_of_a_message_that_never_was_nothing_is_told(driver: ManagerDriver):
    story = tell_story(stop(driver), message_id(driver, 999))
    assert (story.happened, story.now) == ([], [])
