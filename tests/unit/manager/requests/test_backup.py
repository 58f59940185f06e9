"""Backup between two turns, and what a restore makes of it (R77, R38)."""

from __future__ import annotations

import io
import os
from pathlib import Path

import crc32c
import msgspec
import pytest

from dray.errors import BackupDamaged, Misuse, SourceUnreadable, StoreCorrupt, StoreLocked
from dray.manager.events import Answer, SessionClosed
from dray.manager.requests import backup
from dray.model.message import Message
from dray.offline.backup import back_up_stopped
from dray.offline.checking import check_store
from dray.offline.restoring import SUFFIX, restore
from dray.store.heap.heap import Extent
from dray.store.real_disk import RealDisk
from dray.wire import backup_frames, frames, message_frames, queue_frames, selections
from dray.wire.archive import pack_runs
from dray.wire.record import HEADER_BYTES
from tests.inspection import look_into
from tests.unit.manager.conftest import LOG_BYTES, Caller, ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large
from tests.unit.manager.requests.test_uploads import Sender, half_way
from tests.unit.manager.restores import draw

LATER = 1_700_001_000.0
CHANGED_BY_A_RESTORE = ("last_position", "next_position", "born")


def begin(caller: Caller) -> backup_frames.BackupBegun:
    begun = caller.call(backup_frames.Backup())
    assert isinstance(begun, backup_frames.BackupBegun)
    return begun


def restored(
    driver: ManagerDriver, archive: bytes, name: str = "restored", now: float = LATER
) -> ManagerDriver:
    path = driver.path.parent / name
    restore(io.BytesIO(archive), path, now=now, log_bytes=LOG_BYTES)
    again = ManagerDriver(path)
    again.now = now
    return again


def bodies(driver: ManagerDriver, queue: str) -> list[bytes]:
    caller = driver.session()
    _, found = caller.receive(caller.open(queue), peek=True, max_messages=1_000)
    return found


def test_a_backup_holds_the_moment_in_which_it_was_asked_for(driver: ManagerDriver):
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *(Message(body=b"before %d" % n) for n in range(50)))
    begun = begin(caller)
    assert begun.messages == 50
    other.receive(queue, max_messages=30)
    other.send(queue, *(Message(body=os.urandom(1000)) for _ in range(30)))
    again = restored(driver, draw(caller, begun))
    assert bodies(again, "orders") == [b"before %d" % n for n in range(50)]


def test_heap_files_are_kept_while_they_are_read_and_let_go_afterwards(driver: ManagerDriver):
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    for _ in range(10):
        caller.send(queue, Message(body=os.urandom(40_000)))
    begun = begin(caller)
    other.receive(queue)
    for _ in range(20):
        other.send(queue, Message(body=b"x" * 40_000))
        other.receive(queue)
    archive = draw(caller, begun)
    assert len(bodies(restored(driver, archive), "orders")) == 10
    files = driver.store.counters
    assert files.free_heap_files >= files.heap_files - 4


def test_a_client_that_goes_away_lets_go_of_everything(driver: ManagerDriver):
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"x" * 40_000))
    begin(caller)
    with pytest.raises(Misuse, match="another backup"):
        begin(other)
    driver.turn(SessionClosed(caller.number))
    other.receive(queue)
    assert driver.store.live_bytes == 0
    draw(other, begin(other))


@pytest.fixture
def small_portions(monkeypatch):
    """Ten places a tick, and a hundred bytes of the state."""
    monkeypatch.setattr(backup, "_PORTION_RECORDS", 10)
    monkeypatch.setattr(backup, "BACKUP_PIECE_BYTES", 100)


def until_begun(driver: ManagerDriver, caller: Caller, request: int) -> backup_frames.BackupBegun:
    for _ in range(10_000):
        answers = caller.answers(request)
        if answers:
            (answer,) = answers
            assert isinstance(answer.head, backup_frames.BackupBegun)
            return answer.head
        assert driver.manager.deadline() == driver.now
        driver.advance(0.0)
    raise AssertionError("it never begins")


