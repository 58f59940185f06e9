"""`dray check`: what is damaged is found and named, and nothing is changed by looking."""

from __future__ import annotations

import shutil
from pathlib import Path

import crc32c
import pytest

from dray.errors import StoreError, StoreLocked
from dray.manager.checking import check_store
from dray.model.message import Message
from dray.store.heap import file_name

from .conftest import Desk
from .test_large_messages import send_large


@pytest.fixture
def path(desk: Desk) -> Path:
    """A stopped manager with plain, large, journaled and outgoing messages."""
    caller = desk.session()
    orders = caller.create("orders", journal=True)
    caller.send(orders, *(Message(body=b"order %d" % n) for n in range(20)))
    caller.receive(orders, max_messages=5)
    sending = caller.number_for()
    send_large(caller, caller.create("large"), 3, sending)
    send_large(caller, caller.open("large"), 2, sending, trailer=False)
    caller.commit(sending, 5)
    caller.send(caller.open("dray://127.0.0.1:7340/elsewhere"), Message(body=b"far"))
    desk.store.checkpoint(desk.manager.snapshot())
    desk.store.close(desk.manager.snapshot())
    return desk.path


def bytes_of(path: Path) -> dict[str, tuple[bytes, int]]:
    found = sorted(each for each in path.rglob("*") if each.is_file())
    return {str(each): (each.read_bytes(), each.stat().st_mtime_ns) for each in found}


def place(desk: Desk, queue: str, at: int):
    found = desk.manager._context.state.queues.named(queue).index.everything()
    from dray.manager.index import unpack

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


def test_a_copy_of_a_live_directory_can_be_checked_and_the_live_one_cannot(desk: Desk):
    caller = desk.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    copy = desk.path.parent / "copy"
    shutil.copytree(desk.path, copy)
    assert check_store(copy).messages == 1
    with pytest.raises(StoreLocked, match="stop it first"):
        check_store(desk.path)


def test_what_is_no_data_directory_is_said_to_be_none(tmp_path: Path):
    with pytest.raises(StoreError, match="is no data directory"):
        check_store(tmp_path)
    (tmp_path / "storage").mkdir()
    with pytest.raises(StoreError, match="never started"):
        check_store(tmp_path)


@pytest.mark.parametrize("within", [0, 40, 66])
def test_a_flipped_bit_in_a_record_names_file_queue_position_and_message(
    desk: Desk, path: Path, within: int
):
    entry = place(desk, "orders", 7)
    flip(path / "storage" / file_name(entry.file), entry.offset + within)
    report = check_store(path)
    (damage,) = (each for each in report.findings if each.severity == "damage")
    assert not report.clean
    assert (damage.file, damage.queue) == (file_name(entry.file), "orders")
    assert damage.lookup_id == entry.lookup_id
    assert damage.message_id.endswith(f"\\{entry.number}")
    assert "quarantine" in damage.remedy


def test_a_heap_file_that_is_cut_short_is_named_for_each_message(desk: Desk, path: Path):
    entry = place(desk, "orders", 0)
    with (path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.truncate(entry.offset + 10)
    report = check_store(path)
    assert not report.clean
    assert {each.file for each in report.findings if each.severity == "damage"} == {
        file_name(entry.file)
    }


def test_a_missing_heap_file_is_named_as_a_start_would_name_it(desk: Desk, path: Path):
    entry = place(desk, "orders", 0)
    (path / "storage" / file_name(entry.file)).unlink()
    report = check_store(path)
    assert any(file_name(entry.file) in each.what for each in report.findings)
    assert not report.clean


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
    desk: Desk, name: str
):
    """All of them were made before the first message could be answered for."""
    caller = desk.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    copy = desk.path.parent / "copy"
    shutil.copytree(desk.path, copy)
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
    assert "Event 2076" in report.findings[-1].what


def test_a_state_that_does_not_add_up_is_found(desk: Desk, path: Path):
    """Checksums cannot tell what the manager itself got wrong."""
    state = desk.manager._context.state
    state.queues.named("orders").next_lookup_id = 3
    shutil.rmtree(path)
    again = Desk(path)
    again.store.close(desk.manager.snapshot())
    report = check_store(path)
    assert any("not below the next one" in each.what for each in report.findings)


def test_a_record_that_is_not_the_message_it_should_be_is_found(desk: Desk, path: Path):
    """A misdirected write: every checksum fits, and it is the wrong message."""
    first, second = place(desk, "orders", 0), place(desk, "orders", 1)
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
