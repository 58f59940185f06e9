"""Rights at queues by number and by name."""

from __future__ import annotations

import msgspec
import pytest

from dray.errors import DrayError
from dray.manager.rights.queues import host_of, not_found
from dray.model.names import parse_queue_address
from dray.wire import file_frames, large_frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.rights.test_table import ADA, BOB, allowing, driver_with, refused


def test_the_host_of_an_outgoing_queue_is_named_with_its_port():
    assert host_of(parse_queue_address("drays://Depot/orders")) == "depot:7340"


def test_a_hidden_queue_is_refused_in_the_words_of_a_missing_one(tmp_path):
    ada = driver_with(tmp_path, allowing("user:ada", "send", "orders")).session(ADA)
    hidden = refused(ada, queue_frames.DescribeQueue("secrets"))
    missing = refused(ada, queue_frames.DescribeQueue("nothing"))
    assert str(hidden).replace("secrets", "nothing") == str(missing) == str(not_found("nothing"))


def outcome(caller, head) -> str:
    """The code of the refusal, or how a caller that has the rights is answered."""
    try:
        return type(caller.call(head)).__name__
    except DrayError as error:
        return error.code


def test_no_sub_queue_is_made_of_a_queue_that_is_hidden(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send receive", "orders*"))
    ada = driver.session(ADA)
    before = len(look_into(driver.manager).state.queues)
    assert outcome(ada, queue_frames.OpenQueue("secrets;aside")) == "queue-not-found"
    assert len(look_into(driver.manager).state.queues) == before
    assert outcome(ada, queue_frames.OpenQueue("orders;aside")) == "Opened"
    assert len(look_into(driver.manager).state.queues) == before + 1


def test_a_status_queue_of_another_name_is_opened_by_who_may_send_to_it(tmp_path):
    rules = (
        allowing("user:ada", "receive", "orders"),
        allowing("user:ada", "send receive", "mine"),
    )
    driver = driver_with(tmp_path, *rules)
    driver.session().create("mine")
    ada = driver.session(ADA)
    assert outcome(ada, queue_frames.OpenQueue("orders")) == "Opened"
    denied = refused(ada, queue_frames.OpenQueue("orders", for_status=True))
    assert "may not send to the queue 'orders'" in str(denied)
    assert outcome(ada, queue_frames.OpenQueue("secrets", for_status=True)) == "queue-not-found"
    assert outcome(ada, queue_frames.OpenQueue("mine", for_status=True)) == "Opened"


@pytest.mark.parametrize(
    ("may", "expected"),
    [
        ("send", "access-denied"),
        ("receive", "access-denied"),
        ("peek", "access-denied"),
        ("send receive", "receive-timeout"),
    ],
)
def test_a_status_queue_of_ones_own_needs_the_right_to_send_and_to_receive(tmp_path, may, expected):
    rules = (allowing("user:ada", "receive", "orders"), allowing("user:ada", may, "mine"))
    driver = driver_with(tmp_path, *rules)
    number = driver.session().create("mine")
    ada = driver.session(ADA)
    asked = large_frames.LargeReceive(
        ada.open("orders"), ada.number_for(), 0.0, status_queue=number
    )
    assert outcome(ada, asked) == expected


@pytest.mark.parametrize(
    ("may", "moves", "unreadable"),
    [
        ("receive", "access-denied", "Done"),
        ("send", "access-denied", "access-denied"),
        ("send receive", "Done", "Done"),
    ],
)
def test_a_large_message_moves_aside_with_the_right_to_send_unless_nobody_can_read_it(
    tmp_path, may, moves, unreadable
):
    driver = driver_with(tmp_path, allowing("user:ada", may, "orders*"))
    target, hidden = (driver.session().open(name) for name in ("orders;aside", "secrets"))
    ada = driver.session(ADA)
    orders = ada.open("orders")
    assert outcome(ada, large_frames.LargeMove(orders, 1, target, 0)) == moves
    unread = large_frames.LargeMove(orders, 1, target, 0, unreadable=True)
    assert outcome(ada, unread) == unreadable
    if unreadable == "Done":
        unread = large_frames.LargeMove(orders, 1, target, hidden, unreadable=True)
        assert outcome(ada, unread) == "status-queue-missing"


@pytest.mark.parametrize(
    ("may", "expected"),
    [
        ("receive", "access-denied"),
        ("send", "access-denied"),
        ("send receive", "message-not-found"),
    ],
)
def test_a_message_moves_with_the_right_to_take_it_and_to_send_it(tmp_path, may, expected):
    driver = driver_with(tmp_path, allowing("user:ada", may, "orders*"))
    target = driver.session().open("orders;aside")
    ada = driver.session(ADA)
    orders = ada.open("orders")
    assert outcome(ada, message_frames.Move(orders, 99, target, 0)) == expected
    assert (
        outcome(ada, message_frames.MoveMessages(orders, [99], target, ada.number_for()))
        == expected
    )


def test_a_number_of_another_caller_is_refused_in_each_frame_that_has_one(tmp_path):
    driver = driver_with(tmp_path, allowing("*", "send receive", "orders*"))
    ada, bob = driver.session(ADA), driver.session(BOB)
    orders, target = ada.open("orders"), ada.open("orders;aside")
    for head in (
        message_frames.Receive(orders, 0, 0.0),
        message_frames.Settle(orders, 99, 0),
        message_frames.Reject(orders, 99, 0),
        message_frames.Move(orders, 99, target, 0),
        large_frames.LargeReceive(orders, 0, 0.0),
        file_frames.SendFile(orders, 0, 1, 0, 0),
    ):
        forged = msgspec.structs.replace(head, transaction=bob.number_for())
        told = refused(ada, forged)
        assert "another" in str(told) or "lease" in str(told), (head, told)


def test_an_outgoing_queue_is_seen_by_its_name_and_sent_to_by_its_host(tmp_path):
    remote = "dray://depot:7340/x"
    rules = (
        allowing("user:ada", "see send", "*depot*"),
        allowing("token:bob", "forward", "", "depot:7340"),
    )
    driver = driver_with(tmp_path, *rules)
    number = driver.session().open(remote)
    ada, bob = driver.session(ADA), driver.session(BOB)
    describe = queue_frames.DescribeQueue(remote)
    assert (outcome(ada, describe), outcome(bob, describe)) == ("QueueState", "QueueState")
    send = message_frames.Send(number, 0, [], [])
    assert outcome(ada, send) == "access-denied"
    assert outcome(bob, send) not in ("access-denied", "queue-not-found")
