"""Journals keep what was received and what was delivered (S3-18, R56, R57)."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES, extent_of, tail_of
from dray.manager.queue import POSITION_BYTES
from dray.model.message import Message
from dray.store.kinds import Kind, kind_of
from dray.wire import frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, Pair, pair  # noqa: F401 - a fixture
from tests.unit.manager.requests.test_large_messages import send_large, take_large


def journal_of(caller: Caller, name: str = "orders;journal") -> list[bytes]:
    return caller.what_is_in(name, peek=True, guarded=False)[1]


def receive_all(pair: Pair) -> None:  # noqa: F811
    receiver = pair.destination.session()
    receiver.receive(receiver.open("orders"))
    pair.deliver()


def text(*bodies: str) -> list[Message]:
    return [Message(body=body.encode()) for body in bodies]


def test_a_received_message_joins_the_journal_at_commit_and_not_at_abort(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, *text("a", "b"))
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.call(message_frames.Abort(transaction))
    assert journal_of(caller) == []
    transaction = caller.number_for()
    caller.receive(queue, transaction=transaction)
    caller.commit(transaction, 0)
    assert journal_of(caller) == [b"a", b"b"]
    driver.crash()
    caller = driver.session()
    assert journal_of(caller) == [b"a", b"b"]
    info = caller.call(queue_frames.DescribeQueue("orders")).info
    assert (info.message_count, info.journal_count, info.journal_bytes) == (0, 2, 130)


def test_a_copy_in_a_journal_lies_in_a_journal_file(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.send(caller.create("orders", journal=True), *text("a"))
    caller.receive(caller.open("orders"))
    journal = look_into(driver.manager).state.queues.named("orders;journal")
    (entry,) = journal.index.in_position_order()
    assert kind_of(extent_of(tail_of(entry)).file) is Kind.JOURNAL


@pytest.mark.parametrize(("journal", "taken"), [(True, 2), (False, 5)])
def test_a_receive_takes_no_more_than_one_fact_can_move_to_the_journal(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, journal: bool, taken: int
) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=journal)
    caller.send(queue, *text(*"abcde"))
    two = 2 * (POSITION_BYTES + TAIL_BYTES)
    monkeypatch.setattr(RoomLeft, "portion_bytes", property(lambda _: two))
    assert len(caller.receive(queue)[1]) == taken


def test_what_is_purged_is_not_journaled(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, *text("a", "b"))
    assert caller.call(queue_frames.PurgeQueue(queue)) == frames.Done(2)
    assert journal_of(caller) == []
    assert driver.store.live_bytes == 0


def test_over_quota_the_receive_succeeds_and_the_copy_is_skipped(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True, journal_quota=130)
    caller.send(queue, *text("a", "b", "c"))
    assert caller.receive(queue)[1] == [b"a", b"b", b"c"]
    assert journal_of(caller) == [b"a", b"b"]
    assert caller.call(queue_frames.DescribeQueue("orders")).info.copies_skipped == 1


def test_nobody_sends_to_a_journal_and_anybody_may_empty_it(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, *text("a"))
    caller.receive(queue)
    journal = caller.open("orders;journal")
    with pytest.raises(errors.AccessDenied):
        caller.send(journal, *text("b"))
    assert caller.receive(journal)[1] == [b"a"]
    assert driver.store.live_bytes == 0


def test_a_journaled_large_message_is_whole_in_the_journal(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files", journal=True), caller.number_for()
    sequence = send_large(caller, queue, 3, transaction)
    caller.commit(transaction, 3)
    taking = caller.number_for()
    take_large(caller, queue, taking)
    caller.commit(taking, 0)
    journal = caller.open("files;journal")
    assert take_large(caller, journal, 0, peek=True).sequence == sequence
    driver.crash()
    caller = driver.session()
    journal = caller.open("files;journal")
    assert take_large(caller, journal, caller.number_for()).sequence == sequence


def test_a_received_message_joins_its_senders_journal_if_it_asked(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    queue = caller.open(ADDRESS)
    caller.send(queue, Message(body=b"kept", use_journal_queue=True), Message(body=b"gone"))
    pair.deliver()
    assert journal_of(pair.source.session(), "system$;journal") == []
    receive_all(pair)
    assert journal_of(pair.source.session(), "system$;journal") == [b"kept"]
    pair.source.crash()
    caller = pair.source.session()
    assert journal_of(caller, "system$;journal") == [b"kept"]
    info = caller.call(queue_frames.Describe()).info
    assert (info.bytes_used, info.journal_bytes_used) == (0, 68)


def test_both_journals_may_keep_one_message(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", journal=True)
    caller.send(queue, Message(body=b"both", use_journal_queue=True))
    caller.receive(queue)
    assert journal_of(caller) == journal_of(caller, "system$;journal") == [b"both"]
    caller.call(queue_frames.PurgeQueue(caller.open("orders;journal")))
    driver.crash()
    assert journal_of(driver.session(), "system$;journal") == [b"both"]


def test_the_computer_journals_quota_is_its_own(pair: Pair) -> None:  # noqa: F811
    caller = pair.source.session()
    caller.call(queue_frames.SetQuota("", None, 100))
    queue = caller.open(ADDRESS)
    for body in (b"kept", b"skip"):
        caller.send(queue, Message(body=body, use_journal_queue=True))
    pair.deliver()
    receive_all(pair)
    assert journal_of(pair.source.session(), "system$;journal") == [b"kept"]
    info = pair.source.session().call(queue_frames.DescribeQueue("system$;journal")).info
    assert info.copies_skipped == 1
