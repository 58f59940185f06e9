"""A receive by id or correlation looks only at what arrived since the last one, and in portions."""

from __future__ import annotations

import pytest

from dray.errors import MessageNotFound, StoreCorrupt, StorePoisoned
from dray.manager.session import IdKind
from dray.model.limits import LOOKUP_READ_AT_ONCE, LOOKUP_UNUSED_S, LOOKUPS_MAX
from dray.model.message import Message
from dray.wire import frames, message_frames, queue_frames, selections
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.rights.test_table import ADA, BOB, allowing, driver_with

MANY = 3 * LOOKUP_READ_AT_ONCE + 7


def answer_to(number: int, body: bytes = b"x", **options: object) -> Message:
    return Message(body=body, correlation_id=f"Answer-{number}", **options)


def by(number: int) -> selections.SelectByCorrelation:
    return selections.SelectByCorrelation(f"answer-{number}")


@pytest.fixture
def reads(driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each read of a record at the driver, as it happens."""
    done: list[object] = []
    read = driver.store.read

    def counted(extent, **options):
        done.append(extent)
        return read(extent, **options)

    monkeypatch.setattr(driver.store, "read", counted)
    return done


def filled(caller: Caller, count: int, **options: object) -> int:
    queue = caller.create("replies", **options)
    for first in range(0, count, 500):
        caller.send(queue, *[answer_to(each) for each in range(first, min(count, first + 500))])
    return queue


def taken(caller: Caller, queue: int, select: object, timeout: float | None = 0.0) -> list[bytes]:
    """The bodies that one receive gives, however many turns it takes."""
    request = caller.ask(message_frames.Receive(queue, 0, timeout, select=select))
    while not caller.answers(request):
        caller.driver.advance(0.0)
    (answer,) = caller.answers(request)
    if isinstance(answer.head, frames.Failed):
        raise MessageNotFound(answer.head.sentence)
    return [caller.driver.body_of(answer)]


def test_each_message_is_read_once_however_many_are_received_by_correlation(driver, reads):
    caller = driver.session()
    queue = filled(caller, MANY)
    taken(caller, queue, by(MANY - 1))
    assert len(reads) < MANY + 10
    for number in range(50):
        del reads[:]
        taken(caller, queue, by(number))
        assert len(reads) < 10, "it has read the queue again"
    with pytest.raises(MessageNotFound):
        taken(caller, queue, by(0))


def test_a_record_is_read_once_if_its_properties_end_within_the_first_read(driver, reads):
    caller = driver.session()
    queue = caller.create("replies")
    caller.send(queue, answer_to(1, b""), answer_to(2, b""))
    del reads[:]
    with pytest.raises(MessageNotFound):
        taken(caller, queue, by(3))
    assert len(reads) == 2


def test_a_correlation_id_behind_very_long_properties_is_found(driver):
    caller = driver.session()
    queue = caller.create("replies")
    caller.send(queue, answer_to(1, label="x" * 249, extension=bytes(600)), answer_to(2))
    assert taken(caller, queue, by(1))


def test_what_has_come_is_told_apart_up_to_as_much_as_is_read_at_once(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.queue.lookups.LOOKUP_READ_AT_ONCE", 3)
    caller, inside = driver.session(), look_into(driver.manager)
    queue = caller.create("replies")
    lookup = inside.lookups.by(IdKind.MESSAGE, inside.state.queues.numbered(queue), driver.now)
    lookup.arrived = set()
    first = caller.send(queue, *[Message(body=b"x")] * 3)
    assert not lookup.read_on(), "there may be more"
    assert lookup.arrived == set(first)
    caller.send(queue, *[Message(body=b"x")] * 2)
    assert lookup.read_on()
    assert lookup.arrived is None, "it stands for everything"


def test_waiters_by_correlation_look_only_at_what_arrives(driver, reads):
    """Each of 20 waiters read all 20,000 messages again when an ordinary one came."""
    caller = driver.session()
    queue = filled(caller, MANY)
    waiting = [
        caller.ask(message_frames.Receive(queue, 0, 1e6, select=by(MANY + each)))
        for each in range(20)
    ]
    while driver.manager.deadline() == driver.now:
        driver.advance(0.0)
    del reads[:]
    caller.send(queue, Message(body=b"ordinary"))
    assert len(reads) < 3
    caller.send(queue, answer_to(MANY + 7))
    assert len(reads) < 10
    assert [bool(caller.answers(each)) for each in waiting].index(True) == 7
    assert sum(bool(caller.answers(each)) for each in waiting) == 1


def test_a_long_queue_is_read_in_portions_and_others_are_answered_between(driver, reads):
    caller, other = driver.session(), driver.session()
    queue = filled(caller, MANY)
    request = caller.ask(message_frames.Receive(queue, 0, 0.0, select=by(1)))
    for turn in range(1, 4):
        assert not caller.answers(request)
        assert len(reads) <= turn * LOOKUP_READ_AT_ONCE
        assert isinstance(other.call(queue_frames.Describe()), queue_frames.ManagerState)
        assert driver.manager.deadline() == driver.now
        driver.advance(0.0)
    assert caller.answers(request)
    assert driver.manager.deadline() == driver.now + LOOKUP_UNUSED_S


def test_a_disk_that_fails_while_a_queue_is_read_ends_the_turn_and_answers_nobody(
    driver, monkeypatch
):
    caller = driver.session()
    request = caller.ask(message_frames.Receive(filled(caller, MANY), 0, 0.0, select=by(1)))
    read = driver.store.read

    def fails_once(extent, **options):
        monkeypatch.setattr(driver.store, "read", read)
        raise StorePoisoned("a sync failed; start again")

    monkeypatch.setattr(driver.store, "read", fails_once)
    with pytest.raises(StorePoisoned):
        driver.advance(0.0)
    assert not caller.answers(request)


def test_one_who_leaves_while_its_queue_is_read_takes_nothing(driver):
    caller, other = driver.session(), driver.session()
    queue = filled(caller, MANY)
    caller.ask(message_frames.Receive(queue, 0, 0.0, select=by(1)))
    look_into(driver.manager).waiters.forget(look_into(driver.manager).sessions[caller.number])
    assert taken(other, queue, by(1))


@pytest.mark.parametrize("how", ["id", "correlation"])
def test_a_message_that_comes_back_is_found_again(driver, how):
    caller = driver.session()
    queue = filled(caller, 20)
    caller.send(queue, answer_to(99))
    by_id = selections.SelectById(f"{driver.manager_id}\\{caller.next_number}")
    select = by_id if how == "id" else by(99)
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction, select=select)
    with pytest.raises(MessageNotFound):
        taken(caller, queue, select)
    waiting = caller.ask(message_frames.Receive(queue, 0, 1e6, select=select))
    caller.call(message_frames.Abort(transaction))
    assert caller.answers(waiting)


def test_what_was_held_when_its_queue_was_read_is_found_once_it_comes_back(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.queue.lookups.LOOKUP_READ_AT_ONCE", 3)
    caller = driver.session()
    queue = filled(caller, 6)
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction, max_messages=5)
    for number in range(5):
        with pytest.raises(MessageNotFound):
            taken(caller, queue, by(number))
    caller.call(message_frames.Abort(transaction))
    assert all(taken(caller, queue, by(number)) for number in range(5))


def test_equal_correlation_ids_are_received_in_the_order_of_the_queue(driver):
    caller = driver.session()
    queue = caller.create("plain", transactional=False)
    for body, priority in ((b"low", 1), (b"high", 6), (b"higher", 7), (b"low too", 1)):
        caller.send(queue, answer_to(1, body, priority=priority))
    found = [taken(caller, queue, by(1))[0] for _ in range(4)]
    ends = [next(each for each in (b"higher", b"high", b"low too", b"low") if body.endswith(each))
            for body in found]  # fmt: skip
    assert ends == [b"higher", b"high", b"low", b"low too"]


def test_a_lookup_does_not_grow_with_what_passes_through_its_queue(driver):
    caller = driver.session()
    queue = caller.create("replies")
    lookups = look_into(driver.manager).lookups
    for number in range(0, 8 * LOOKUP_READ_AT_ONCE, 500):
        caller.send(queue, *[answer_to(number + each) for each in range(500)])
        taken(caller, queue, by(number))
        caller.call(queue_frames.PurgeQueue(queue))
        sought = lookups.sought(look_into(driver.manager).state.queues.numbered(queue), by(1), 0.0)
        assert sought.lookup.known <= 3 * LOOKUP_READ_AT_ONCE


def test_lookups_that_nobody_uses_are_given_back(driver):
    caller = driver.session()
    lookups = look_into(driver.manager).lookups
    queue = filled(caller, 10)
    taken(caller, queue, by(3))
    assert len(lookups) == 1
    driver.advance(LOOKUP_UNUSED_S)
    assert (len(lookups), driver.manager.deadline()) == (0, None)
    assert taken(caller, queue, by(4))
    for number in range(LOOKUPS_MAX + 3):
        other = caller.create(f"other-{number}")
        with pytest.raises(MessageNotFound):
            taken(caller, other, by(3))
    assert len(lookups) == LOOKUPS_MAX
    assert taken(caller, queue, by(5))


def test_a_lookup_stays_while_somebody_waits_by_it(driver):
    caller = driver.session()
    queue = filled(caller, 10)
    waiting = caller.ask(message_frames.Receive(queue, 0, 1e6, select=by(11)))
    driver.advance(10 * LOOKUP_UNUSED_S)
    assert driver.manager.deadline() == driver.now + LOOKUP_UNUSED_S
    caller.send(queue, answer_to(11))
    assert caller.answers(waiting)


def test_a_lookup_that_somebody_waits_by_keeps_no_other_one(driver):
    caller, lookups = driver.session(), look_into(driver.manager).lookups
    for number, timeout in enumerate((1e6, 0.0)):
        queue = caller.create(f"queue-{number}")
        caller.ask(message_frames.Receive(queue, 0, timeout, select=by(1)))
        driver.advance(LOOKUP_UNUSED_S / 2)
    assert len(lookups) == 2
    driver.advance(LOOKUP_UNUSED_S / 2)
    assert [each.queue.name for each, _ in lookups.used.values()] == ["queue-0"]


def test_a_caller_that_looks_in_very_many_queues_costs_only_its_own_lookups(tmp_path, monkeypatch):
    """Else each receive of another by an id reads its whole queue again."""
    monkeypatch.setattr("dray.manager.queue.lookups.LOOKUPS_MAX", 4)
    driver = driver_with(tmp_path, allowing("*", "send receive"))
    ada, bob, owner = driver.session(ADA), driver.session(BOB), driver.session()
    orders = ada.open("orders")
    ada.send(orders, *map(answer_to, range(5)))
    assert taken(ada, orders, by(1))
    lookups = look_into(driver.manager).lookups
    hers = next(iter(lookups.used.values()))[0]
    for number in range(10):
        queue = owner.create(f"q{number}")
        bob.send(queue, answer_to(1))
        assert taken(bob, queue, by(1))
    assert hers in {each for each, _ in lookups.used.values()}
    assert len(lookups) == 4
    assert taken(ada, orders, by(2))


def test_messages_whose_ids_look_alike_are_told_apart(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.queue.lookups._hash", lambda _: 1)
    caller = driver.session()
    queue = caller.create("replies")
    caller.send(queue, Message(body=b"0"), *[answer_to(n, b"%d" % n) for n in (1, 2, 3)])
    for number in (2, 3, 1):
        (found,) = taken(caller, queue, by(number))
        assert found.endswith(b"%d" % number)
    with pytest.raises(MessageNotFound):
        taken(caller, queue, by(1))


def test_what_has_left_is_known_no_more_and_what_is_held_still_is(driver):
    caller = driver.session()
    queue = filled(caller, 3)
    caller.send(queue, answer_to(0), answer_to(0))
    taken(caller, queue, by(2))
    ((lookup, _),) = look_into(driver.manager).lookups.used.values()
    assert lookup.known == 5
    for _ in range(2):
        with pytest.raises(MessageNotFound):
            taken(caller, queue, by(2))
        assert lookup.known == 4, "it is forgotten once"
    holding = caller.number_for()
    caller.receive(queue, transaction=holding, max_messages=1, select=by(0))
    taken(caller, queue, by(0))
    taken(caller, queue, by(0))
    with pytest.raises(MessageNotFound):
        taken(caller, queue, by(0))
    assert lookup.known == 2, "the held one, and another that is there"
    caller.call(message_frames.Abort(holding))
    assert taken(caller, queue, by(0))


@pytest.fixture
def unreadable(driver, monkeypatch):
    """From now on no record can be read."""

    def refused(*_, **__):
        raise StoreCorrupt("the record is damaged", event=1, file="p0000001.mq")

    return lambda: monkeypatch.setattr(driver.store, "read", refused)


def test_only_who_waits_by_what_cannot_be_read_is_told(driver, unreadable):
    caller = driver.session()
    queue = filled(caller, 0)
    selects = (by(1), selections.SelectById(f"{driver.manager_id}\\1"), selections.SelectNext(99))
    waiting = [caller.ask(message_frames.Receive(queue, 0, 1e6, select=each)) for each in selects]
    unreadable()
    caller.send(queue, answer_to(2))
    told = [[each.head.error for each in caller.answers(request)] for request in waiting]
    assert told == [[StoreCorrupt.code], [], []]


def test_a_record_that_cannot_be_read_in_a_later_portion_is_told_to_whoever_waits_for_it(
    driver, unreadable
):
    caller = driver.session()
    queue = filled(caller, MANY)
    waiting = caller.ask(message_frames.Receive(queue, 0, 1e6, select=by(MANY + 2)))
    assert not caller.answers(waiting)
    unreadable()
    driver.advance(0.0)
    assert [each.head.error for each in caller.answers(waiting)] == [StoreCorrupt.code]
    assert not look_into(driver.manager).lookups.unread
