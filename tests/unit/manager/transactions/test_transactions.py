"""What transactions promise: R1 to R10, S4-1."""

from __future__ import annotations

import crc32c
import pytest

from dray import errors
from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES
from dray.manager.events import SessionClosed
from dray.manager.session import WaitingReceives
from dray.model.classes import Acknowledge
from dray.model.message import Message
from dray.wire import frames, message_frames, queue_frames
from dray.wire.record import encode_record
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver


def text(*bodies: str) -> list[Message]:
    return [Message(body=body.encode()) for body in bodies]


def test_uncommitted_messages_are_invisible_and_committed_ones_visible(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    transaction = caller.number_for()
    caller.send(queue, *text("one"), transaction=transaction)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)
    caller.commit(transaction, 1)
    assert caller.receive(queue)[1] == [b"one"]


def test_what_is_not_committed_is_counted_nowhere_and_an_abort_gives_its_room_back(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()

    def counted() -> tuple[int, int]:
        info = caller.call(queue_frames.DescribeQueue("orders")).info
        return info.message_count, info.byte_count

    caller.send(queue, *text("one", "two"), transaction=transaction)
    assert counted() == (0, 0)
    caller.call(message_frames.Abort(transaction))
    assert counted() == (0, 0)
    assert driver.store.live_bytes == 0
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)
    caller.send(queue, *text("seen"))
    assert counted() == (1, 68)


def test_groups_stand_in_commit_order(driver: ManagerDriver) -> None:
    """The example of Q173327: trans2 is committed before trans1."""
    caller = driver.session()
    queue = caller.create("orders")
    first, second = caller.number_for(), caller.number_for()
    caller.send(queue, *text("trans1.msg1"), transaction=first)
    caller.send(queue, *text("trans2.msg1"), transaction=second)
    caller.send(queue, *text("trans1.msg2"), transaction=first)
    caller.send(queue, *text("trans2.msg2"), transaction=second)
    caller.commit(second, 2)
    caller.commit(first, 2)
    envelopes, bodies = caller.receive(queue)
    assert bodies == [b"trans2.msg1", b"trans2.msg2", b"trans1.msg1", b"trans1.msg2"]
    assert [envelope.marks for envelope in envelopes] == [1, 2, 1, 2]
    assert [envelope.transaction for envelope in envelopes] == [second, second, first, first]


def test_an_aborted_receive_puts_back_in_place_and_counts(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *text("a", "b", "c"))
    transaction = caller.number_for()
    taken, bodies = caller.receive(queue, transaction=transaction, max_messages=2)
    assert bodies == [b"a", b"b"]
    assert caller.receive(queue, peek=True)[1] == [b"c"]
    caller.call(message_frames.Abort(transaction))
    envelopes, bodies = caller.receive(queue)
    assert bodies == [b"a", b"b", b"c"]
    assert [e.lookup_id for e in envelopes[:2]] == [e.lookup_id for e in taken]
    assert [e.abort_count for e in envelopes] == [1, 1, 0]


def test_a_lost_session_aborts_what_it_began(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *text("kept"))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.send(queue, *text("gone"), transaction=transaction)
    driver.turn(SessionClosed(caller.number))
    assert other.receive(queue)[1] == [b"kept"]
    assert driver.store.live_bytes == 0


def test_what_was_committed_survives_a_crash_and_what_was_not_is_gone(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *text("a", "b"))
    caller.receive(queue, max_messages=1)
    open_one, done = caller.number_for(), caller.number_for()
    caller.send(queue, *text("never"), transaction=open_one)
    caller.receive(queue, transaction=open_one)
    caller.send(queue, *text("c"), transaction=done)
    caller.commit(done, 1)
    driver.crash()
    caller = driver.session()
    assert caller.receive(caller.open("orders"))[1] == [b"b", b"c"]
    outcomes = [
        caller.call(message_frames.Outcome(f"{driver.manager_id}\\{number}"))
        for number in (open_one, done)
    ]
    assert outcomes == [message_frames.OutcomeIs("aborted"), message_frames.OutcomeIs("committed")]


