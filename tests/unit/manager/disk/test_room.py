"""What large messages have been promised on the disk, and what others may take meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.disk.room import Promise, RoomLeft, window_of
from dray.manager.entries import TAIL_BYTES
from dray.manager.events import SessionClosed
from dray.manager.notices import NoticeKind
from dray.model import callers
from dray.model.access import Access
from dray.model.message import Message
from dray.store.limits import CHECKPOINT_BYTES, STATE_PER_FACTS
from dray.store.log.checkpoint import TRANSACTIONS
from dray.store.real_disk import RealFile
from dray.wire import batch_frames, large_frames, message_frames, queue_frames
from dray.wire.record import HEADER_BYTES
from tests.inspection import look_into
from tests.unit.manager.conftest import HEAP_FILE_BYTES, Caller, ManagerDriver

LOW = 1000


class Small:
    """Lets the disk of a driver have room for so many heap files more, and bytes beside."""

    def __init__(
        self, driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, files: int, rest: int
    ) -> None:
        self.driver, self.rest, self.left = driver, rest, files
        self._open = driver.disk.open
        monkeypatch.setattr(driver.disk, "open", self.open)
        monkeypatch.setattr(driver.disk, "free_bytes", self.free_bytes)

    def free_bytes(self) -> int:
        return self.left * HEAP_FILE_BYTES + self.rest

    def open(self, name: str, *, size: int = 0) -> RealFile:
        if size and not self.driver.disk.exists(name):
            if not self.left:
                raise errors.StoreFull(f"there is no room to open {name}.", file=name)
            self.left -= 1
        return self._open(name, size=size)


def test_a_group_of_messages_asks_the_disk_for_its_room_once(driver, monkeypatch):
    driver.leave_unchecked()
    looks = []
    monkeypatch.setattr(driver.disk, "free_bytes", lambda: looks.append(1) or 1 << 30)
    caller = driver.session()
    queue = caller.create("orders", transactional=True)
    driver.store.sync()
    looks.clear()
    free = driver.store.free_bytes(anew=False)
    for _ in range(20):
        driver.store.place(bytes(100))
    assert driver.store.free_bytes(anew=False) <= free - 20 * 100
    assert len(looks) == 1
    caller.send(queue, Message(body=b"body"))
    caller.send(queue, Message(body=b"body"))
    assert len(looks) == 2, "each call is a turn with its sync, and the first had looked already"


@pytest.fixture
def driver(tmp_path: Path) -> ManagerDriver:
    return ManagerDriver(tmp_path, low_water_bytes=LOW)


@pytest.fixture
def queue(driver: ManagerDriver) -> int:
    return driver.session().create("orders")


def part(size: int) -> Message:
    """A message of `size` bytes with its header."""
    return Message(body=bytes(size - HEADER_BYTES))


def promised(driver: ManagerDriver) -> int:
    """What of the disk is promised."""
    return look_into(driver.manager).room._promised


def test_a_refusal_is_told_once_and_none_before_somebody_was_refused(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Small(driver, monkeypatch, 0, LOW + 100)
    room = RoomLeft(driver.store, LOW)
    assert not room.take_refusal()
    room.check(100, fact_bytes=0)
    with pytest.raises(errors.StoreFull):
        room.check(101, fact_bytes=0)
    assert [room.take_refusal(), room.take_refusal()] == [True, False]
    driver.leave_unchecked()


def test_each_time_that_the_disk_is_full_and_has_room_again_is_told_once(
    driver: ManagerDriver, queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(driver.disk, "free_bytes", lambda: 0)
            driver.advance(60.0)
            for _ in range(2):
                with pytest.raises(errors.StoreFull):
                    caller.send(queue, part(100))
            assert [each.kind for each in driver.manager.notices()] == [NoticeKind.DISK_REFUSES]
        driver.advance(60.0)
        driver.advance(60.0)
        assert [each.kind for each in driver.manager.notices()] == [NoticeKind.DISK_ACCEPTS]


def test_what_one_large_message_was_promised_no_other_gets(
    driver: ManagerDriver, queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would fit alone. Both at once would fail in the middle, and take the last room."""
    Small(driver, monkeypatch, 0, LOW + 1000)
    caller, other = driver.session(), driver.session()
    first = caller.number_for()
    caller.call(message_frames.Reserve(queue, first, 600, 300))
    with pytest.raises(errors.StoreFull, match=r"only 1400 bytes are .* 401 more were"):
        other.call(message_frames.Reserve(queue, other.number_for(), 401, 300))
    with pytest.raises(errors.StoreFull):
        other.send(queue, part(401))
    begin = large_frames.UploadBegin(queue, other.number_for(), 401, b"", 300)
    with pytest.raises(errors.StoreFull):
        other.call(begin)
    other.call(message_frames.Reserve(queue, other.number_for(), 400, 300))