@pytest.mark.usefixtures("small_portions")
def test_what_happens_while_it_is_prepared_is_not_in_it(driver: ManagerDriver):
    """Messages come, leave and are held, and heap files are wanted for others."""
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    caller.send(queue, *(Message(body=b"before %d" % n) for n in range(200)))
    other.receive(queue, transaction=other.number_for(), max_messages=3)
    request = caller.ask(backup_frames.Backup())
    ticks = 0
    while not caller.answers(request):
        other.receive(queue, max_messages=5)
        other.send(queue, *(Message(body=os.urandom(500)) for _ in range(3)))
        driver.advance(0.0)
        ticks += 1
    assert ticks > 20
    begun = until_begun(driver, caller, request)
    assert begun.messages == 200
    archive = draw(caller, begun)
    again = restored(driver, archive)
    assert bodies(again, "orders") == [b"before %d" % n for n in range(200)]
    again.disk.close()
    assert check_store(again.path).clean


@pytest.mark.usefixtures("small_portions")
def test_a_client_that_goes_away_before_it_has_begun_lets_go_of_everything(driver: ManagerDriver):
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    for _ in range(5):
        caller.send(queue, *[Message(body=b"x" * 4_000)] * 10)
    caller.ask(backup_frames.Backup())
    with pytest.raises(Misuse, match="another backup"):
        other.call(backup_frames.Backup())
    driver.turn(SessionClosed(caller.number))
    other.receive(queue, max_messages=50)
    assert driver.store.live_bytes == 0
    assert driver.store.counters.free_heap_files >= driver.store.counters.heap_files - 4
    draw(other, until_begun(driver, other, other.ask(backup_frames.Backup())))


@pytest.mark.usefixtures("small_portions")
def test_nothing_is_drawn_of_a_backup_that_is_being_prepared(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.create("orders"), *[Message(body=b"x")] * 50)
    caller.ask(backup_frames.Backup())
    with pytest.raises(Misuse, match="no backup is under way"):
        caller.call(backup_frames.BackupRead())


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize("lost", [Path.unlink, lambda file: os.truncate(file, 40_000)])
def test_without_a_heap_file_it_is_refused_by_name_and_holds_nothing(driver: ManagerDriver, lost):
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(9):
        caller.send(queue, Message(body=os.urandom(30_000)))
    lost(driver.path / "storage" / "p0000002.mq")
    driver.crash()
    caller = driver.session()
    for _ in range(2):
        request = caller.ask(backup_frames.Backup())
        while not caller.answers(request):
            driver.advance(0.0)
        (answer,) = caller.answers(request)
        assert isinstance(answer.head, frames.Failed)
        assert (answer.head.error, answer.head.fields["file"]) == ("store-corrupt", "p0000002.mq")
        assert "purge that queue" in answer.head.sentence
    caller.call(queue_frames.DeleteQueue("orders"))
    assert driver.store.live_bytes == 0
    assert driver.store.counters.free_heap_files >= driver.store.counters.heap_files - 4


def test_a_piece_without_a_backup_is_refused(driver: ManagerDriver):
    with pytest.raises(Misuse, match="no backup is under way"):
        driver.session().call(backup_frames.BackupRead())


def test_a_backup_that_was_given_to_its_end_is_over(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    draw(caller, begin(caller))
    with pytest.raises(Misuse, match="no backup is under way"):
        caller.call(backup_frames.BackupRead())


def test_the_first_answer_waits_for_the_sync_and_pieces_do_not(driver: ManagerDriver):
    caller = driver.session()
    begin(caller)
    caller.call(backup_frames.BackupRead())
    held = {
        type(effect.head): effect.held for effect in driver.effects if isinstance(effect, Answer)
    }
    assert held[backup_frames.BackupBegun]
    assert not held[backup_frames.BackupPiece]


def test_the_checksum_of_every_record_goes_with_it(driver: ManagerDriver):
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *(Message(body=b"%d" % n) for n in range(5)))
    begin(caller)
    caller.call_whole(backup_frames.BackupRead())
    head, body = caller.call_whole(backup_frames.BackupRead())
    at = 0
    for offset in range(0, len(head.checks), 8):
        length = int.from_bytes(head.checks[offset : offset + 4], "little")
        crc = int.from_bytes(head.checks[offset + 4 : offset + 8], "little")
        assert crc32c.crc32c(body[at : at + length]) == crc
        at += length
    assert at == len(body)
    assert len(head.runs) == len(pack_runs([(1, 0, at)])), "what lies together is one run"


