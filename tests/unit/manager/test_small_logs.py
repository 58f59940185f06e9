"""A fact is never larger than a small log can take, however much happens at once."""

from __future__ import annotations

import pytest

from dray.errors import ReceiveTimeout, TransactionAborted
from dray.manager import turn
from dray.manager.disk import RoomLeft
from dray.manager.entries import Staged, pack_tail
from dray.manager.events import SessionClosed
from dray.manager.facts import Committed, StreamDiverged
from dray.manager.queue import POSITION_BYTES, REJECTED_BYTES, cost_of_sending
from dray.model.classes import Acknowledge
from dray.model.message import Message
from dray.wire import message_frames, queue_frames, selections
from dray.wire.record import RecordHeader
from tests.inspection import look_into
from tests.unit.manager import conftest
from tests.unit.manager.net import Net, address

COUNT = 400
BATCH = 40
DEAD = "system$;deadxact"


@pytest.fixture
def small_logs(monkeypatch):
    """Of 16 KiB, which is the least: room for the facts of about ninety messages."""
    monkeypatch.setattr(conftest, "LOG_BYTES", 16 << 10)


def send_all(caller, queue, count: int, **properties) -> None:
    for _ in range(0, count, BATCH):
        caller.send(queue, *[Message(body=b"a", **properties)] * BATCH)


def waiting(caller, name: str) -> int:
    return caller.call(queue_frames.DescribeQueue(name)).info.message_count


@pytest.mark.usefixtures("small_logs")
def test_all_that_expires_at_once_leaves_in_facts_that_fit(tmp_path):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.create("orders")
    send_all(caller, queue, COUNT, time_to_be_received=5.0, use_dead_letter_queue=True)
    ticks = 0
    driver.advance(10.0)
    while driver.manager.deadline() is not None and driver.manager.deadline() <= driver.now:
        driver.advance(0.0)
        ticks += 1
        assert ticks < COUNT
    assert (waiting(caller, "orders"), waiting(caller, DEAD)) == (0, COUNT)
    driver.crash()
    assert waiting(driver.session(), DEAD) == COUNT


def hold_each_by_itself(caller, queue, count: int) -> None:
    for _ in range(count):
        caller.receive(queue, transaction=caller.number_for(), max_messages=1)


def tick_until_done(driver) -> int:
    """Let time pass by nothing until nothing is due; how many ticks it took."""
    ticks = 0
    while driver.manager.deadline() is not None and driver.manager.deadline() <= driver.now:
        driver.advance(0.0)
        ticks += 1
        assert ticks < COUNT
    return ticks


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("idle", [False, True], ids=["its session ended", "nobody used it"])
def test_all_that_very_many_transactions_held_comes_back_in_facts_that_fit(tmp_path, idle):
    driver = conftest.ManagerDriver(tmp_path, idle_transaction_s=60.0)
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    send_all(caller, queue, COUNT)
    hold_each_by_itself(caller, queue, COUNT)
    if idle:
        driver.advance(60.0)
    else:
        driver.turn(SessionClosed(caller.number))
    assert 0 < tick_until_done(driver) < COUNT
    given_back = other.receive(queue, peek=True, max_messages=COUNT)[0]
    assert [each.abort_count for each in given_back] == [1] * COUNT


def come_through(net: Net, there, count: int, queue: str = "orders") -> None:
    """Open the line and let so many messages come to stand in a queue, as often as it takes."""
    net.unblock("a", "b")
    for _ in range(2 * count):
        if waiting(there, queue) == count:
            break
        net["a"].advance(31.0)
        net.deliver()
    assert waiting(there, queue) == count


@pytest.mark.usefixtures("small_logs")
def test_of_a_frame_as_much_enters_as_one_fact_can_tell(tmp_path):
    """The source sends all that waited in one frame when the line comes back."""
    net = Net(tmp_path, "ab")
    there = net["b"].session()
    there.create("orders")
    caller = net["a"].session()
    net.block("a", "b")
    send_all(caller, caller.open(address("b", "orders")), COUNT)
    come_through(net, there, COUNT)


MANY = 100_000
KEPT = 400
LABEL = "ä" * 249


def fill(driver, queue: int, count: int) -> None:
    """Queue a great many messages at once, as a checkpoint would bring them back."""
    state = look_into(driver.manager).state
    extent = driver.store.place(b"")
    tails = [pack_tail(Staged(extent, 0, n, 0, 3, 0), 0, 0) for n in range(count)]
    state.apply(Committed(0, 0, [(queue, b"".join(tails))], []))
    driver.store.checkpoint(driver.manager.snapshot())


