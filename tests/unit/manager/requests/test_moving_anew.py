"""Messages that move to another queue in one fact: which may, and what of them is new there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.entries.entry import Entry, unpack
from dray.manager.queue import Account
from dray.model.message import Message
from dray.wire import frames, large_frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.incoming.test_cut_transactions import narrow
from tests.unit.manager.net import Net, address
from tests.unit.manager.peers.test_links import Pair
from tests.unit.manager.requests.test_large_messages import send_large, take_large

ELSEWHERE = "dray://127.0.0.1:7340/orders"


def entries(driver: ManagerDriver, number: int) -> list[Entry]:
    queue = look_into(driver.manager).state.queues.numbered(number)
    return [unpack(packed) for packed in queue.index.in_position_order()]


def positions(driver: ManagerDriver, number: int) -> list[int]:
    return [each.lookup_id for each in entries(driver, number)]


def move(caller: Caller, queue: int, lookup_ids: list[int], target: int) -> int:
    number = caller.number_for()
    done = caller.call(message_frames.MoveMessages(queue, lookup_ids, target, number))
    assert isinstance(done, frames.Done)
    return done.count


def kept(caller: Caller, *messages: Message, transactional: bool = False) -> int:
    """A journal in which these messages are, for they have been received."""
    queue = caller.create("source", journal=True, transactional=transactional)
    transaction = caller.number_for() if transactional else 0
    caller.send(queue, *messages, transaction=transaction)
    if transactional:
        caller.commit(transaction, 1)
    caller.receive(queue)
    return caller.open("source;journal")


def kept_large(caller: Caller, fragments: int = 2, **options: object) -> int:
    queue = caller.create("source", journal=True, transactional=True)
    transaction, taking = caller.number_for(), caller.number_for()
    send_large(caller, queue, fragments, transaction, **options)
    caller.commit(transaction, 3)
    take_large(caller, queue, taking)
    caller.commit(taking, 0)
    return caller.open("source;journal")


def test_a_message_of_a_journal_joins_as_if_it_were_sent_now(driver: ManagerDriver) -> None:
    caller = driver.session()
    journal = kept(caller, Message(body=b"a", priority=5))
    target = caller.create("target", transactional=False)
    (before,) = entries(driver, journal)
    driver.advance(100.0)
    now_us = int(driver.now * 1_000_000)
    assert move(caller, journal, [before.lookup_id], target) == 1
    (after,) = entries(driver, target)
    assert (after.sent_us, after.arrived_us) == (now_us, now_us)
    assert before.sent_us < now_us
    assert (after.priority, after.number, after.extent) == (5, before.number, before.extent)
    assert (after.transaction, after.marks, after.ordinal, after.following) == (0, 0, 0, 0)
    assert (after.message_class, after.move_count, after.abort_count) == (0, 0, 0)
    driver.crash()
    assert entries(driver, target) == [after]


def test_messages_of_a_journal_join_a_transactional_queue_as_one_transaction(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    journal = kept(caller, *[Message(body=each, priority=5) for each in (b"a", b"b", b"c")])
    target = caller.create("target", transactional=True)
    assert move(caller, journal, positions(driver, journal), target) == 3
    found = entries(driver, target)
    assert {each.transaction for each in found} == {caller.next_number}
    assert [each.marks for each in found] == [
        message_frames.MARK_FIRST,
        0,
        message_frames.MARK_LAST,
    ]
    assert [each.ordinal for each in found] == [1, 2, 3]
    assert [each.following for each in found] == [2, 1, 0]
    assert [each.priority for each in found] == [0, 0, 0], "a transaction keeps its order"


@pytest.mark.parametrize(
    ("of_users", "alike"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_only_between_queues_of_users_that_are_alike_a_message_is_moved_and_not_sent_anew(
    driver: ManagerDriver, *, of_users: bool, alike: bool
) -> None:
    caller = driver.session()
    target = caller.create("target", transactional=not alike)
    if of_users:
        queue = caller.create("source", transactional=False)
        caller.send(queue, Message(body=b"a"))
    else:
        queue = kept(caller, Message(body=b"a"))
    sent_us = entries(driver, queue)[0].sent_us
    driver.advance(1.0)
    move(caller, queue, positions(driver, queue), target)
    (after,) = entries(driver, target)
    moved = of_users and alike
    assert (after.move_count, after.sent_us == sent_us) == ((1, True) if moved else (0, False))


@pytest.mark.parametrize(
    ("message", "expected_s"),
    [
        (Message(body=b"a"), 0),
        (Message(body=b"a", time_to_be_received=50.0), 50),
        (Message(body=b"a", time_to_reach_queue=20.0, time_to_be_received=50.0), 50),
    ],
)
def test_the_time_of_a_message_that_is_sent_anew_begins_again(
    driver: ManagerDriver, message: Message, expected_s: int
) -> None:
    caller = driver.session()
    journal, target = kept(caller, message), caller.create("target")
    driver.advance(1000.0)
    move(caller, journal, positions(driver, journal), target)
    (after,) = entries(driver, target)
    expected = int(driver.now * 1_000_000) + expected_s * 1_000_000 if expected_s else 0
    assert after.expires_us == expected


def test_a_message_that_leaves_a_journal_for_another_manager_has_its_time_to_arrive_again(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    message = Message(body=b"a", time_to_reach_queue=20.0, time_to_be_received=50.0)
    journal, outgoing = kept(caller, message), caller.open(ELSEWHERE)
    driver.advance(1000.0)
    move(caller, journal, positions(driver, journal), outgoing)
    (after,) = entries(driver, outgoing)
    assert after.expires_us == int(driver.now * 1_000_000) + 20_000_000


def test_a_message_of_another_manager_cannot_be_sent_on_as_if_it_were_ours(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    there = pair.destination.session()
    there.create("orders", journal=True)
    here = pair.source.session()
    here.send(here.open(ELSEWHERE), Message(body=b"a"))
    pair.deliver()
    there.receive(there.open("orders"))
    there.send(there.open("orders"), Message(body=b"own"))
    there.receive(there.open("orders"))
    journal = there.open("orders;journal")
    foreign, own = positions(pair.destination, journal)
    outgoing = there.open("dray://127.0.0.1:9999/elsewhere")
    for chosen in ([foreign], [own, foreign]):
        with pytest.raises(errors.Misuse, match=f"at position {foreign} .* sent at another queue"):
            move(there, journal, chosen, outgoing)
    assert move(there, journal, [own], outgoing) == 1
    target = there.create("target")
    assert move(there, journal, [foreign], target) == 1
    with pytest.raises(errors.Misuse, match="sent at another queue manager"):
        move(there, target, positions(pair.destination, target), outgoing)


def test_a_large_message_moves_whole_by_any_of_its_parts_and_counts_once(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    journal, target = kept_large(caller), caller.create("target", transactional=True)
    header, *fragments, trailer = positions(driver, journal)
    assert len(fragments) == 2
    assert move(caller, journal, [fragments[1], header], target) == 1
    assert entries(driver, journal) == []
    assert caller.call(large_frames.LargeList(journal, 0, 10)).entries == []
    found = take_large(caller, target, caller.number_for())
    assert len(found.parts) == 2
    driver.crash()
    caller = driver.session()
    assert len(take_large(caller, caller.open("target"), caller.number_for()).parts) == 2
    assert trailer > header


def test_a_large_message_is_dropped_whole_from_where_it_was_kept(driver: ManagerDriver) -> None:
    caller = driver.session()
    journal = kept_large(caller)
    assert move(caller, journal, positions(driver, journal)[1:2], 0) == 1
    assert entries(driver, journal) == []
    assert driver.store.live_bytes == 0


def test_a_large_message_moves_only_to_a_transactional_queue_that_has_it_not(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    journal = kept_large(caller)
    (header, *_) = positions(driver, journal)
    plain = caller.create("plain", transactional=False)
    with pytest.raises(errors.NotTransactional, match="'plain' is not transactional"):
        move(caller, journal, [header], plain)
    target = caller.create("target", transactional=True)
    transaction, after = caller.number_for(), caller.number_for()
    caller.next_number = entries(driver, journal)[0].number - 1
    send_large(caller, target, 2, transaction)
    caller.next_number = after
    caller.commit(transaction, 3)
    with pytest.raises(errors.Misuse, match="is in 'target' already"):
        move(caller, journal, [header], target)
    taking = caller.number_for()
    take_large(caller, target, taking)
    caller.commit(taking, 0)
    assert move(caller, journal, [header], target) == 1


def test_a_large_message_that_a_receiver_holds_does_not_move(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, target = (caller.create(name, transactional=True) for name in ("source", "target"))
    transaction, taking = caller.number_for(), caller.number_for()
    send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 3)
    (header, *_) = positions(driver, queue)
    take_large(caller, queue, taking)
    with pytest.raises(errors.MessageNotFound):
        move(caller, queue, [header], target)
    caller.call(message_frames.Abort(taking))
    assert move(caller, queue, [header], target) == 1


def test_a_large_message_that_still_comes_does_not_move(tmp_path: Path) -> None:
    net = Net(tmp_path, "ac")
    narrow(net, "a")
    here, there = net["a"].session(), net["c"].session()
    queue, target, transaction = there.create("orders"), there.create("target"), here.number_for()
    send_large(here, here.open(address("c", "orders")), 3, transaction)
    here.commit(transaction, 3)
    while not entries(net["c"], queue):
        assert net.step()
    (header, *_) = positions(net["c"], queue)
    with pytest.raises(errors.MessageNotFound, match="has not come whole yet"):
        move(there, queue, [header], target)
    net.deliver()
    assert move(there, queue, [header], target) == 1


def test_a_move_is_refused_as_a_whole_for_each_reason_by_name(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    first, second = positions(driver, queue)
    journal = caller.open("orders;journal")
    with pytest.raises(errors.AccessDenied, match="no message moves from 'orders' to 'orders'"):
        move(caller, queue, [first], queue)
    with pytest.raises(errors.AccessDenied, match="to 'orders;journal'"):
        move(caller, queue, [first], journal)
    with pytest.raises(errors.MessageNotFound, match=f"no message at position {second + 1} of"):
        move(caller, queue, [first, second + 1], other)
    inside = caller.open("orders;aside")
    with pytest.raises(errors.MessageNotFound, match=f"no message at position {second + 1} of"):
        caller.call(message_frames.Move(queue, second + 1, inside, 0))
    for target in (queue, other):
        with pytest.raises(errors.Misuse, match="moves only between 'orders' and its sub-queues"):
            caller.call(message_frames.Move(queue, first, target, 0))
    far, files = caller.open(ELSEWHERE), caller.create("files", transactional=True)
    with pytest.raises(errors.AccessDenied, match="can only be peeked at"):
        move(caller, far, [first], other)
    number = caller.number_for()
    send_large(caller, files, 2, number)
    caller.commit(number, 3)
    with pytest.raises(errors.LargeMessageMixing, match="'files'"):
        move(caller, queue, [first], files)
    number = caller.number_for()
    # It has been told that it is aborted, and stays so.
    asked = message_frames.Outcome(f"{driver.manager_id}\\{number}")
    assert caller.call(asked).status == "aborted"
    with pytest.raises(errors.TransactionAborted):
        caller.call(message_frames.MoveMessages(queue, [first], other, number))
    assert positions(driver, queue) == [first, second]


def test_a_move_names_the_message_that_it_means(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    numbers = caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    inside = caller.open("orders;aside")
    ids = [f"{driver.manager_id}\\{number}" for number in numbers]
    at = positions(driver, queue)
    stranger = f"{'f' * 32}\\{numbers[0]}"
    for message_id in (ids[1], stranger):
        with pytest.raises(errors.MessageNotFound, match="a message other than"):
            caller.call(message_frames.Move(queue, at[0], inside, 0, message_id=message_id))
    taking = caller.number_for()
    caller.receive(queue, transaction=taking)
    with pytest.raises(errors.MessageNotFound, match="a message other than"):
        caller.call(message_frames.Reject(queue, at[0], taking, message_id=ids[1]))
    assert caller.call(message_frames.Reject(queue, at[0], taking, ids[0])) == frames.Done(1)
    caller.call(message_frames.Abort(taking))
    caller.call(message_frames.Move(queue, at[0], inside, 0, message_id=ids[0]))
    caller.call(message_frames.Move(queue, at[1], inside, 0))
    assert len(entries(driver, inside)) == 2


def test_a_part_moves_alone_only_with_a_raw_handle(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files", transactional=True), caller.number_for()
    send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 3)
    inside = caller.open("files;aside")
    (_, part, *_) = positions(driver, queue)
    moving = caller.number_for()
    with pytest.raises(errors.LargeMessageMixing, match=f"at position {part} of 'files' is a part"):
        caller.call(message_frames.Move(queue, part, inside, moving))
    caller.call(message_frames.Move(queue, part, inside, moving, guarded=False))
    other = driver.session()
    with pytest.raises(errors.ReceiveTimeout):
        take_large(other, queue, other.number_for())
    caller.call(message_frames.Abort(moving))
    assert len(take_large(other, queue, other.number_for()).parts) == 2


def test_a_move_to_a_queue_without_room_is_refused_and_within_one_account_it_is_not(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("small", quota=300)
    queue, small, large = caller.open("small"), caller.create("less", quota=50), caller.create("m")
    caller.send(queue, Message(body=b"a" * 100))
    (at,) = positions(driver, queue)
    with pytest.raises(errors.QuotaExceeded):
        move(caller, queue, [at], small)
    assert positions(driver, queue) == [at]
    assert move(caller, queue, [at], large) == 1


def test_in_a_full_queue_manager_messages_move_between_queues_and_dead_letters_stay(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, Message(body=b"late", time_to_be_received=1.0, use_dead_letter_queue=True))
    driver.advance(2.0)
    dead = caller.open("system$;deadxact")
    caller.send(queue, Message(body=b"a"))
    used = look_into(driver.manager).state.ledger.stored[Account.COMPUTER]
    caller.call(queue_frames.SetQuota("", used, 1 << 20))
    assert move(caller, queue, positions(driver, queue), other) == 1
    with pytest.raises(errors.QuotaExceeded):
        move(caller, dead, positions(driver, dead), other)


def test_more_messages_than_one_fact_can_hold_do_not_move(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("other")
    caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    both = positions(driver, queue)
    most = look_into(driver.manager).fact_bytes_max
    monkeypatch.setattr("dray.manager.requests.moving.MOVED_BYTES", most // 2 + 1)
    with pytest.raises(errors.Misuse, match="move fewer at a time"):
        move(caller, queue, both, other)
    monkeypatch.setattr("dray.manager.requests.moving.MOVED_BYTES", most // 2)
    assert move(caller, queue, both, other) == 2


def test_a_message_without_a_time_has_none_where_it_is_moved_to(driver: ManagerDriver) -> None:
    caller = driver.session()
    journal, target = kept(caller, Message(body=b"a")), caller.create("target")
    move(caller, journal, positions(driver, journal), target)
    driver.advance(1_000.0)
    assert caller.receive(target)[1] == [b"a"]
