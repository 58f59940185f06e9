"""`dray check`: what is damaged is found and named, and nothing is changed by looking."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import crc32c
import pytest

from dray.cli.commands.check import _lines
from dray.errors import StoreCorrupt, StoreError, StoreLocked
from dray.model.message import Message
from dray.offline.backup import back_up_stopped
from dray.offline.checking import check_store
from dray.offline.inspecting import look_at_queue
from dray.offline.stopped import Offline
from dray.offline.story import tell_story
from dray.store.decisions import LOG_NAME
from dray.store.heap.heap import file_name
from dray.store.heap.maps import MAP_NAMES
from dray.store.log.checkpoint import TRANSACTIONS, examine
from dray.store.log.group import Group, encode, length_before
from dray.store.manifest import MANIFEST_NAME
from dray.store.reading import ReadOnlyDisk
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large


@pytest.fixture
def path(driver: ManagerDriver) -> Path:
    """A stopped manager with plain, large, journaled and outgoing messages."""
    caller = driver.session()
    orders = caller.create("orders", journal=True)
    caller.send(orders, *(Message(body=b"order %d" % n) for n in range(20)))
    caller.receive(orders, max_messages=5)
    sending = caller.number_for()
    send_large(caller, caller.create("large"), 3, sending)
    send_large(caller, caller.open("large"), 2, sending, trailer=False)
    caller.commit(sending, 5)
    caller.send(caller.open("dray://127.0.0.1:7340/elsewhere"), Message(body=b"far"))
    driver.store.checkpoint(driver.manager.snapshot())
    driver.store.close(driver.manager.snapshot())
    return driver.path


def bytes_of(path: Path) -> dict[str, tuple[bytes, int]]:
    found = sorted(each for each in path.rglob("*") if each.is_file())
    return {str(each): (each.read_bytes(), each.stat().st_mtime_ns) for each in found}


def place(driver: ManagerDriver, queue: str, at: int):
    found = look_into(driver.manager).state.queues.named(queue).index.everything()
    from dray.manager.entries import unpack

    return unpack(found[at])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_a_sound_data_directory_is_clean_and_stays_as_it_was(path: Path):
    before = bytes_of(path)
    report = check_store(path)
    assert report.clean
    assert (report.messages, report.large_messages) == (20 + 5 + 3 + 1, 0)
    assert {each.severity for each in report.findings} <= {"note"}
    assert bytes_of(path) == before


def test_a_copy_of_a_live_directory_can_be_checked_and_the_live_one_cannot(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    copy = driver.path.parent / "copy"
    shutil.copytree(driver.path, copy)
    assert check_store(copy).messages == 1
    with pytest.raises(StoreLocked, match="stop it first"):
        check_store(driver.path)


def test_payload_that_only_the_log_has_is_there_for_all_who_look_at_a_stopped_store(
    driver: ManagerDriver,
):
    caller = driver.session()
    orders = caller.create("orders")
    caller.send(orders, Message(body=b"the first makes the message file durable"))
    for number in range(3):
        caller.send(orders, Message(body=b"order %d" % number))
    at = [place(driver, "orders", number).extent for number in range(1, 4)]
    copy = driver.path.parent / "copy"
    shutil.copytree(driver.path, copy)
    # A power failure took them; the commits synced the log alone.
    heap = copy / "storage" / file_name(at[0].file)
    data = bytearray(heap.read_bytes())
    for extent in at:
        data[extent.offset : extent.offset + extent.length] = bytes(extent.length)
    heap.write_bytes(data)
    before = bytes_of(copy)
    report = check_store(copy)
    assert report.clean
    assert report.messages == 4
    assert all(seen.intact for seen in look_at_queue(copy, "orders", 10))
    message_id = look_at_queue(copy, "orders", 10)[2].message_id
    assert [seen.message_id for seen in tell_story(copy, message_id).now] == [message_id]
    # A backup refuses a record that does not fit its checksum.
    backup = back_up_stopped(copy, lambda _: None, lambda *_: None, now=0.0, version="1")
    assert backup.messages == 4
    assert bytes_of(copy) == before


def test_what_is_no_data_directory_is_said_to_be_none(tmp_path: Path):
    with pytest.raises(StoreError, match="is not a data directory"):
        check_store(tmp_path)
    (tmp_path / "storage").mkdir()
    with pytest.raises(StoreError, match="never started"):
        check_store(tmp_path)


@pytest.mark.parametrize("within", [0, 40, 66])
def test_a_flipped_bit_in_a_record_names_file_queue_position_and_message(
    driver: ManagerDriver, path: Path, within: int
):
    entry = place(driver, "orders", 7)
    flip(path / "storage" / file_name(entry.file), entry.offset + within)
    report = check_store(path)
    (damage,) = (each for each in report.findings if each.severity == "damage")
    assert not report.clean
    assert (damage.file, damage.queue) == (file_name(entry.file), "orders")
    assert damage.lookup_id == entry.lookup_id
    assert damage.message_id.endswith(f"\\{entry.number}")
    assert "quarantine" in damage.remedy


def test_a_heap_file_that_is_cut_short_is_named_for_each_message(driver: ManagerDriver, path: Path):
    entry = place(driver, "orders", 0)
    with (path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.truncate(entry.offset + 10)
    report = check_store(path)
    assert not report.clean
    assert {each.file for each in report.findings if each.severity == "damage"} == {
        file_name(entry.file)
    }


def test_a_missing_heap_file_is_named_as_a_start_would_name_it(driver: ManagerDriver, path: Path):
    entry = place(driver, "orders", 0)
    (path / "storage" / file_name(entry.file)).unlink()
    report = check_store(path)
    assert any(file_name(entry.file) in each.what for each in report.findings)
    assert not report.clean


def test_a_group_that_is_there_in_part_is_in_doubt_and_no_damage(path: Path):
    """It is what a power failure leaves of a commit that nobody was told of."""
    with Offline(path) as offline:
        offline.load()
        chain, capacity = offline.chain, offline.capacity
    begun = Group(chain.end, chain.end, chain.next_fact, capacity, chain.epoch, 1, 0, length=0)
    image = encode(begun, (), length_before(800) + b"fact" * 200)
    with (path / "storage" / LOG_NAME).open("r+b") as log:
        log.seek(chain.end % capacity)
        log.write(image[:512])
    report = check_store(path)
    (doubt,) = (each for each in report.findings if each.severity == "doubt")
    assert report.clean
    assert doubt.file == LOG_NAME
    assert "in doubt" in doubt.what
    *_, last = _lines(report)
    assert last.endswith("; nothing is damaged for certain; in doubt: 1")


@pytest.mark.parametrize("kind", ["p", "j"])
def test_a_message_file_that_lost_only_free_room_is_damage(path: Path, kind: str):
    with Offline(path) as offline:
        ends = {
            file_name(extent.file): extent.offset + extent.length
            for extent, _ in sorted(offline.load().live())
        }
    name, end = next((name, end) for name, end in ends.items() if name.startswith(kind))
    made = (path / "storage" / name).stat().st_size
    os.truncate(path / "storage" / name, end)
    (found,) = (each for each in check_store(path).findings if each.severity == "damage")
    assert found.file == name
    assert (
        found.what == f"it has {end} bytes and was made with {made}; the missing part held nothing"
    )


def test_an_empty_message_file_that_is_short_is_in_doubt(path: Path):
    """A power failure while it is made can leave its name without its size."""
    (path / "storage/p0000777.mq").touch()
    report = check_store(path)
    (found,) = (each for each in report.findings if each.severity == "doubt")
    assert (report.clean, found.file) == (True, "p0000777.mq")


@pytest.mark.parametrize("name", MAP_NAMES)
def test_a_map_that_lost_only_free_room_is_damage(path: Path, name: str):
    os.truncate(path / "storage" / name, 60_000)
    (found,) = (each for each in check_store(path).findings if each.severity == "damage")
    assert (found.file, found.what) == (name, "it was cut off, but has everything that counts")


@pytest.mark.parametrize("name", ["MQTrans.lg1", "MQTrans.lg2"])
def test_one_damaged_checkpoint_is_damage_though_a_start_would_succeed(path: Path, name: str):
    flip(path / "storage" / name, 520)
    report = check_store(path)
    found = [each for each in report.findings if each.severity == "damage"]
    assert found[0].file == name
    assert not report.clean


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("MQTrans.lg1", "MQTrans.lg2"),
        ("MQTrans.lg2", "MQTrans.lg1"),
        ("MQInSeqs.lg1", "MQInSeqs.lg2"),
        ("MQInSeqs.lg2", "MQInSeqs.lg1"),
    ],
)
def test_one_missing_checkpoint_is_damage_that_names_the_one_that_is_used(
    path: Path, name: str, other: str
):
    (path / "storage" / name).unlink()
    report = check_store(path)
    (found,) = (each for each in report.findings if each.severity == "damage")
    assert (found.file, found.what) == (name, "it is missing")
    assert found.remedy.startswith(f"{other} is used")
    assert not report.clean


@pytest.mark.parametrize("name", ["MQTrans.lg1", "MQInSeqs.lg2", "l0000001.mq"])
def test_a_file_that_is_missing_before_the_first_checkpoint_is_damage_that_the_log_makes_good(
    driver: ManagerDriver, name: str
):
    """All of them were made before the first message could be answered for."""
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    copy = driver.path.parent / "copy"
    shutil.copytree(driver.path, copy)
    (copy / "storage" / name).unlink()
    report = check_store(copy)
    assert report.messages == 1
    (found,) = (each for each in report.findings if each.severity == "damage")
    assert (found.file, found.what) == (name, "it is missing")
    instead = "it is not needed" if name.startswith("l") else "the log has all of it"
    assert found.remedy == f"{instead}; a start makes this one anew"


def test_a_log_that_a_start_would_refuse_is_told_with_its_event(path: Path):
    (path / "storage" / "QMLog").unlink()
    report = check_store(path)
    assert not report.clean
    assert "event 2076" in report.findings[-1].what


def test_a_state_that_does_not_add_up_is_found(driver: ManagerDriver, path: Path):
    """Checksums cannot tell what the manager itself got wrong."""
    state = look_into(driver.manager).state
    state.queues.named("orders").next_lookup_id = 3
    shutil.rmtree(path)
    again = ManagerDriver(path)
    again.store.close(driver.manager.snapshot())
    report = check_store(path)
    assert any("not below the next one" in each.what for each in report.findings)


def test_a_record_that_is_not_the_message_it_should_be_is_found(driver: ManagerDriver, path: Path):
    """A misdirected write: every checksum fits, and it is the wrong message."""
    first, second = place(driver, "orders", 0), place(driver, "orders", 1)
    storage = path / "storage" / file_name(first.file)
    data = bytearray(storage.read_bytes())
    record = data[second.offset : second.offset + second.length]
    assert first.length == second.length
    data[first.offset : first.offset + first.length] = record
    storage.write_bytes(data)
    assert crc32c.crc32c(bytes(record)) == second.crc
    report = check_store(path)
    assert [each.lookup_id for each in report.findings if each.queue == "orders"] == [
        first.lookup_id
    ]


# ------------------------------------------------------------ what a start does not need, or misses


def told(path: Path) -> list[tuple[str, str, str]]:
    before = bytes_of(path)
    report = check_store(path)
    assert bytes_of(path) == before
    return [
        (each.file, each.what, each.remedy) for each in report.findings if each.severity == "damage"
    ]


def zero(file: Path, at: int, length: int) -> None:
    with file.open("r+b") as open_file:
        open_file.seek(at)
        open_file.write(bytes(length))


def test_the_log_before_the_newest_checkpoint_is_followed_too(driver: ManagerDriver):
    caller, path = driver.session(), driver.path
    orders = caller.create("orders")
    driver.store.checkpoint(driver.manager.snapshot())
    caller.send(orders, Message(body=b"between the two"))
    driver.store.close(driver.manager.snapshot())
    assert told(path) == []
    (newest, older) = sorted(
        (examine(ReadOnlyDisk(path), name)[1] for name in TRANSACTIONS),
        key=lambda mark: -mark.generation,
    )
    assert older.lsn < newest.lsn
    zero(path / "storage" / "QMLog", older.lsn, 512)
    ((file, what, remedy),) = told(path)
    assert file == "QMLog"
    assert what == f"the group at byte {older.lsn} is damaged, before the newest checkpoint"
    assert "only if that one is lost" in remedy


def test_a_log_that_was_cut_in_its_free_room_is_told(path: Path):
    log = path / "storage" / "QMLog"
    os.truncate(log, log.stat().st_size - 4096)
    assert ("QMLog", "it was cut off, but has everything that counts") in [
        each[:2] for each in told(path)
    ]


def test_a_map_that_is_damaged_is_told(path: Path):
    for name in MAP_NAMES:
        zero(path / "storage" / name, 0, 512)
    ((file, _, remedy),) = told(path)
    assert file in MAP_NAMES
    assert remedy.startswith("it is not needed")


def test_a_manifest_that_cannot_be_read_is_told(path: Path):
    (path / MANIFEST_NAME).write_text("{")
    assert [each[:2] for each in told(path)] == [(MANIFEST_NAME, "it cannot be read")]


def test_a_store_without_any_message_file_is_one_that_a_start_refuses(path: Path):
    for file in (path / "storage").glob("[pj]*.mq"):
        file.unlink()
    refusals = [each for each in told(path) if each[2] == "a start refuses"]
    ((_, what, _),) = refusals
    assert what.startswith("event 2083: ")
    with pytest.raises(StoreCorrupt, match="event 2083"):
        ManagerDriver(path)


def test_a_message_whose_file_is_gone_is_one_that_a_start_puts_aside(
    driver: ManagerDriver, path: Path
):
    entry = place(driver, "orders", 7)
    kept = file_name(entry.file)
    others = [each for each in (path / "storage").glob("[pj]*.mq") if each.name != kept]
    assert others
    (path / "storage" / kept).unlink()
    remedies = {remedy for file, _, remedy in told(path) if file == kept}
    assert remedies == {"bring the file back; a start without it puts the message into quarantine"}
    again = ManagerDriver(path)
    assert any("will be kept unread" in each for each in again.store.report.notices())


def test_a_folder_in_the_place_of_a_file_is_a_finding(path: Path):
    (path / "storage" / "p0000999.mq").mkdir()
    ((file, what, remedy),) = told(path)
    assert (file, remedy) == ("p0000999.mq", "a start refuses")
    assert "move it away" in what


def test_two_zeroed_checkpoint_files_are_said_to_be_refused_and_not_mended(path: Path):
    for name in TRANSACTIONS:
        zero(path / "storage" / name, 0, 64 << 10)
    remedies = [remedy for _, _, remedy in told(path)]
    assert remedies == [
        "the other one of the pair cannot be used either, so a start refuses",
        "the other one of the pair cannot be used either, so a start refuses",
        "a start refuses",
    ]