def until_done(driver) -> int:
    """Tick until nothing is due any more; how often that took."""
    ticks = 0
    while (at := driver.manager.deadline()) is not None and at <= driver.now:
        assert driver.store.waiting_bytes == 0
        driver.advance(0.0)
        ticks += 1
        assert ticks < MANY
    return ticks


def done(caller, request: int) -> int | None:
    """What a request was answered with, if it was."""
    answers = caller.answers(request)
    return answers[0].head.count if answers else None


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("many", [5_000, pytest.param(MANY, marks=pytest.mark.torture)])
def test_a_purge_of_very_many_leaves_in_facts_that_fit(tmp_path, many):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.create("orders")
    fill(driver, queue, many)
    request = caller.ask(queue_frames.PurgeQueue(queue))
    assert done(caller, request) is None
    assert until_done(driver) > 3
    assert done(caller, request) == many
    assert waiting(caller, "orders") == 0
    driver.crash()
    assert waiting(driver.session(), "orders") == 0


@pytest.mark.usefixtures("small_logs")
def test_a_purge_takes_what_was_there_when_it_was_asked_for_and_nothing_later(tmp_path):
    driver = conftest.ManagerDriver(tmp_path)
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    send_all(caller, queue, 1_000)
    holding = other.number_for()
    other.receive(queue, transaction=holding, max_messages=3)
    request = caller.ask(queue_frames.PurgeQueue(queue))
    caller.send(queue, Message(body=b"late"))
    assert done(caller, request) is None
    until_done(driver)
    assert done(caller, request) == 1_000 - 3
    other.call(message_frames.Abort(holding))
    until_done(driver)
    assert caller.receive(queue)[1] == [b"late"]
    assert waiting(caller, "orders") == 0


@pytest.mark.usefixtures("small_logs")
def test_a_purge_leaves_the_next_message_alone_also_while_a_transaction_holds_it(tmp_path):
    """The first message that was sent after the purge was asked for."""
    driver = conftest.ManagerDriver(tmp_path)
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    send_all(caller, queue, 1_000)
    request = caller.ask(queue_frames.PurgeQueue(queue))
    assert done(caller, request) is None, "it goes on"
    caller.send(queue, Message(body=b"next"))
    holding = other.number_for()
    other.receive(queue, transaction=holding, select=selections.SelectAt(1_001))
    until_done(driver)
    assert done(caller, request) == 1_000
    other.call(message_frames.Abort(holding))
    until_done(driver)
    assert caller.receive(queue)[1] == [b"next"]


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("end", ["in peace", "by a crash"])
def test_what_was_purged_is_never_seen_again_though_much_else_is_to_be_done_first(tmp_path, end):
    driver = conftest.ManagerDriver(tmp_path)
    caller, other = driver.session(), driver.session()
    queue, busy = caller.create("orders"), caller.create("busy")
    send_all(caller, queue, BATCH, use_dead_letter_queue=True)
    holding = other.number_for()
    other.receive(queue, transaction=holding, max_messages=BATCH)
    assert done(caller, caller.ask(queue_frames.PurgeQueue(queue))) == 0
    fill(driver, busy, 5_000)
    caller.ask(queue_frames.PurgeQueue(busy))
    other.call(message_frames.Abort(holding))
    with pytest.raises(ReceiveTimeout):
        caller.receive(queue)
    if end == "by a crash":
        driver.crash()
        caller = driver.session()
        with pytest.raises(ReceiveTimeout):
            caller.receive(caller.open("orders"))
    until_done(driver)
    assert (waiting(caller, "orders"), waiting(caller, DEAD)) == (0, BATCH)
    with pytest.raises(ReceiveTimeout):
        caller.receive(caller.open("orders"))


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_purged_while_it_was_prepared_waits_for_the_second_phase_after_a_crash(
    tmp_path, commit
):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a", use_dead_letter_queue=True)] * BATCH)
    number = caller.number_for()
    caller.receive(queue, transaction=number, max_messages=BATCH)
    caller.call(message_frames.Prepare(number, 0))
    caller.call(queue_frames.PurgeQueue(queue))
    driver.crash()
    caller = driver.session()
    until_done(driver)
    assert (waiting(caller, "orders"), waiting(caller, DEAD)) == (BATCH, 0)
    caller.call(message_frames.SettlePrepared(f"{driver.manager_id}\\{number}", commit))
    until_done(driver)
    assert (waiting(caller, "orders"), waiting(caller, DEAD)) == (0, 0 if commit else BATCH)