def test_state_survives_many_checkpoints(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    expected = []
    for turn in range(400):
        body = f"{turn}".encode() * 100
        caller.send(queue, Message(body=body), Message(body=body))
        expected += [body, body]
        if turn % 3 == 0:
            assert caller.receive(queue, max_messages=3)[1] == expected[:3]
            del expected[:3]
    assert driver.store.counters.checkpoints > 1
    driver.crash()
    caller = driver.session()
    assert caller.receive(caller.open("orders"), max_messages=1000)[1] == expected[:1000]


def test_a_refused_send_dooms_its_transaction_whole(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("small", quota=300)
    transaction = caller.number_for()
    caller.send(queue, *text("fits"), transaction=transaction)
    request = caller.ask(*_send_of(caller, queue, b"x" * 400, transaction))
    (refusal,) = caller.answers(request)
    assert refusal.head.error == "quota-exceeded"
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.commit(transaction, 2)
    assert (raised.value.quota, raised.value.limit) == ("queue", 300)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)
    caller.send(queue, *text("fits again"))


def test_a_commit_that_misses_a_send_is_aborted(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    transaction = caller.number_for()
    caller.send(queue, *text("one"), transaction=transaction)
    with pytest.raises(errors.TransactionAborted):
        caller.commit(transaction, 2)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)


def test_a_message_sent_in_a_transaction_cannot_be_received_in_it(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    transaction = caller.number_for()
    caller.send(queue, *text("one"), transaction=transaction)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue, transaction=transaction)


def test_a_transaction_on_a_queue_that_is_not_transactional_is_refused(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("plain", transactional=False)
    caller.send(queue, *text("direct"))
    with pytest.raises(errors.TransactionUsage):
        caller.receive(queue, transaction=caller.number_for())
    transaction = caller.number_for()
    caller.ask(*_send_of(caller, queue, b"x", transaction))
    with pytest.raises(errors.TransactionUsage):
        caller.commit(transaction, 1)
    assert caller.receive(queue)[1] == [b"direct"]


def test_a_waiting_receive_is_served_by_a_commit_or_told_of_its_timeout(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    waiting = other.ask(message_frames.Receive(queue, 0, 5.0))
    assert other.answers(waiting) == []
    caller.send(queue, *text("here"))
    (served,) = other.answers(waiting)
    assert driver.body_of(served).endswith(b"here")
    waiting = other.ask(message_frames.Receive(queue, 0, 5.0))
    assert driver.manager.deadline() == driver.now + 5.0
    driver.advance(5.0)
    (told,) = other.answers(waiting)
    assert told.head.error == "receive-timeout"


def _send_of(
    caller: Caller, queue: int, body: bytes, transaction: int
) -> tuple[message_frames.Send, bytes]:
    source = bytes.fromhex(caller.driver.manager_id)
    head, rest = encode_record(Message(body=body), source, caller.number_for())
    record = head + bytes(rest)
    return message_frames.Send(queue, transaction, [len(record)], [crc32c.crc32c(record)]), record


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_message_damaged_on_the_way_leaves_nothing_behind(
    driver: ManagerDriver, *, in_transaction: bool
) -> None:
    caller = driver.session()
    queue = caller.create("orders", quota=3000)
    transaction = caller.number_for() if in_transaction else 0
    head, record = _send_of(caller, queue, b"x" * 2000, transaction)
    before = driver.store.live_bytes
    with pytest.raises(errors.ProtocolError, match="CRC32C"):
        caller.call(head, record[:-1] + b"y")
    assert driver.store.live_bytes == before
    # Its session is over; the room that it was given in the quota is free.
    other = driver.session()
    other.send(queue, Message(body=b"z" * 2000))
    assert other.receive(queue)[1] == [b"z" * 2000]


def test_a_damaged_message_is_not_reported_to_a_full_queues_sender(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, told = caller.create("orders", quota=100), caller.create("told", transactional=False)
    source = bytes.fromhex(driver.manager_id)
    message = Message(
        body=b"x" * 2000,
        administration_queue="told",
        acknowledge=Acknowledge.FULL_REACH_QUEUE,
    )
    head, rest = encode_record(message, source, caller.number_for())
    record = head + bytes(rest)
    send = message_frames.Send(queue, 0, [len(record)], [crc32c.crc32c(record)])
    with pytest.raises(errors.ProtocolError, match="CRC32C"):
        caller.call(send, record[:-1] + b"y")
    with pytest.raises(errors.ReceiveTimeout):
        driver.session().receive(told)


def test_what_was_called_aborted_never_happens_though_its_frames_come_late(
    driver: ManagerDriver,
) -> None:
    """A client lost its connection, asked on another, and did the work again."""
    caller = driver.session()
    queue = caller.create("orders")
    transaction = caller.number_for()
    asked = driver.session().call(message_frames.Outcome(f"{driver.manager_id}\\{transaction}"))
    assert asked == message_frames.OutcomeIs("aborted")
    with pytest.raises(errors.TransactionAborted):
        caller.call(message_frames.Send(queue, transaction, [], []))
    with pytest.raises(errors.TransactionAborted):
        caller.commit(transaction, 1)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue)


def test_of_a_number_that_nobody_has_leased_nothing_is_known(driver: ManagerDriver) -> None:
    caller, coming = driver.session(), look_into(driver.manager).state.next_number
    asked = [
        caller.call(message_frames.Outcome(f"{driver.manager_id}\\{each}")).status
        for each in (coming - 1, coming)
    ]
    assert asked == ["aborted", "unknown"]


@pytest.mark.parametrize("settled", [True, False])
def test_how_a_prepared_transaction_was_settled_is_not_guessed_once_it_is_forgotten(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    monkeypatch.setattr("dray.manager.state.outcomes.TRANSACTIONS_REMEMBERED", 1)
    caller = driver.session()
    queue, number = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"a"), transaction=number)
    caller.call(message_frames.Prepare(number, 1))
    name = f"{driver.manager_id}\\{number}"
    for _ in range(2):
        caller.call(message_frames.SettlePrepared(name, commit=settled))
    for _ in range(3):
        caller.send(queue, Message(body=b"b"))
    for commits in (True, False):
        with pytest.raises(errors.TransactionSequence, match="or long ago"):
            caller.call(message_frames.SettlePrepared(name, commit=commits))


def test_a_batch_without_a_transaction_that_was_called_aborted_never_happens(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    coming = caller.next_number + 1
    asked = driver.session().call(message_frames.Outcome(f"{driver.manager_id}\\{coming}"))
    assert asked == message_frames.OutcomeIs("aborted")
    with pytest.raises(errors.TransactionAborted):
        caller.send(queue, *text("late"))


def test_a_transaction_that_would_not_fit_the_log_is_refused_and_harms_nobody(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    transaction = caller.number_for()
    most = look_into(driver.manager).fact_bytes_max // TAIL_BYTES
    for _ in range(most // 100):
        caller.send(queue, *text(*"x" * 100), transaction=transaction)
    caller.ask(*_send_of(caller, queue, b"one", transaction))
    for _ in range(2):
        caller.ask(*_send_of(caller, queue, b"one", transaction))
    refused = [e for e in driver.effects if getattr(e, "head", None).__class__ is frames.Failed]
    while not refused:
        caller.ask(*_send_of(caller, queue, b"one", transaction))
        refused = [e for e in driver.effects if getattr(e, "head", None).__class__ is frames.Failed]
    assert refused[0].head.error == "transaction-aborted"
    with pytest.raises(errors.TransactionAborted):
        caller.commit(transaction, 10_000)
    caller.send(queue, *text("after"))
    assert caller.receive(queue)[1] == [b"after"]


@pytest.mark.parametrize("short", [0, 1])
def test_a_transaction_commits_if_what_it_needs_of_the_log_is_just_there(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, *, short: int
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    most = 2 * TAIL_BYTES - short
    monkeypatch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: most))
    send = caller.send_refused if short else caller.send
    send(queue, *text("one", "two"), transaction=transaction)


def test_a_purge_of_more_than_one_fact_holds_is_whole(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(90):
        caller.send(queue, *text(*"x" * 100))
    request = caller.ask(queue_frames.PurgeQueue(queue))
    while driver.manager.deadline() == driver.now:
        driver.advance(0.0)
    assert [answer.head for answer in caller.answers(request)] == [frames.Done(9000)]
    driver.crash()
    assert driver.store.live_bytes == 0


class Watched(WaitingReceives):
    """The waiters of a queue; whoever goes through them is noted."""

    def __init__(self, name: str, visited: list[str]) -> None:
        super().__init__()
        self.name, self.visited = name, visited

    def __iter__(self):
        self.visited.append(self.name)
        return super().__iter__()


def test_an_abort_visits_only_the_queues_at_which_its_session_waits(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    names = [f"q{number}" for number in range(30)]
    numbers = [caller.create(name) for name in names]
    visited: list[str] = []
    for name, number in zip(names, numbers, strict=True):
        look_into(driver.manager).state.queues.numbered(number).waiters = Watched(name, visited)
    ended, standing = caller.number_for(), caller.number_for()
    waits = caller.ask(message_frames.Receive(numbers[3], ended, None))
    caller.ask(message_frames.Receive(numbers[5], standing, None))
    other.ask(message_frames.Receive(numbers[7], other.number_for(), None))
    visited.clear()
    caller.call(message_frames.Abort(ended))
    assert visited == ["q3", "q5"]
    (refused,) = caller.answers(waits)
    assert refused.head.error == "transaction-aborted"
    visited.clear()
    caller.call(message_frames.Abort(caller.number_for()))
    assert visited == ["q5"]
    visited.clear()
    caller.call(message_frames.Abort(standing))
    caller.call(message_frames.Abort(caller.number_for()))
    assert visited == ["q5"]