def test_a_stranger_is_promised_half_of_what_is_free_above_the_low_water_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ManagerDriver(tmp_path, low_water_bytes=LOW, access=Access(is_open=True))
    queue = driver.session().create("orders")
    stranger = driver.session(callers.Caller("user:mallory"))
    Small(driver, monkeypatch, 0, LOW + 1000)
    stranger.call(message_frames.Reserve(queue, stranger.number_for(), 900))
    assert promised(driver) == 500


def test_a_promise_finds_room_in_the_checkpoint_for_header_trailer_and_every_fragment(
    driver: ManagerDriver, queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(driver.store, "have_checkpoint_room", asked.append)
    caller = driver.session()
    caller.call(message_frames.Reserve(queue, caller.number_for(), 3 * 500, 500))
    assert asked == [(1 + 3 + 1) * TAIL_BYTES]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 9])
def test_what_began_finds_room_to_its_last_part_however_its_parts_lie_in_files(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """A part of five eighths of a heap file has one to itself: bytes alone would not do."""
    queue = driver.session().create("orders")
    size, parts = HEAP_FILE_BYTES * length // 9, 20
    files = -(-parts // (9 // length))
    filler = driver.session()
    small = Small(driver, monkeypatch, files - 1, LOW + HEAP_FILE_BYTES - 1)
    caller = driver.session()
    reserve = message_frames.Reserve(queue, caller.number_for(), parts * size, size)
    with pytest.raises(errors.StoreFull):
        caller.call(reserve)
    small.left, small.rest = files, LOW
    caller = driver.session()
    transaction = caller.number_for()
    caller.call(message_frames.Reserve(queue, transaction, parts * size, size))
    refused = 0
    for _ in range(parts):
        try:
            filler.send(queue, part(size))
        except errors.StoreFull:
            refused += 1
        caller.send(queue, part(size), transaction=transaction)
    caller.commit(transaction, parts)
    assert (small.left, refused > parts // 2) == (0, True)


def test_the_parts_of_a_promise_pass_the_low_water_mark_that_others_are_refused_at(
    driver: ManagerDriver, queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have filled the disk: what began is not refused before the disk refuses."""
    caller, other = driver.session(), driver.session()
    transaction = caller.number_for()
    caller.call(message_frames.Reserve(queue, transaction, 500, 500))
    other.send(queue, part(100))
    Small(driver, monkeypatch, 0, 10)
    with pytest.raises(errors.StoreFull, match="only 0 bytes are free"):
        other.send(queue, part(100))
    caller.send(queue, part(500), transaction=transaction)
    caller.commit(transaction, 1)


def end_by_commit(driver: ManagerDriver, caller: Caller, transaction: int) -> None:
    caller.commit(transaction, 1)


def end_by_abort(driver: ManagerDriver, caller: Caller, transaction: int) -> None:
    caller.call(message_frames.Abort(transaction))


def end_by_prepare(driver: ManagerDriver, caller: Caller, transaction: int) -> None:
    caller.call(message_frames.Prepare(transaction, 1))


def end_by_staging(driver: ManagerDriver, caller: Caller, transaction: int) -> None:
    caller.call(batch_frames.StageForBatch(transaction, 1, "a query", 0))


def end_by_leaving(driver: ManagerDriver, caller: Caller, transaction: int) -> None:
    driver.turn(SessionClosed(caller.number))


def end_by_deletion(driver: ManagerDriver, caller: Caller, transaction: int) -> None:
    driver.session().call(queue_frames.DeleteQueue("orders"))
    with pytest.raises(errors.TransactionAborted):
        caller.commit(transaction, 1)


@pytest.mark.parametrize(
    "end",
    [
        end_by_commit,
        end_by_abort,
        end_by_prepare,
        end_by_staging,
        end_by_leaving,
        end_by_deletion,
    ],
)
def test_a_promise_ends_with_its_transaction(
    driver: ManagerDriver, queue: int, end: object
) -> None:
    caller = driver.session()
    transaction = caller.number_for()
    caller.call(message_frames.Reserve(queue, transaction, 5_000, 900))
    caller.call(message_frames.Reserve(queue, transaction, 3_000, 800))
    caller.send(queue, part(900), transaction=transaction)
    assert promised(driver) == 7_100
    assert callable(end)
    end(driver, caller, transaction)
    assert promised(driver) == 0


def test_an_upload_keeps_its_promise_over_a_lost_connection_and_has_it_again_after_a_crash(
    driver: ManagerDriver, queue: int
) -> None:
    caller = driver.session()
    number = caller.number_for()
    state = caller.call(large_frames.UploadBegin(queue, number, 5_000, b"here", 900))
    assert promised(driver) == 5_000
    driver.turn(SessionClosed(caller.number))
    assert promised(driver) == 5_000
    driver.crash()
    assert promised(driver) == 0
    driver.session().call(large_frames.UploadResume(state.sequence_id))
    assert promised(driver) == 5_000
    driver.session().call(large_frames.UploadDrop(state.sequence_id))
    assert promised(driver) == 0


@pytest.mark.parametrize("longest", [-1, HEAP_FILE_BYTES + 1, 1 << 62])
def test_parts_that_no_heap_file_holds_are_promised_nothing(
    driver: ManagerDriver, queue: int, longest: int
) -> None:
    caller = driver.session()
    with pytest.raises(errors.InvalidArgument):
        caller.call(message_frames.Reserve(queue, caller.number_for(), 10, longest))
    assert promised(driver) == 0


@pytest.mark.parametrize(
    ("size", "longest", "footprint"),
    [
        (0, 0, 0),
        (10, 0, 10),
        (HEAP_FILE_BYTES, HEAP_FILE_BYTES, HEAP_FILE_BYTES),
        (HEAP_FILE_BYTES + 1, HEAP_FILE_BYTES, 2 * HEAP_FILE_BYTES),
        (40_000, 40_000, 40_000),
        (80_000, 40_000, 2 * HEAP_FILE_BYTES),
        (64_000, 32_000, 64_000),
        (96_000, 32_000, 2 * HEAP_FILE_BYTES),
    ],
)
def test_a_promise_counts_in_whole_files(
    driver: ManagerDriver, size: int, longest: int, footprint: int
) -> None:
    assert RoomLeft(driver.store, 0).footprint(Promise(size, longest)) == footprint


def test_parts_that_are_said_to_be_tiny_make_no_checkpoint_longer_than_a_fact_can(
    driver: ManagerDriver, queue: int
) -> None:
    """Or one sentence of a caller fills the disk with room for a state that never comes."""
    caller = driver.session()
    caller.call(message_frames.Reserve(queue, caller.number_for(), 4 << 20, 1))
    most = driver.store.log_capacity * STATE_PER_FACTS + 2 * CHECKPOINT_BYTES
    assert all(driver.disk.open(name).size() <= most for name in TRANSACTIONS)


def test_the_operator_is_told_once_that_the_disk_refuses_and_once_that_it_takes_messages_again(
    driver: ManagerDriver, queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(driver, monkeypatch, 0, LOW + 100)
    caller = driver.session()
    for _ in range(3):
        with pytest.raises(errors.StoreFull):
            caller.send(queue, part(200))
    (refuses,) = driver.manager.notices()
    assert (refuses.kind, refuses.times) == ("disk-refuses", 1)
    assert f"{LOW + 100} bytes are free and {LOW} must stay free" in refuses.sentence
    small.rest = LOW + 150
    caller.call(queue_frames.Describe())
    assert driver.manager.notices() == []
    small.rest = LOW + 200
    caller.call(queue_frames.Describe())
    (accepts,) = driver.manager.notices()
    assert (accepts.kind, accepts.times) == ("disk-accepts", 1)
    caller.call(queue_frames.Describe())
    assert driver.manager.notices() == []


def test_what_was_refused_has_a_chance_when_a_heap_file_more_is_free(driver, monkeypatch):
    """One that is refused although so much is free wants another kind of file."""
    driver.leave_unchecked()
    room = RoomLeft(driver.store, 1_000)
    for free, expected in (
        (0, 1_000 + 50 + HEAP_FILE_BYTES),
        (1_049 + HEAP_FILE_BYTES, 1_050 + HEAP_FILE_BYTES),
        (1_050 + HEAP_FILE_BYTES, 1_050 + 2 * HEAP_FILE_BYTES),
        (9_000_000, 9_000_000 + HEAP_FILE_BYTES),
    ):
        monkeypatch.setattr(type(room), "free", free)
        assert room.free_for(50) == expected


class Free:
    """The free bytes of a disk at the last look, and now."""

    def __init__(self, lately: int, now: int) -> None:
        self.lately, self.now, self.looks = lately, now, 0

    def __call__(self, *, anew: bool = True) -> int:
        self.looks += anew
        return self.now if anew else self.lately


@pytest.mark.parametrize(
    ("lately", "now", "has", "looks"),
    [
        (LOW + 10, 0, True, 0),
        (LOW + 9, LOW + 10, True, 1),
        (LOW + 9, LOW + 9, False, 1),
        (0, LOW + 11, True, 1),
    ],
)
def test_the_disk_is_looked_at_anew_only_where_the_last_look_would_refuse(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, *, lately, now, has, looks
) -> None:
    free = Free(lately, now)
    with monkeypatch.context() as patch:
        patch.setattr(driver.store, "free_bytes", free)
        assert RoomLeft(driver.store, LOW).has(10) == has
    assert free.looks == looks


def test_a_turn_has_said_enough_when_a_portion_waits_for_the_log(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = RoomLeft(driver.store, LOW)
    for short, enough in ((1, False), (0, True), (-1, True)):
        with monkeypatch.context() as patch:
            waiting = room.portion_bytes - short
            patch.setattr(driver.store, "waiting_bytes", waiting)
            assert room.has_said_enough == enough


def test_one_message_may_be_under_way_whatever_the_log() -> None:
    assert window_of(0) == 1
    assert window_of(1 << 20) > 1
