"""How many messages leave a queue in one fact: as many as its bytes allow, and one in any case."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from dray.errors import AccessDenied
from dray.manager.change import expiry, purging
from dray.manager.change.purging import first_portion
from dray.manager.disk import RoomLeft, room
from dray.manager.entries import TAIL_BYTES
from dray.manager.queue import KEPT_BYTES, POSITION_BYTES
from dray.model.message import Message
from dray.wire.frames import Done
from dray.wire.message_frames import Abort, Prepare, Settle, SettlePrepared
from dray.wire.queue_frames import DeleteQueue, PurgeQueue
from tests.cost import Lines, calls_of
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

FORGOTTEN = POSITION_BYTES
TO_JOURNAL = POSITION_BYTES + TAIL_BYTES
TOLD = POSITION_BYTES + KEPT_BYTES


@pytest.mark.parametrize(
    ("cost", "asked", "properties"),
    [
        (FORGOTTEN, {}, {}),
        (TO_JOURNAL, {"to_journal": True}, {}),
        (TOLD, {"always_told": True}, {}),
        (TOLD, {}, {"use_dead_letter_queue": True}),
        (TOLD + TAIL_BYTES, {"to_journal": True}, {"use_dead_letter_queue": True}),
    ],
    ids=["forgotten", "to a journal", "always told", "dead letters", "to both"],
)
def test_exactly_as_many_messages_leave_as_fit_one_fact_but_at_least_one(
    driver: ManagerDriver,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cost: int,
    asked: dict[str, bool],
    properties: dict[str, bool],
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a", **properties)] * 6)
    entries = look_into(driver.manager).state.queues.numbered(queue).index.everything()
    context = SimpleNamespace(room=look_into(driver.manager).room)

    def leaving(room: int) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(RoomLeft, "portion_bytes", property(lambda _: room))
            return len(first_portion(context, entries, **asked))

    rooms = (1, cost, 3 * cost - 1, 3 * cost, 6 * cost, 9 * cost)
    assert [leaving(room) for room in rooms] == [1, 1, 2, 3, 6, 6]


@pytest.mark.parametrize(("room", "left"), [(3 * FORGOTTEN, 3), (3 * FORGOTTEN + 1, 2)])
def test_of_what_expires_at_once_a_portion_leaves_and_the_rest_is_due_right_after(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, room: int, left: int
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a", time_to_be_received=1.0)] * 6)
    monkeypatch.setattr(RoomLeft, "portion_bytes", property(lambda _: room))
    driver.advance(2.0)
    index = look_into(driver.manager).state.queues.numbered(queue).index
    assert len(index) == left
    assert driver.manager.deadline() <= driver.now
    driver.advance(0.0)
    assert len(index) == 0


ASKING = {"use_dead_letter_queue": True}


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A turn takes out 40 messages, or two that ask for something."""
    with monkeypatch.context() as patch:
        for each in (purging, expiry, room):
            patch.setattr(each, "LEAVING_A_TURN", 40)
        yield


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(
    ("asked", "left"), [({}, [60, 20, 0]), (ASKING, [98, 96, 94])], ids=["plain", "asking"]
)
@pytest.mark.parametrize("held", [False, True])
def test_a_turn_purges_so_many_messages_as_keep_it_short(
    driver: ManagerDriver, *, asked: dict[str, bool], left: list[int], held: bool
) -> None:
    caller, holder = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a", **asked)] * 100)
    index = look_into(driver.manager).state.queues.numbered(queue).index
    if held:
        transaction = holder.number_for()
        holder.receive(queue, transaction=transaction)
        request = caller.ask(PurgeQueue(queue))
        go_on_to_end(driver)
        holder.call(Abort(transaction))
    else:
        request = caller.ask(PurgeQueue(queue))
    for count in left:
        assert len(index) == count
        driver.advance(0.0)
    go_on_to_end(driver)
    assert len(index) == 0
    assert [each.head for each in caller.answers(request)] == [Done(0 if held else 100)]


def go_on_to_end(driver: ManagerDriver) -> None:
    while driver.manager.deadline() == driver.now:
        driver.advance(0.0)


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(
    ("asked", "left"), [({}, [60, 20, 0]), (ASKING, [98, 96, 94])], ids=["plain", "asking"]
)
def test_so_many_messages_expire_in_a_turn_as_keep_it_short(
    driver: ManagerDriver, *, asked: dict[str, bool], left: list[int]
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a", time_to_be_received=1.0, **asked)] * 100)
    index = look_into(driver.manager).state.queues.numbered(queue).index
    driver.now += 2.0
    for count in left:
        driver.advance(0.0)
        assert len(index) == count
    while len(index):
        assert driver.manager.deadline() <= driver.now, "the rest is due at once"
        driver.advance(0.0)


@pytest.mark.parametrize("name", ["admin_queue$", "notify_queue$", "order_queue$"])
def test_nobody_purges_a_queue_from_which_only_the_manager_takes_messages(
    driver: ManagerDriver, name: str
) -> None:
    caller = driver.session()
    with pytest.raises(AccessDenied, match="can only be peeked at"):
        caller.call(PurgeQueue(caller.open(name)))


def test_messages_that_are_held_are_noted_for_a_purge_a_portion_at_a_time(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, holder = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"a")] * 3)
    holder.receive(queue, transaction=holder.number_for())
    noted = look_into(driver.manager).state.queues.numbered(queue).purge_pending
    with monkeypatch.context() as patch:
        patch.setattr(RoomLeft, "portion_bytes", property(lambda _: 1))
        request = caller.ask(PurgeQueue(queue))
        for count in (1, 2, 3):
            assert len(noted) == count
            driver.advance(0.0)
    assert [each.head for each in caller.answers(request)] == [Done(0)]