@pytest.mark.usefixtures("small_portions")
def test_a_record_longer_than_a_piece_is_a_piece_of_its_own(driver: ManagerDriver):
    caller = driver.session()
    queue, sent = caller.create("orders"), [bytes([n]) * 1_000 for n in range(3)]
    caller.send(queue, *(Message(body=each) for each in sent))
    begun = until_begun(driver, caller, caller.ask(backup_frames.Backup()))
    assert bodies(restored(driver, draw(caller, begun)), "orders") == sent


def test_a_restored_manager_has_the_same_queues_messages_positions_and_ids(driver: ManagerDriver):
    caller = driver.session()
    queue = caller.create("orders", label="what was ordered", quota=1 << 20)
    caller.create("audited", journal=True)
    caller.call(queue_frames.SetQuota("", 1 << 30, 1 << 29))
    numbers = caller.send(queue, Message(body=b"one", label="first"), Message(body=b"two"))
    transaction = caller.number_for()
    caller.send(queue, Message(body=b"three"), transaction=transaction)
    caller.commit(transaction, 1)
    sending = caller.number_for()
    sequence = send_large(caller, caller.create("large"), 3, sending)
    caller.commit(sending, 3)
    again = restored(driver, draw(caller, begin(caller)))
    assert again.manager.id == driver.manager.id
    asks = again.session()
    envelopes, found = asks.receive(asks.open("orders"), peek=True)
    assert found == [b"one", b"two", b"three"]
    assert [each.lookup_id for each in envelopes] == [1, 2, 3]
    before, after = (
        {info.name: info for info in session.call(queue_frames.ListQueues()).queues}
        for session in (caller, asks)
    )
    for name, info in after.items():
        # The next messages get positions that the lost manager cannot have given meanwhile.
        assert info.last_position > before[name].last_position
        # Readers that know positions of the lost manager have to notice the restore.
        assert info.born > before[name].born
        alike = {each: getattr(before[name], each) for each in CHANGED_BY_A_RESTORE}
        after[name] = msgspec.structs.replace(info, **alike)
    assert after == before
    state = look_into(again.manager).state
    assert state.ledger.limits == look_into(driver.manager).state.ledger.limits
    (message_id,) = (f"{driver.manager_id}\\{numbers[1]}",)
    select = selections.SelectById(message_id)
    assert asks.receive(asks.open("orders"), peek=True, select=select)[1] == [b"two"]
    assert take_large(asks, asks.open("large"), asks.number_for()).sequence == sequence
    outcome = asks.call(message_frames.Outcome(f"{driver.manager_id}\\{transaction}"))
    assert outcome.status == "committed"


