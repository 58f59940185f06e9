"""A backup of the first version: every later one must restore it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.offline.checking import check_store
from dray.offline.restoring import restore
from dray.testing.keyed_manager import id_named
from dray.wire import message_frames, queue_frames
from tests.formats.make_backup import GOLDEN, MOMENT
from tests.unit.manager.conftest import LOG_BYTES, ManagerDriver, die_out
from tests.unit.manager.requests.test_large_messages import take_large


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[ManagerDriver]:
    report = restore(GOLDEN, tmp_path / "data", now=MOMENT + 60, log_bytes=LOG_BYTES)
    assert (report.manager_id, report.taken) == (id_named("a"), MOMENT)
    assert check_store(tmp_path / "data").clean
    yield ManagerDriver(tmp_path / "data")
    die_out()


def test_the_bytes_begin_as_the_page_says():
    data = GOLDEN.read_bytes()
    assert data[:16] == b"DRAYBKUP\x01\x00" + bytes(6)
    assert data[16:20] in (b"\x01\x00\x00\x00", b"\x01\x01\x00\x00")


def test_its_messages_come_out_with_their_positions_and_properties(driver: ManagerDriver):
    caller = driver.session()
    envelopes, found = caller.receive(caller.open("orders"))
    assert (found, [each.lookup_id for each in envelopes]) == ([b"second"], [2])
    assert caller.receive(caller.open("orders;journal"), peek=True)[1] == [b"first", b"second"]
    assert caller.receive(caller.open("dray://127.0.0.1:7340/far"), peek=True)[1] == [
        b"to be delivered"
    ]


def test_its_large_message_is_whole(driver: ManagerDriver):
    caller = driver.session()
    assert len(take_large(caller, caller.open("large"), caller.number_for()).parts) == 3


def test_its_queues_have_their_options(driver: ManagerDriver):
    info = driver.session().call(queue_frames.DescribeQueue("orders")).info
    assert (info.label, info.quota, info.transactional) == ("golden", 1 << 20, True)


def test_its_committed_transactions_are_remembered_and_others_are_not_vouched_for(
    driver: ManagerDriver,
):
    caller = driver.session()
    known = [
        caller.call(message_frames.Outcome(f"{driver.manager_id}\\{number}")).status
        for number in range(2, 9)
    ]
    assert known.count("committed") >= 2
    assert set(known) == {"committed", "unknown"}
