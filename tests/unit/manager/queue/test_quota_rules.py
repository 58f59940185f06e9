"""Who is told what when no more fits, and what counts where (R61 to R66, R74, R78)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.disk import RoomLeft
from dray.manager.entries import TAIL_BYTES, split_tails
from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.wire import message_frames, queue_frames
from tests.unit.manager.change.test_departures import acknowledged, asking, dead
from tests.unit.manager.change.test_express import Facts
from tests.unit.manager.conftest import HEAP_FILE_BYTES, LOG_BYTES, Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, Pair
from tests.unit.manager.queue.test_quotas import message, used


def asking_everything(size: int) -> Message:
    return asking(bytes(size), Acknowledge.NEGATIVE_ARRIVAL, use_dead_letter_queue=True)


DEAD_LETTER_BYTES = 2 * TAIL_BYTES + 48
"""What a fact writes of a refused message: its dead letter, and a message to its sender."""


def first(caller: Caller, queue: int) -> int:
    return caller.receive(queue, peek=True, max_messages=1)[0][0].lookup_id


def test_a_full_computer_tells_a_local_sender_and_nobody_else(driver: ManagerDriver) -> None:
    """R61: an error, no acknowledgment, no dead letter."""
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue = caller.create("orders")
    caller.call(queue_frames.SetQuota("", 1000, None))
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queue, asking_everything(1000))
    assert raised.value.quota == "computer"
    assert (acknowledged(caller), dead(caller)) == ([], [])


@pytest.mark.parametrize("transactional", [True, False])
def test_a_full_queue_tells_a_local_sender_and_all_whom_he_named(
    driver: ManagerDriver, *, transactional: bool
) -> None:
    """Semantics 3.4: the error, 0x8003 and a dead letter, each if asked; also after a crash."""
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue = caller.create("orders", transactional=transactional, quota=300)
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queue, asking_everything(400))
    number = caller.next_number
    assert raised.value.quota == "queue"
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, message(400))
    driver.crash()
    caller = driver.session()
    refused = MessageClass.NACK_Q_EXCEED_QUOTA
    assert acknowledged(caller) == [(refused, f"{driver.manager_id}\\{number}")]
    mine, other = "system$;deadxact", "system$;deadletter"
    if not transactional:
        mine, other = other, mine
    assert (dead(caller, mine), dead(caller, other)) == ([(refused, bytes(400))], [])
    assert used(caller) == (0, refused_bytes(caller, mine))


def refused_bytes(caller: Caller, name: str) -> int:
    return caller.call(queue_frames.DescribeQueue(name)).info.byte_count


def test_of_a_batch_only_what_found_no_room_is_told(driver: ManagerDriver) -> None:
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue = caller.create("orders", quota=500)
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, *[asking_everything(size) for size in (100, 400, 50)])
    refused = MessageClass.NACK_Q_EXCEED_QUOTA
    assert acknowledged(caller) == [(refused, f"{driver.manager_id}\\{caller.next_number - 1}")]
    assert dead(caller) == [(refused, bytes(400))]
    assert caller.what_is_in("system$;deadxact")[1] == [bytes(400)], "it can be received"
    assert caller.call(queue_frames.DescribeQueue("orders")).info.message_count == 0


def test_of_a_transaction_over_quota_there_is_the_error_and_no_trace(driver: ManagerDriver) -> None:
    """R67: it is aborted, and what is aborted is neither acknowledged nor a dead letter."""
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue, transaction = caller.create("orders", quota=300), caller.number_for()
    caller.send_refused(queue, asking_everything(400), transaction=transaction)
    with pytest.raises(errors.QuotaExceeded):
        caller.commit(transaction, 1)
    assert (acknowledged(caller), dead(caller)) == ([], [])


def test_a_refused_message_that_is_a_dead_letter_takes_its_room_once(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", quota=300)
    before = driver.store.live_bytes
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, Message(body=bytes(400), use_dead_letter_queue=True))
    assert driver.store.live_bytes - before == refused_bytes(caller, "system$;deadxact") > 0


def test_a_refused_message_for_which_the_dead_letters_have_no_room_is_counted(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    caller.create("acks", transactional=False)
    queue = caller.create("orders", quota=300)
    caller.call(queue_frames.SetQuota("", None, 100))
    before = driver.store.live_bytes
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, asking_everything(400))
    assert [why for why, _ in acknowledged(caller)] == [MessageClass.NACK_Q_EXCEED_QUOTA]
    assert caller.call(queue_frames.DescribeQueue("system$;deadxact")).info.copies_skipped == 1
    assert (dead(caller), driver.store.live_bytes) == ([], before)


def test_a_refused_message_for_which_the_disk_has_no_room_is_counted(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue = caller.create("orders", quota=300)

    def full(*_: object) -> None:
        raise errors.StoreFull("the disk is full", file="j0000001.mq")

    with monkeypatch.context() as patch:
        patch.setattr(driver.store, "place", full)
        with pytest.raises(errors.QuotaExceeded):
            caller.send(queue, asking_everything(400))
    assert caller.call(queue_frames.DescribeQueue("system$;deadxact")).info.copies_skipped == 1
    assert dead(caller) == []


@pytest.mark.parametrize(("room", "told"), [(2 * TAIL_BYTES, [1, 1]), (2 * DEAD_LETTER_BYTES, [2])])
def test_refused_messages_that_a_small_log_cannot_tell_of_at_once_are_told_one_by_one(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, *, room: int, told: list[int]
) -> None:
    caller = driver.session()
    queue = caller.create("orders", quota=10)
    facts = Facts(driver, monkeypatch)
    monkeypatch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: room))
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, *[Message(body=b"a", use_dead_letter_queue=True)] * 2)
    assert [len(split_tails(tails)) for each in facts.said for _, tails in each.moved] == told


@pytest.mark.parametrize(
    ("count", "room", "fits"),
    [(1, 1, True), (2, 2 * TAIL_BYTES, True), (2, 2 * TAIL_BYTES - 1, False)],
)
def test_a_batch_is_refused_if_a_small_log_could_not_hold_it_and_one_message_never_is(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, *, count: int, room: int, fits: bool
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    monkeypatch.setattr(RoomLeft, "fact_bytes_max", property(lambda _: room))
    messages = [Message(body=b"a")] * count
    if fits:
        caller.send(queue, *messages)
    else:
        with pytest.raises(errors.Misuse, match="does not fit the log: send fewer"):
            caller.send(queue, *messages)
    assert len(caller.what_is_in(queue)[1]) == (count if fits else 0)


def test_a_receive_from_any_queue_lets_in_what_a_remote_sender_tries_again(tmp_path: Path) -> None:
    """R61: the room of a computer is shared; refused for want of it means later, not never."""
    pair = Pair(tmp_path)
    there, here = pair.destination.session(), pair.source.session()
    there.call(queue_frames.SetQuota("", 1000, None))
    there.create("orders")
    other = there.create("other")
    there.send(other, message(900))
    here.create("acks", transactional=False)
    here.send(here.open(ADDRESS), asking_everything(500))
    for _ in range(3):
        pair.deliver()
        pair.source.advance(30.0)
    assert (acknowledged(here), dead(here)) == ([], [])
    there.receive(other)
    pair.deliver()
    pair.source.advance(30.0)
    pair.deliver()
    assert there.receive(there.open("orders"))[1] == [bytes(500)]


def test_a_full_remote_queue_is_acknowledged_negatively_if_asked(tmp_path: Path) -> None:
    """R63: 0x8003 to the administration queue, a dead letter at the source, then a hole."""
    pair = Pair(tmp_path)
    there, here = pair.destination.session(), pair.source.session()
    small = there.create("orders", quota=300)
    here.create("acks", transactional=False)
    queue, transaction = here.open(ADDRESS), here.number_for()
    first_one, too_big, last = Message(body=b"a"), asking_everything(500), Message(body=b"c")
    number = here.send(queue, first_one, too_big, last, transaction=transaction)[1]
    here.commit(transaction, 1)
    for _ in range(2):
        pair.deliver()
        pair.source.advance(30.0)
    refused = MessageClass.NACK_Q_EXCEED_QUOTA
    assert refused == 0x8003
    assert acknowledged(here) == [(refused, f"{pair.source.manager_id}\\{number}")]
    assert dead(here) == [(refused, bytes(500))]
    assert there.receive(small)[1] == [b"a", b"c"]


def test_a_sub_queue_counts_with_its_parent_and_a_move_changes_nothing(
    driver: ManagerDriver,
) -> None:
    """R64."""
    caller = driver.session()
    queue = caller.create("orders", quota=1000)
    caller.send(queue, message(600), message(400))
    retry = caller.open("orders;retry")
    for _ in range(2):
        caller.call(message_frames.Move(queue, first(caller, queue), retry, 0))
        assert used(caller) == (1000, 0)
        with pytest.raises(errors.QuotaExceeded):
            caller.send(queue, message(65))
    caller.receive(retry, max_messages=1)
    caller.send(queue, message(600))
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, message(65))


def test_what_the_manager_says_to_itself_counts_for_nobody(tmp_path: Path) -> None:
    """R64: what waits in internal queues for a confirmation takes no room of users."""
    pair = Pair(tmp_path)
    there, here = pair.destination.session(), pair.source.session()
    there.create("orders")
    here.send(here.open(ADDRESS), Message(body=b"a", use_dead_letter_queue=True))
    assert used(here)[0] > 0
    pair.deliver()
    # Delivered and not yet received there: the source keeps a copy in case it has to be buried.
    assert used(here) == (0, 0)
    assert pair.source.store.live_bytes > 0


def test_copies_in_a_queues_journal_count_for_the_computer_too(driver: ManagerDriver) -> None:
    """R66: a journal has its own quota, and its copies take the computer's room."""
    caller = driver.session()
    queue = caller.create("orders", journal=True, quota=1000)
    caller.send(queue, message(1000))
    caller.receive(queue)
    caller.send(queue, message(1000))
    assert used(caller) == (2000, 0)
    caller.call(queue_frames.SetQuota("", 2000, None))
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(caller.create("other"), message(65))
    assert raised.value.quota == "computer"
    caller.call(queue_frames.PurgeQueue(caller.open("orders;journal")))
    assert used(caller) == (1000, 0)
    caller.send(caller.open("other"), message(1000))


