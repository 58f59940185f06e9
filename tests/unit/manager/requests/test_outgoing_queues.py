"""Outgoing queues that callers open: how many one caller may cause, and when they go again."""

from __future__ import annotations

import pytest

from dray.errors import Misuse
from dray.manager.events import SessionClosed
from dray.model.limits import UNUSED_OUTGOING_MAX
from dray.model.message import Message
from dray.wire import large_frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, Pair
from tests.unit.manager.rights.test_table import ADA, BOB, allowing, driver_with


def outgoing(driver: ManagerDriver) -> list[str]:
    return [each.name for each in look_into(driver.manager).state.queues.outgoing()]


def address(number: int) -> str:
    return f"dray://host{number}:7340/orders"


def leave(caller: Caller) -> None:
    caller.driver.turn(SessionClosed(caller.number))


def test_a_caller_that_opens_thousands_of_destinations_is_refused(driver: ManagerDriver):
    first, second = driver.session(), driver.session()
    for number in range(UNUSED_OUTGOING_MAX):
        (first, second)[number % 2].open(address(number))
    with pytest.raises(Misuse, match="sent nothing to them"):
        second.open(address(UNUSED_OUTGOING_MAX))
    second.open(address(0))
    first.send(first.open(address(0)), Message(body=b"x"))
    second.open(address(UNUSED_OUTGOING_MAX))
    assert len(outgoing(driver)) == UNUSED_OUTGOING_MAX + 1


def test_an_unused_outgoing_queue_goes_with_the_last_that_opened_it(
    driver: ManagerDriver,
):
    first, second = driver.session(), driver.session()
    for caller in (first, second):
        caller.open(address(1))
    leave(first)
    assert outgoing(driver) == [address(1)]
    leave(second)
    assert outgoing(driver) == []
    assert not len(look_into(driver.manager).state.stream_ends)


def test_an_outgoing_queue_that_carried_something_or_is_paused_stays(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.open(address(1)), Message(body=b"x"))
    caller.open(address(2))
    caller.call(queue_frames.PauseQueue(address(2), paused=True))
    caller.open(address(3))
    leave(caller)
    assert outgoing(driver) == [address(1), address(2)]
    driver.crash()
    driver.advance(1.0)
    assert outgoing(driver) == [address(1), address(2)]


def test_an_outgoing_queue_whose_only_message_was_delivered_stays(tmp_path):
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"x"))
    pair.deliver()
    leave(caller)
    assert outgoing(pair.source) == [ADDRESS]


def test_a_start_forgets_outgoing_queues_that_carried_nothing(driver: ManagerDriver):
    caller = driver.session()
    caller.open(address(1))
    driver.crash()
    driver.advance(1.0)
    assert outgoing(driver) == []


def test_another_caller_has_a_share_of_its_own(tmp_path):
    rules = [allowing("*", "forward", hosts="*")]
    driver = driver_with(tmp_path, *rules)
    ada, bob = driver.session(ADA), driver.session(BOB)
    for number in range(UNUSED_OUTGOING_MAX):
        ada.open(address(number))
    with pytest.raises(Misuse, match="user:ada has opened 256 outgoing queues"):
        ada.open(address(UNUSED_OUTGOING_MAX))
    bob.open(address(UNUSED_OUTGOING_MAX))


def test_opening_by_a_second_session_frees_no_share(driver: ManagerDriver):
    first, second = driver.session(), driver.session()
    for number in range(UNUSED_OUTGOING_MAX):
        first.open(address(number))
        second.open(address(number))
    leave(first)
    with pytest.raises(Misuse, match="sent nothing to them"):
        second.open(address(UNUSED_OUTGOING_MAX))


def test_nothing_is_remembered_of_callers_that_left(driver: ManagerDriver):
    tried = look_into(driver.manager).tried
    for _ in range(3):
        caller = driver.session()
        caller.send(caller.open(address(1)), Message(body=b"x"))
        caller.open(address(2))
        leave(caller)
        assert not len(tried)


def test_an_outgoing_queue_with_a_setting_of_its_own_stays(driver: ManagerDriver):
    caller = driver.session()
    caller.open(address(1))
    caller.call(queue_frames.SetQuota(address(1), 5_000, None))
    leave(caller)
    assert outgoing(driver) == [address(1)]


def test_an_outgoing_queue_stays_while_an_upload_to_it_is_unfinished(driver: ManagerDriver):
    caller = driver.session()
    queue = caller.open(address(1))
    caller.open(address(2))
    number = caller.number_for()
    upload = caller.call(large_frames.UploadBegin(queue, number, 0, b"a file"))
    caller.ask(large_frames.UploadMark(number, 0, 0, b""))
    leave(caller)
    assert outgoing(driver) == [address(1)]
    driver.session().call(large_frames.UploadDrop(upload.sequence_id))
    assert outgoing(driver) == []


@pytest.mark.parametrize("commit", [False, True])
def test_an_outgoing_queue_stays_while_a_prepared_transaction_sends_to_it(
    driver: ManagerDriver, *, commit: bool
):
    caller = driver.session()
    number = caller.number_for()
    caller.send(caller.open(address(1)), Message(body=b"x"), transaction=number)
    caller.call(message_frames.Prepare(number, 1))
    leave(caller)
    assert outgoing(driver) == [address(1)]
    name = f"{driver.manager_id}\\{number}"
    driver.session().call(message_frames.SettlePrepared(name, commit=commit))
    assert outgoing(driver) == [address(1)] * commit