def test_a_backup_during_an_upload_can_be_restored_and_has_no_part_of_it(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    sender = Sender(caller, caller.create("files"))
    half_way(sender)
    begun = begin(caller)
    assert begun.messages == 1
    again = restored(driver, draw(caller, begun))
    assert bodies(again, "orders") == [b"one"]
    assert sender.resume(again.session()).status == "unknown"


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_prepared_when_a_backup_was_taken_is_settled_after_the_restore(
    driver: ManagerDriver, commit: bool
):
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    caller.send(queue, Message(body=b"sent"), transaction=transaction)
    caller.call(message_frames.Prepare(transaction, 1))
    again = restored(driver, draw(caller, begin(caller)))
    asks = again.session()
    assert asks.what_is_in("orders", peek=True)[1] == []
    name = f"{driver.manager_id}\\{transaction}"
    asks.call(message_frames.SettlePrepared(name, commit=commit))
    assert asks.what_is_in("orders", peek=True)[1] == [b"sent"] * commit


def test_no_number_that_may_have_been_given_out_since_is_given_out_again(driver: ManagerDriver):
    caller = driver.session()
    queue = caller.create("orders")
    archive = draw(caller, begin(caller))
    lost = caller.send(queue, *(Message(body=b"after") for _ in range(100)))
    other = driver.session()
    late = caller.create("made after the backup")
    again = restored(driver, archive)
    asks = again.session()
    assert asks.next_number > max(*lost, other.next_number)
    fresh = asks.send(asks.open("orders"), Message(body=b"new"))
    assert fresh[0] > max(lost)
    envelopes, _ = asks.receive(asks.open("orders"))
    assert envelopes[0].lookup_id > 100
    assert asks.create("made again") > late
    outcome = asks.call(message_frames.Outcome(f"{driver.manager_id}\\{lost[0]}"))
    assert outcome.status == "unknown"


@pytest.mark.parametrize("back_s", [1.0, 86_400.0, LATER])
def test_a_clock_that_was_set_back_before_a_restore_leads_to_no_number_twice(
    driver: ManagerDriver, back_s: float
):
    first = driver.session()
    first.create("orders")
    once = restored(driver, draw(first, begin(first)), "once")
    caller = once.session()
    queue = caller.open("orders")
    archive = draw(caller, begin(caller))
    given = set(caller.send(queue, *(Message(body=b"after") for _ in range(100))))
    places = {each.lookup_id for each in caller.receive(queue, max_messages=100)[0]}
    for at, name in enumerate(("twice", "thrice")):
        again = restored(once, archive, name, LATER - back_s + at)
        asks = again.session()
        orders = asks.open("orders")
        outcome = asks.call(message_frames.Outcome(f"{driver.manager_id}\\{max(given)}"))
        assert outcome.status == "unknown"
        fresh = asks.send(orders, Message(body=b"new"))
        (envelope,), _ = asks.receive(orders)
        assert given.isdisjoint(fresh)
        assert envelope.lookup_id not in places
        given.update(fresh)
        places.add(envelope.lookup_id)


def test_a_restored_manager_that_crashes_is_still_restored(driver: ManagerDriver):
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"one"))
    again = restored(driver, draw(caller, begin(caller)))
    again.crash()
    assert bodies(again, "orders") == [b"one"]
    assert again.session().next_number > LATER


@pytest.mark.parametrize("name", ["MQTrans.lg1", "MQTrans.lg2"])
def test_either_checkpoint_of_a_restored_manager_is_enough(driver: ManagerDriver, name: str):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    path = driver.path.parent / "restored"
    restore(io.BytesIO(draw(caller, begin(caller))), path, now=LATER, log_bytes=LOG_BYTES)
    damage(path / "storage" / name, 700)
    assert bodies(ManagerDriver(path), "orders") == [b"one"]


def test_a_restored_manager_without_a_whole_checkpoint_refuses_instead_of_beginning_anew(
    driver: ManagerDriver,
):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    path = driver.path.parent / "restored"
    restore(io.BytesIO(draw(caller, begin(caller))), path, now=LATER, log_bytes=LOG_BYTES)
    for name in ("MQTrans.lg1", "MQTrans.lg2"):
        damage(path / "storage" / name, 700)
    with pytest.raises(StoreCorrupt) as refusal:
        ManagerDriver(path)
    assert refusal.value.event in {2064, 2079}