@pytest.mark.usefixtures("small_logs")
def test_a_crash_in_the_middle_of_a_purge_leaves_the_rest(tmp_path):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.create("orders")
    fill(driver, queue, 5_000)
    caller.ask(queue_frames.PurgeQueue(queue))
    left = waiting(caller, "orders")
    assert 0 < left < 5_000
    driver.crash()
    caller = driver.session()
    assert waiting(caller, "orders") == left
    request = caller.ask(queue_frames.PurgeQueue(caller.open("orders")))
    until_done(driver)
    assert done(caller, request) == left


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("what", ["purge", "delete", "expiry"])
def test_senders_of_very_many_are_told_in_facts_that_fit(tmp_path, what):
    """With labels as long as can be: what is told is larger than what leaves."""
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    caller.create("acks", quota=None)
    queue = caller.create("orders")
    asked = {"acknowledge": Acknowledge.FULL_RECEIVE, "administration_queue": "acks"}
    timed = {"time_to_be_received": 5.0} if what == "expiry" else {}
    send_all(caller, queue, KEPT, label=LABEL, use_dead_letter_queue=True, **asked, **timed)
    if what == "purge":
        request = caller.ask(queue_frames.PurgeQueue(queue))
    elif what == "delete":
        request = caller.ask(queue_frames.DeleteQueue("orders"))
    else:
        driver.now += 10.0
    until_done(driver)
    assert what == "expiry" or caller.answers(request)[0].head != ()
    assert (waiting(caller, "acks"), waiting(caller, DEAD)) == (KEPT, KEPT)
    driver.crash()
    caller = driver.session()
    assert (waiting(caller, "acks"), waiting(caller, DEAD)) == (KEPT, KEPT)


@pytest.mark.usefixtures("small_logs")
def test_what_was_delivered_and_waits_for_word_is_noted_in_facts_that_fit(tmp_path):
    net = Net(tmp_path, "ab")
    there = net["b"].session()
    orders = there.create("orders")
    caller = net["a"].session()
    net.block("a", "b")
    send_all(caller, caller.open(address("b", "orders")), COUNT, use_dead_letter_queue=True)
    net.unblock("a", "b")
    for _ in range(COUNT):
        if waiting(there, "orders") == COUNT and waiting(caller, "order_queue$") == COUNT:
            break
        net["a"].advance(31.0)
        net.deliver()
    assert waiting(caller, "order_queue$") == COUNT
    request = there.ask(queue_frames.PurgeQueue(orders))
    for _ in range(COUNT):
        if done(there, request) == COUNT and waiting(caller, DEAD) == COUNT:
            break
        net.advance(0.0)
    assert waiting(caller, DEAD) == COUNT


@pytest.mark.usefixtures("small_logs")
def test_an_order_ack_of_more_than_the_log_takes_at_once_is_taken_bit_by_bit(tmp_path, monkeypatch):
    """As after a restore, when the peer has everything that is in the backup."""
    monkeypatch.setattr(turn, "window_of", lambda _: 10_000)
    net = Net(tmp_path, "ab")
    there = net["b"].session()
    there.create("orders")
    caller = net["a"].session()
    net.block("a", "b")
    send_all(caller, caller.open(address("b", "orders")), COUNT, use_dead_letter_queue=True)
    come_through(net, caller, COUNT, "order_queue$")
    assert waiting(there, "orders") == COUNT


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("acknowledge", [Acknowledge.NONE, Acknowledge.FULL_REACH_QUEUE])
def test_a_transaction_takes_what_fits_one_fact_and_then_no_more(tmp_path, acknowledge):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    caller.create("acks", quota=None)
    queue = caller.create("orders")
    asked = {"acknowledge": acknowledge, "administration_queue": "acks"}
    header = RecordHeader(0, 3, 0, 0, 0, b"", 0, 0, acknowledge, 0, 0)
    cost = cost_of_sending([header], outgoing=False)
    sent = look_into(driver.manager).fact_bytes_max // cost
    # No one count fits every message.
    assert (sent > 120) == (acknowledge is Acknowledge.NONE)
    for too_many in (1, 0):
        transaction = caller.number_for()
        for _ in range(sent):
            caller.send(queue, Message(body=b"a", **asked), transaction=transaction)
        if too_many:
            caller.send_refused(queue, Message(body=b"a", **asked), transaction=transaction)
            with pytest.raises(TransactionAborted, match="what the log has to keep of them"):
                caller.commit(transaction, sent + 1)
            assert (waiting(caller, "orders"), waiting(caller, "acks")) == (0, 0)
        else:
            caller.commit(transaction, sent)
    driver.crash()
    caller = driver.session()
    acks = 0 if acknowledge is Acknowledge.NONE else sent
    assert (waiting(caller, "orders"), waiting(caller, "acks")) == (sent, acks)


