"""What one caller may hold of what the manager has for all of them."""

from __future__ import annotations

import pytest

from dray.errors import Misuse, TransactionAborted
from dray.manager.events import SessionClosed
from dray.model.callers import Caller
from dray.model.classes import Part
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.wire import batch_frames, large_frames, message_frames, queue_frames, transfer_frames
from tests.cost import Costs
from tests.inspection import look_into
from tests.unit.manager.requests.test_uploads import Sender
from tests.unit.manager.rights.test_table import ADA, BOB, allowing, driver_with

RULES = (allowing("*", "send receive manage"), allowing("*", "forward", hosts="*"))


def test_a_caller_that_makes_its_share_of_queues_is_refused_and_others_are_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("dray.manager.change.sub_queues.QUEUES_MAX", 40)
    driver = driver_with(tmp_path, *RULES)
    first, second, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    for number in range(4):
        first.create(f"q{number}")
        second.open(f"q{number};sub")
    second.open("dray://depot:7340/orders")
    first.call(queue_frames.CreateQueue("kept", QueueOptions()))
    for caller in (first, second):
        with pytest.raises(Misuse, match="user:ada has made 10 queues"):
            caller.call(queue_frames.CreateQueue("more", QueueOptions()))
        with pytest.raises(Misuse, match="user:ada has made 10 queues"):
            caller.open("q1;another")
        caller.open("q1;sub")
    bob.create("of bob")
    driver.session().create("of the owner")
    first.call(queue_frames.DeleteQueue("kept"))
    first.create("more")


def test_sub_queues_that_went_count_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.change.sub_queues.QUEUES_MAX", 40)
    driver = driver_with(tmp_path, *RULES)
    for _ in range(5):
        ada = driver.session(ADA)
        for number in range(10):
            ada.open(f"orders;sub{number}")
        driver.turn(SessionClosed(ada.number))


