"""The front of a manager: which events and frames it takes, and when it wants to be called."""

from __future__ import annotations

import pytest

from dray.errors import LargeMessageHole, StorePoisoned
from dray.manager.change.quarantine import QUARANTINE_NAME
from dray.manager.events import CloseSession, Request, SessionClosed, SessionOpened
from dray.model.callers import OWNER
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.wire import frames, message_frames, queue_frames
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.change.test_quarantine import damage
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large


def asked(driver, session, head, *, body=b""):
    """What a frame is answered, and whether its session is closed."""
    driver.effects.clear()
    driver.turn(Request(session, Frame(head, 1, memoryview(bytearray(body)))))
    answers = [each.head for each in driver.effects if not isinstance(each, CloseSession)]
    return answers, CloseSession(session) in driver.effects


def test_a_conversation_that_does_not_begin_with_hello_is_ended(driver):
    driver.turn(SessionOpened(900, OWNER))
    ((failed,), closed) = asked(driver, 900, queue_frames.ListQueues())
    assert closed
    assert failed.error == "protocol-error"
    assert failed.sentence == "the conversation began with ListQueues, not with Hello"


def test_a_request_that_does_not_fit_is_refused_and_the_session_goes_on(driver):
    caller = driver.session()
    unfit = frames.Unfit("invalid-argument", "name of OpenQueue is no text", {"argument": "name"})
    ((failed,), closed) = asked(driver, caller.number, unfit)
    assert not closed
    assert (failed.error, failed.sentence) == ("invalid-argument", "name of OpenQueue is no text")
    assert failed.fields["argument"] == "name"
    assert caller.create("orders")


def test_a_body_where_none_belongs_ends_the_session(driver):
    caller = driver.session()
    ((failed,), closed) = asked(driver, caller.number, queue_frames.ListQueues(), body=b"x")
    assert closed
    assert failed.sentence == "a client may not send ListQueues here"


def test_a_frame_of_a_session_that_is_gone_says_nothing_and_does_nothing(driver):
    caller = driver.session()
    driver.turn(SessionClosed(caller.number))
    driver.turn(SessionClosed(caller.number))
    assert asked(driver, caller.number, queue_frames.CreateQueue("orders", QueueOptions())) == (
        [],
        False,
    )
    assert look_into(driver.manager).state.queues.find("orders") is None


def test_a_poisoned_store_ends_the_turn_and_answers_nobody(driver, monkeypatch):
    caller = driver.session()
    caller.create("orders")

    def poisoned(*_):
        raise StorePoisoned("the disk is gone")

    monkeypatch.setattr(look_into(driver.manager).state.queues, "named", poisoned)
    with pytest.raises(StorePoisoned):
        asked(driver, caller.number, queue_frames.DescribeQueue("orders"))
    assert not driver.effects


@pytest.mark.parametrize("quota", [None, 500])
def test_the_quota_of_the_computer_is_that_of_the_start_until_somebody_sets_it(tmp_path, quota):
    driver = ManagerDriver(tmp_path / "data", quota=700)
    if quota is not None:
        driver.session().call(queue_frames.SetQuota("", quota, None))
    driver.options["quota"] = 900
    driver.crash()
    caller = driver.session()
    described = caller.call(queue_frames.Describe())
    assert described.info.quota == (quota or 900)


def test_what_transactions_hold_and_have_sent_is_listed_by_queue(driver):
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("others")
    aside = caller.open("orders;aside")
    caller.send(queue, *[Message(body=b"%d" % each) for each in range(4)])
    caller.send(other, Message(body=b"x"))
    number = caller.number_for()
    caller.receive(queue, transaction=number, max_messages=2)
    caller.receive(other, transaction=number)
    caller.call(message_frames.Move(queue, 4, aside, number))
    caller.send(other, Message(body=b"y"), Message(body=b"z"), transaction=number)
    driver.advance(5.0)
    (found,) = caller.call(message_frames.ListPrepared()).open
    assert found.held == {"orders": 3, "others": 1}
    assert (found.sent, found.idle) == (2, 5.0)
    assert found.id == f"{driver.manager_id}\\{number}"


def test_a_damaged_part_that_a_start_finds_is_in_nobodys_way(driver):
    caller = driver.session()
    queue = caller.create("files")
    for _ in range(2):
        transaction = caller.number_for()
        send_large(caller, queue, 2, transaction)
        caller.commit(transaction, 3)
    _, second = look_into(driver.manager).state.queues.named("files").parts
    damage(driver, "files", 0)
    driver.leave_unchecked()
    driver.crash()
    caller = driver.session()
    files = caller.open("files")
    assert len(look_into(driver.manager).state.queues.named(QUARANTINE_NAME).index) == 1
    with pytest.raises(LargeMessageHole, match="lacks header"):
        take_large(caller, files, caller.number_for())
    found = take_large(caller, files, caller.number_for())
    assert found.sequence == second.key.sequence


def test_an_event_that_no_shell_has_is_a_mistake_and_not_passed_over(driver):
    with pytest.raises(AssertionError):
        driver.manager.handle(object(), driver.now)