def sent_from_afar(tmp_path, count: int, acknowledge: Acknowledge) -> tuple[Net, int]:
    """Messages that ask for word, with labels as long as can be, in one frame."""
    net = Net(tmp_path, "ab")
    there = net["b"].session()
    orders = there.create("orders")
    caller = net["a"].session()
    caller.create("acks", quota=None)
    asked = {"acknowledge": acknowledge, "administration_queue": "acks", "label": LABEL}
    net.block("a", "b")
    for _ in range(count // BATCH):
        caller.send(caller.open(address("b", "orders")), *[Message(body=b"a", **asked)] * BATCH)
    come_through(net, there, count)
    return net, orders


@pytest.mark.usefixtures("small_logs")
def test_a_receive_of_messages_whose_source_is_told_much_is_bounded_by_what_it_is_told(tmp_path):
    net, orders = sent_from_afar(tmp_path, BATCH, Acknowledge.FULL_RECEIVE)
    there = net["b"].session()
    transaction = there.number_for()
    with pytest.raises(TransactionAborted, match="what the log has to keep of them"):
        there.receive(orders, transaction=transaction, max_messages=BATCH)
    there.call(message_frames.Abort(transaction))
    for _ in range(BATCH // 10):
        transaction = there.number_for()
        there.receive(orders, transaction=transaction, max_messages=10)
        there.commit(transaction, 0)
    assert waiting(there, "orders") == 0
    for _ in range(BATCH):
        net.advance(0.0)
    assert waiting(net["a"].session(), "acks") == BATCH


@pytest.mark.usefixtures("small_logs")
def test_of_a_frame_no_more_enters_than_its_source_can_be_told_of_in_one_fact(tmp_path):
    net, _ = sent_from_afar(tmp_path, 2 * BATCH, Acknowledge.FULL_REACH_QUEUE)
    for _ in range(2 * BATCH):
        net.advance(0.0)
    assert waiting(net["a"].session(), "acks") == 2 * BATCH


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_transaction_rejects_as_many_messages_as_its_fact_can_tell_of(
    driver, monkeypatch, beyond
):
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a")] * 4)
    room = 4 * POSITION_BYTES + 3 * REJECTED_BYTES - beyond
    monkeypatch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: room))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    for position in (1, 2):
        caller.call(message_frames.Reject(queue, position, transaction))
    if beyond:
        with pytest.raises(TransactionAborted, match="what the log has to keep of them"):
            caller.call(message_frames.Reject(queue, 3, transaction))
    else:
        caller.call(message_frames.Reject(queue, 3, transaction))
        caller.commit(transaction, 0)
    assert waiting(caller, "orders") == 4 * beyond


@pytest.mark.usefixtures("small_logs")
def test_what_a_diverged_queue_holds_becomes_dead_letters_in_facts_that_fit(tmp_path):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.open(address("b", "orders"))
    send_all(caller, queue, COUNT)
    context = look_into(driver.manager).subjects.works.context
    context.record(StreamDiverged(queue, 1, 1, context.now_us))
    request = caller.ask(queue_frames.ResolveOutgoing(address("b", "orders"), discard=True))
    until_done(driver)
    assert done(caller, request) == COUNT
    assert waiting(caller, DEAD) == COUNT


@pytest.mark.usefixtures("small_logs")
def test_what_is_settled_at_once_goes_to_the_journal_in_facts_that_fit(tmp_path):
    driver = conftest.ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    send_all(caller, queue, COUNT)
    request = caller.ask(message_frames.Settle(queue, COUNT, 0))
    until_done(driver)
    assert done(caller, request) == COUNT
    assert waiting(caller, "orders;journal") == COUNT