def test_what_was_purged_while_it_was_held_is_not_received_after_a_crash_while_it_leaves(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, holder = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"purged")] * 9)
    holder.receive(queue, transaction=holder.number_for())
    caller.call(PurgeQueue(queue))
    caller.send(queue, Message(body=b"after"))
    with monkeypatch.context() as patch:
        patch.setattr(RoomLeft, "portion_bytes", property(lambda _: 1))
        driver.crash()
        caller = driver.session()
        index = look_into(driver.manager).state.queues.numbered(queue).index
        assert 1 < len(index) < 10, "some have left, and others have not yet"
        assert caller.receive(queue, peek=True)[1] == [b"after"]
        while driver.manager.deadline() == driver.now:
            driver.advance(0.0)
    assert len(index) == 1
    assert caller.receive(queue)[1] == [b"after"]


def test_who_deletes_a_queue_that_another_is_deleting_is_told_that_it_is_gone(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = driver.session(), driver.session()
    queue = first.create("orders")
    first.send(queue, *[Message(body=b"a", use_dead_letter_queue=True)] * 3)
    with monkeypatch.context() as patch:
        patch.setattr(RoomLeft, "portion_bytes", property(lambda _: 1))
        requests = [each.ask(DeleteQueue("orders")) for each in (first, second)]
        while driver.manager.deadline() == driver.now:
            driver.advance(0.0)
    (done,), (late,) = first.answers(requests[0]), second.answers(requests[1])
    assert (done.head, late.head.error) == (Done(), "queue-not-found")


def test_a_transaction_that_is_prepared_while_its_queue_is_being_deleted_keeps_the_queue(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = driver.session(), driver.session()
    queue, transaction = first.create("orders"), second.number_for()
    first.send(queue, *[Message(body=b"a", use_dead_letter_queue=True)] * 3)
    second.send(queue, Message(body=b"kept"), transaction=transaction)
    with monkeypatch.context() as patch:
        patch.setattr(RoomLeft, "portion_bytes", property(lambda _: 1))
        request = first.ask(DeleteQueue("orders"))
        second.call(Prepare(transaction, 1))
        while driver.manager.deadline() == driver.now:
            driver.advance(0.0)
    (refused,) = first.answers(request)
    assert (refused.head.error, "prepared transaction" in refused.head.sentence) == ("misuse", True)
    second.call(SettlePrepared(f"{driver.manager_id}\\{transaction}", commit=True))
    assert first.receive(queue)[1] == [b"kept"]


def test_plain_messages_leave_by_the_run_when_their_queue_is_deleted(
    driver: ManagerDriver,
) -> None:
    def calls_to_end(name: str, count: int) -> int:
        caller = driver.session()
        queue = caller.create(name)
        for _ in range(count // 100):
            caller.send(queue, *[Message(body=b"a")] * 100)
        return calls_of(lambda: caller.call(DeleteQueue(name)))

    assert calls_to_end("many", 2_000) < calls_to_end("few", 100) + 2_000 / 5


@pytest.mark.parametrize("priorities", [(3,), (3, 5)])
def test_messages_that_a_purge_spares_cost_it_nothing_each(
    driver: ManagerDriver, priorities: tuple[int, ...]
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for at in range(20):
        priority = priorities[at % len(priorities)]
        caller.send(queue, *[Message(body=b"a", priority=priority)] * 100)
    index = look_into(driver.manager).state.queues.numbered(queue).index
    purge = PurgeQueue(queue, before=10)
    assert calls_of(lambda: caller.call(purge)) < 2_000
    assert len(index) == 2_000 - 9


def test_a_purge_looks_once_at_each_message_that_a_transaction_holds(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, holder = driver.session(), driver.session()
    queue, transaction, late = caller.create("orders"), holder.number_for(), holder.number_for()
    for _ in range(11):
        caller.send(queue, *[Message(body=b"a")] * 100)
    for _ in range(10):
        holder.receive(queue, transaction=transaction)
    index = look_into(driver.manager).state.queues.numbered(queue).index
    noted = look_into(driver.manager).state.queues.numbered(queue).purge_pending
    monkeypatch.setattr(room, "LEAVING_A_TURN", 500)
    monkeypatch.setattr(purging, "LEAVING_A_TURN", 500)
    caller.ask(PurgeQueue(queue))
    assert len(noted) == 500, "they count for the turn"
    monkeypatch.setattr(purging, "LEAVING_A_TURN", 20)
    monkeypatch.setattr(room, "LEAVING_A_TURN", 1)
    driver.advance(0.0)
    assert (len(noted), len(index)) == (1_000, 1_100)
    driver.advance(0.0)
    assert len(index) == 1_080
    assert Lines("/dray/manager").of(lambda: driver.advance(0.0)) < 1_000
    # What is held while the purge goes on leaves as well, unless its transaction commits.
    holder.receive(queue, transaction=late, max_messages=2)
    while driver.manager.deadline() == driver.now:
        driver.advance(0.0)
    assert len(index) == 1_002
    holder.call(Abort(late))
    assert len(index) == 1_000
    holder.commit(transaction, 0)
    assert len(index) == 0


def test_messages_that_are_settled_are_found_by_the_run(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(20):
        caller.send(queue, *[Message(body=b"a")] * 100)
    calls = calls_of(lambda: caller.call(Settle(queue, 2_000, 0)))
    assert len(look_into(driver.manager).state.queues.numbered(queue).index) == 0
    assert calls < 9 * 2_000