def test_a_caller_has_its_share_of_the_receives_that_wait_at_a_queue(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.requests.receiving.WAITERS_PER_QUEUE_MAX", 20)
    driver = driver_with(tmp_path, *RULES)
    first, second, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    orders = first.open("orders")

    def waits(caller) -> bool:
        return not caller.answers(caller.ask(message_frames.Receive(orders, 0, 600.0)))

    assert all(waits(caller) for caller in (first, second, first, second, first))
    for caller in (first, second):
        with pytest.raises(Misuse, match="5 receives of user:ada already wait at 'orders'"):
            caller.call(message_frames.Receive(orders, 0, 600.0))
    assert waits(bob)
    driver.turn(SessionClosed(second.number))
    assert waits(first)


def test_a_receive_beyond_the_share_of_its_caller_costs_the_same_however_many_wait(
    tmp_path, monkeypatch
):
    ada = driver_with(tmp_path, *RULES).session(ADA)

    def lines_when(share: int) -> int:
        monkeypatch.setattr("dray.manager.requests.receiving.WAITERS_PER_QUEUE_MAX", 4 * share)
        orders = ada.create(f"orders{share}")
        for _ in range(share):
            ada.ask(message_frames.Receive(orders, 0, 600.0))
        costs = Costs()
        with pytest.raises(Misuse, match=f"{share} receives of user:ada already wait"):
            costs.of("a receive", lambda: ada.call(message_frames.Receive(orders, 0, 600.0)))
        return costs.most

    lines_when(1)
    assert lines_when(200) < 2 * lines_when(2)


def test_room_is_set_aside_at_the_same_cost_however_many_have_some(tmp_path):
    driver = driver_with(tmp_path, *RULES)
    ada = driver.session(ADA)
    orders = ada.open("orders")

    def reserve() -> None:
        ada.ask(message_frames.Reserve(orders, ada.number_for(), 100, 100))

    def lines() -> int:
        costs = Costs()
        costs.of("a reservation", reserve)
        return costs.most

    reserve()
    few = lines()
    for _ in range(200):
        reserve()
    assert lines() < 2 * few
    room = look_into(driver.manager).room
    assert room.promised_to == {ADA.place: 203 * 100}
    driver.turn(SessionClosed(ada.number))
    assert not room.promised_to


def test_a_caller_has_its_share_of_the_unfinished_uploads(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.requests.uploads.UPLOADS_MAX", 8)
    driver = driver_with(tmp_path, *RULES)
    first, second, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    orders = first.open("orders")

    def begins(caller):
        return caller.call(large_frames.UploadBegin(orders, caller.number_for(), 10, b""))

    upload = begins(first)
    begins(second)
    for caller in (first, second):
        with pytest.raises(Misuse, match="user:ada has 2 unfinished uploads"):
            begins(caller)
    begins(bob)
    driver.crash()
    again = driver.session(ADA)
    with pytest.raises(Misuse, match="user:ada has 2 unfinished uploads"):
        begins(again)
    again.call(large_frames.UploadDrop(upload.sequence_id))
    begins(again)


def test_a_caller_has_its_share_of_the_prepared_transactions(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.transactions.prepared.STAGED_MAX", 8)
    driver = driver_with(tmp_path, *RULES)

    def prepares(caller):
        caller.call(message_frames.Prepare(caller.number_for(), 0))

    ada, bob = driver.session(ADA), driver.session(BOB)
    prepares(ada)
    prepares(ada)
    with pytest.raises(Misuse, match="user:ada has 2 transactions prepared here"):
        prepares(ada)
    driver.crash()
    ada, bob, owner = driver.session(ADA), driver.session(BOB), driver.session()
    with pytest.raises(Misuse, match="user:ada has 2 transactions prepared here"):
        ada.call(batch_frames.StageForBatch(ada.number_for(), 0, "query", 0))
    prepares(bob)
    for _ in range(5):
        prepares(owner)
    with pytest.raises(Misuse, match="8 transactions are prepared here"):
        prepares(owner)


def test_a_caller_has_its_share_of_the_boxes_of_file_transfers(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.relay.BOXES_MAX", 8)
    driver = driver_with(tmp_path, *RULES)
    first, second, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    first.call(transfer_frames.AttachBox("a", "orders"))
    second.call(transfer_frames.AttachBox("b", "orders"))
    for caller in (first, second):
        with pytest.raises(Misuse, match="user:ada has 2 boxes of transfers"):
            caller.call(transfer_frames.AttachBox("c", "orders"))
    second.call(transfer_frames.AttachBox("a", "orders"))
    bob.call(transfer_frames.AttachBox("c", "orders"))
    driver.turn(SessionClosed(second.number))
    for box in "de":
        first.call(transfer_frames.AttachBox(box, "orders"))
    with pytest.raises(Misuse, match="user:ada has 2 boxes of transfers"):
        first.call(transfer_frames.AttachBox("f", "orders"))


def test_a_caller_whose_transactions_have_the_most_messages_begins_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.transactions.open_transaction.TRANSACTION_OPERATIONS_MAX", 3)
    driver = driver_with(tmp_path, *RULES)
    ada = driver.session(ADA)
    orders = ada.open("orders")
    ada.send(orders, Message(body=b"1"))
    ada.send(orders, *[Message(body=b"1")] * 3, transaction=ada.number_for())
    with pytest.raises(Misuse, match="user:ada has 1 open transaction with 3 messages here"):
        ada.call(message_frames.Receive(orders, ada.number_for(), 0.0, max_messages=1))


def test_messages_count_for_their_caller_while_their_transaction_is_open_on_a_session(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("dray.manager.transactions.open_transaction.TRANSACTION_OPERATIONS_MAX", 3)
    driver = driver_with(tmp_path, *RULES)
    ada, other = driver.session(ADA), driver.session(ADA)
    orders, one = ada.open("orders"), ada.number_for()

    def begins() -> None:
        number = ada.number_for()
        ada.call(message_frames.Reserve(orders, number, 0))
        ada.call(message_frames.Abort(number))

    ada.send(orders, Message(body=b"1"), transaction=one)
    upload = Sender(other, orders)
    upload.begin()
    upload.send(Part.HEADER)
    upload.send(Part.FRAGMENT, 1)
    upload.mark(2)
    with pytest.raises(Misuse, match="user:ada has 2 open transactions with 3 messages here"):
        begins()
    driver.turn(SessionClosed(other.number))
    begins()
    upload.resume(driver.session(ADA))
    with pytest.raises(Misuse, match="user:ada has 2 open transactions with 3 messages here"):
        begins()
    ada.commit(one, 1)
    begins()


def test_a_caller_has_its_share_of_the_open_transactions(tmp_path, monkeypatch):
    """Plain receives that are not confirmed are among them, and so are resumed uploads."""
    monkeypatch.setattr("dray.manager.transactions.open_transaction.OPEN_TRANSACTIONS_MAX", 20)
    driver = driver_with(tmp_path, *RULES)
    first, second, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    orders = first.open("orders")
    first.send(orders, *[Message(body=b"1")] * 50)

    def begins(caller) -> int:
        number = caller.number_for()
        caller.call(message_frames.Receive(orders, number, 0.0, max_messages=1))
        return number

    begun = [(caller, begins(caller)) for caller in (first, second, first)]
    claim = first.number_for()
    first.call(message_frames.Receive(orders, claim, 0.0, claim=True))
    upload = second.call(large_frames.UploadBegin(orders, second.number_for(), 10, b""))
    for caller in (first, second):
        with pytest.raises(Misuse, match="user:ada has 5 open transactions with 4 messages here"):
            begins(caller)
        with pytest.raises(Misuse, match="user:ada has 5 open transactions"):
            caller.call(message_frames.Receive(orders, caller.number_for(), 0.0, claim=True))
    bob.call(message_frames.Commit(begins(bob), 0))
    held = driver.session()
    for _ in range(9):
        begins(held)
    for end, (caller, number) in zip(
        (message_frames.Commit, message_frames.Prepare, None), begun, strict=True
    ):
        caller.call(end(number, 0) if end else message_frames.Abort(number))
        begins(second)
        with pytest.raises(Misuse, match="user:ada has 5 open transactions"):
            begins(second)
    first.call(large_frames.UploadResume(upload.sequence_id))
    with pytest.raises(Misuse, match="user:ada has 5 open transactions"):
        begins(second)
    driver.turn(SessionClosed(second.number))
    for _ in range(3):
        begins(first)
    with pytest.raises(Misuse, match="user:ada has 5 open transactions"):
        begins(first)
    driver.turn(SessionClosed(first.number))
    driver.crash()
    ada = driver.session(ADA)
    for _ in range(5):
        begins(ada)
    owner = driver.session()
    last = [begins(owner) for _ in range(15)][-1]
    for _ in range(2):
        with pytest.raises(Misuse, match="20 transactions are open here"):
            begins(owner)
        owner.call(message_frames.Abort(last))
        last = begins(owner)


def test_the_open_transactions_of_a_caller_have_a_share_of_messages(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.transactions.open_transaction.TRANSACTION_OPERATIONS_MAX", 10)
    driver = driver_with(tmp_path, *RULES)
    first, second, bob = driver.session(ADA), driver.session(ADA), driver.session(BOB)
    orders, six = first.open("orders"), [Message(body=b"1")] * 6

    def sends(caller, *messages) -> int:
        number = caller.number_for()
        _, head, body = caller._encoded(orders, messages, number, marks=(), guarded=True)
        caller.ask(head, body)
        return number

    number = sends(first, *six)
    with pytest.raises(TransactionAborted, match="the open transactions of user:ada have 10"):
        second.call(message_frames.Commit(sends(second, *six), 1))
    bob.call(message_frames.Commit(sends(bob, *six), 1))
    first.call(message_frames.Commit(number, 1))
    first.call(message_frames.Commit(sends(first, *six), 1))


def test_of_queues_that_are_gone_only_so_many_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.manager.change.sub_queues.QUEUES_MAX", 4)
    monkeypatch.setattr("dray.manager.change.sub_queues.QUEUES_SHARE", 1)
    driver = driver_with(tmp_path, allowing("*", "send receive see", "orders orders;*"))
    made = look_into(driver.manager).made
    counts = []
    for number in range(20):
        ada = driver.session(Caller(f"user:{number}"))
        ada.open(f"orders;sub{number}")
        driver.turn(SessionClosed(ada.number))
        counts.append(len(made))
    # Another one is noted behind those that are forgotten; at the bound none is forgotten yet.
    assert max(counts) == 2 * 4 + 1
    ada = driver.session(ADA)
    ada.open("orders;here")
    for number in range(20):
        passing = driver.session(Caller(f"user:{number}"))
        passing.open(f"orders;sub{number}")
        driver.turn(SessionClosed(passing.number))
    assert made.count(ADA.place) == 1, "its queue is there"