def test_only_an_empty_directory_is_restored_into(driver: ManagerDriver, tmp_path: Path):
    caller = driver.session()
    archive = draw(caller, begin(caller))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(Misuse, match="is not empty"):
        restore(io.BytesIO(archive), tmp_path / "full", now=LATER)
    assert [each.name for each in (tmp_path / "full").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    restore(io.BytesIO(archive), tmp_path / "empty", now=LATER, log_bytes=LOG_BYTES)
    assert check_store(tmp_path / "empty").clean


def test_an_archive_that_cannot_be_read_is_named_with_what_to_do(tmp_path: Path):
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(SourceUnreadable, match="; mend that, or name another archive"):
            restore(missing, tmp_path / "restored", now=LATER)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_restore_that_failed(driver: ManagerDriver, tmp_path: Path):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=os.urandom(5000)))
    archive = bytearray(draw(caller, begin(caller)))
    archive[-3000] ^= 1
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BackupDamaged):
        restore(io.BytesIO(bytes(archive)), tmp_path / "new", now=LATER)
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_killed_restore_left_is_in_nobodys_way(driver: ManagerDriver, tmp_path: Path):
    caller = driver.session()
    archive = draw(caller, begin(caller))
    left = tmp_path / f"new{SUFFIX}" / "storage"
    left.mkdir(parents=True)
    (left / "p0000001.mq").write_bytes(b"half")
    restore(io.BytesIO(archive), tmp_path / "new", now=LATER, log_bytes=LOG_BYTES)
    assert not left.exists()
    assert check_store(tmp_path / "new").clean


def test_two_restores_do_not_build_in_one_place(driver: ManagerDriver, tmp_path: Path):
    caller = driver.session()
    archive = draw(caller, begin(caller))
    first = RealDisk(tmp_path / f"new{SUFFIX}")
    first.lock()
    try:
        with pytest.raises(StoreLocked):
            restore(io.BytesIO(archive), tmp_path / "new", now=LATER)
    finally:
        first.close()


def test_a_stopped_manager_gives_the_same_backup(driver: ManagerDriver, tmp_path: Path):
    caller = driver.session()
    caller.send(caller.create("orders"), *(Message(body=b"%d" % n) for n in range(100)))
    with pytest.raises(StoreLocked):
        offline(driver.path)
    driver.store.close(driver.manager.snapshot())
    path = tmp_path / "restored"
    restore(io.BytesIO(offline(driver.path)), path, now=LATER, log_bytes=LOG_BYTES)
    assert bodies(ManagerDriver(path), "orders") == [b"%d" % n for n in range(100)]


def test_a_damaged_record_is_not_backed_up(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"x" * 500))
    ((extent, _),) = look_into(driver.manager).state.live()
    assert isinstance(extent, Extent)
    driver.store.close(driver.manager.snapshot())
    damage(driver.path / "storage" / "p0000001.mq", extent.offset + 100)
    with pytest.raises(StoreCorrupt, match=r"p0000001\.mq"):
        offline(driver.path)


def offline(path: Path) -> bytes:
    out = io.BytesIO()
    back_up_stopped(path, out.write, lambda *_: None, now=LATER, version="1.0")
    return out.getvalue()


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


@pytest.mark.parametrize("bound", ["BACKUP_PIECE_RECORDS", "BACKUP_PIECE_BYTES"])
def test_a_piece_holds_as_many_records_as_its_bounds_allow(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    caller = driver.session()
    size = 10_000
    caller.send(caller.create("orders"), *[Message(body=bytes(size - HEADER_BYTES))] * 5)
    monkeypatch.setattr(backup, bound, 2 if bound.endswith("RECORDS") else 2 * size)
    begin(caller)
    counts = []
    while (answer := caller.call_whole(backup_frames.BackupRead()))[1]:
        counts.append(len(answer[0].checks) // backup.BACKUP_CHECK.size)
    assert [each for each in counts if each] == [2, 2, 1]


def test_a_backup_lets_go_at_once_of_files_of_which_it_takes_nothing(driver: ManagerDriver):
    caller = driver.session()
    queue, transaction = caller.create("orders"), caller.number_for()
    for _ in range(3):
        caller.send(queue, Message(body=bytes(40_000)), transaction=transaction)
    before = driver.store.counters.heap_files
    assert begin(caller).messages == 0
    caller.call(message_frames.Abort(transaction))
    for _ in range(3):
        caller.send(queue, Message(body=bytes(40_000)))
    assert driver.store.counters.heap_files == before, "they are written again"