def test_the_log_stays_within_its_bound_with_one_transaction_open_all_the_time(
    driver: ManagerDriver,
) -> None:
    """R74: a checkpoint frees the log also of what an open transaction has begun."""
    caller, slow = driver.session(), driver.session()
    queue = caller.create("orders")
    open_for_long = slow.number_for()
    slow.send(queue, Message(body=b"begun first"), transaction=open_for_long)
    traffic = [Message(body=b"traffic")] * 200
    for _ in range(100):
        caller.send(queue, *traffic)
        assert len(caller.receive(queue, max_messages=200)[1]) == 200
    assert driver.store.counters.checkpoints > 3, "the log went round more than once"
    assert (driver.path / "storage" / "QMLog").stat().st_size == LOG_BYTES
    slow.commit(open_for_long, 1)
    driver.crash()
    caller = driver.session()
    assert caller.receive(caller.open("orders"))[1] == [b"begun first"]


def test_a_large_message_fits_whenever_its_bytes_do_however_scattered_the_room_is(
    driver: ManagerDriver,
) -> None:
    """R78: room is bytes; that it lies in pieces is nobody's concern."""
    caller = driver.session()
    size, count = 20_000, 30
    queue = caller.create("orders", quota=size * count)
    for _ in range(count):
        caller.send(queue, message(size))
    aside = caller.open("orders;aside")
    for number in range(count):
        if number % 2:
            caller.receive(queue, max_messages=1)
        else:
            caller.call(message_frames.Move(queue, first(caller, queue), aside, 0))
    free = size * (count // 2)
    transaction = caller.number_for()
    with pytest.raises(errors.QuotaExceeded):
        caller.call(message_frames.Reserve(queue, transaction, free + 1))
    transaction = caller.number_for()
    caller.call(message_frames.Reserve(queue, transaction, free))
    parts = [message(60_000)] * (free // 60_000)
    for part in parts:
        caller.send(queue, part, transaction=transaction)
    caller.commit(transaction, len(parts))
    assert used(caller) == (size * count, 0)
    assert driver.store.counters.heap_files <= size * count // (1 << 16) + 12


def test_queues_share_files_and_one_queue_fills_several(driver: ManagerDriver) -> None:
    """R70: a file belongs to no queue, and no message lies in two."""
    caller = driver.session()
    queues = [caller.create("one"), caller.create("two")]
    size, count = HEAP_FILE_BYTES // 5, 8
    bodies = [b"1" * size, b"2" * size]
    for _ in range(count):
        for queue, body in zip(queues, bodies, strict=True):
            caller.send(queue, Message(body=body))
    contents = [path.read_bytes() for path in (driver.path / "storage").glob("p*.mq")]
    wholes = [[content.count(body) for content in contents] for body in bodies]
    assert [sum(each) for each in wholes] == [count, count], "each lies in one file, whole"
    assert all(sum(map(bool, each)) > 1 for each in wholes)
    assert any(all(pair) for pair in zip(*wholes, strict=True))


@pytest.mark.parametrize("quota", [-5, -1, 1 << 63])
@pytest.mark.parametrize("which", ["quota", "journal_quota"])
def test_a_queue_is_not_created_with_a_quota_that_is_no_size(
    driver: ManagerDriver, which: str, quota: int
) -> None:
    """A frame may say anything, and `dray check` would end with an error ever after."""
    caller = driver.session()
    with pytest.raises(errors.InvalidArgument, match=f"^{which} is a number of bytes"):
        caller.create("orders", **{which: quota})
    caller.create("orders")
    with pytest.raises(errors.InvalidArgument, match=f"^{which} is a number of bytes"):
        caller.call(
            queue_frames.SetQuota("orders", **{"quota": 1, "journal_quota": 1, which: quota - 1})
        )
