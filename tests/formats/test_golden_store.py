"""A data directory of the first version: every later one must open it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from dray.store.log.checkpoint import NAMES, CheckpointState, examine
from dray.store.reading import ReadOnlyDisk
from dray.store.real_disk import RealDisk
from dray.testing.harness import MANAGER_ID, PEER_ID, ManagerHarness
from dray.testing.storage_peer import SEQUENCE, STREAM
from dray.wire import large_frames, message_frames, peer_frames
from dray.wire.record import HEADER_BYTES, read_header
from tests.formats.make_store import OUTGOING, SIZES, make

GOLDEN = sorted(Path(__file__).with_name("golden").glob("store-*.tar.xz"))
BYTES_MAX = 200_000


@pytest.fixture(params=GOLDEN, ids=lambda path: path.name)
def harness(request, tmp_path):
    with tarfile.open(request.param) as archive:
        # The way that tarfile documents for all versions: `filter=` came with 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)  # noqa: S202 - an archive of ours
    opened = ManagerHarness(RealDisk(tmp_path), SIZES)
    yield opened
    opened.store.close(opened.manager.snapshot())


def bodies(harness, name):
    session, _ = harness.client()
    seen = harness.messages(session, harness.number(session, name), peek=True)
    return [
        each.record[HEADER_BYTES + read_header(each.record).properties_bytes :] for each in seen
    ]


def test_there_is_a_golden_store_and_all_of_them_are_small():
    assert GOLDEN
    assert sum(path.stat().st_size for path in GOLDEN) < BYTES_MAX


def test_its_messages_are_there_in_order_also_those_after_the_last_checkpoint(harness):
    assert bodies(harness, "orders") == [b"order 3", b"order 4", b"after the checkpoint"]
    assert bodies(harness, "orders;retry") == [b"order 2"]
    assert bodies(harness, "orders;journal") == [b"order 0", b"order 1"]
    assert bodies(harness, "urgent") == [b"7", b"4", b"2", b"0"]
    assert bodies(harness, OUTGOING) == [b"to be delivered"]


def test_there_is_one_of_each_kind_of_file():
    with tarfile.open(GOLDEN[-1]) as archive:
        names = {each.name.removeprefix("storage/") for each in archive}
    assert {
        "p0000001.mq", "j0000001.mq", "r0000001.mq", "l0000001.mq", "l0000002.mq", "QMLog",
        "MQTrans.lg1", "MQTrans.lg2", "MQInSeqs.lg1", "MQInSeqs.lg2",
    } <= names  # fmt: skip
    assert "lqs/00000002" in {name.rpartition(".")[0] for name in names}


def test_its_checkpoints_can_be_written_again(harness, tmp_path):
    for _ in range(2):
        harness.store.checkpoint(harness.manager.snapshot())
    disk = ReadOnlyDisk(tmp_path)
    states = {name: examine(disk, name) for name in NAMES}
    assert {state for state, _ in states.values()} == {CheckpointState.VALID}
    for name, (_, mark) in states.items():
        assert mark.size == (tmp_path / "storage" / name).stat().st_size


def test_its_express_messages_are_gone_and_their_files(harness, tmp_path):
    assert b"express" not in b" ".join(bodies(harness, "urgent"))
    assert list((tmp_path / "storage").glob("r*.mq")) == []


def test_its_prepared_transaction_is_still_to_be_settled(harness):
    session, _ = harness.client()
    assert bodies(harness, "later") == []
    listed, _ = harness.ask(session, message_frames.ListPrepared())
    (waiting,) = listed.transaction_ids
    harness.ask(session, message_frames.SettlePrepared(waiting, commit=True))
    assert bodies(harness, "later") == [b"if it commits"]


def test_its_large_messages_are_whole(harness):
    session, _ = harness.client()
    listed, _ = harness.ask(
        session, large_frames.LargeList(harness.number(session, "large"), 0, 10)
    )
    assert [each.missing for each in listed.entries] == [[], []]
    assert {each.source for each in listed.entries} == {MANAGER_ID, PEER_ID}


def test_its_stream_goes_on_behind_the_last_message_accepted(harness):
    session, other = harness.source()
    state, _ = harness.ask(session, other.proven(peer_frames.OpenStream(STREAM, "large")))
    assert (state.sequence_id, state.upto) == (SEQUENCE, 4)


def test_its_queues_have_their_options_and_their_files(harness):
    session, _ = harness.client()
    infos = {info.name: info for info in harness.queues(session)}
    orders = infos["orders"]
    assert (orders.label, orders.quota, orders.transactional) == ("golden", 1 << 20, True)
    assert not infos["urgent"].transactional
    assert harness.manager.notices() == []


def test_this_version_still_writes_such_a_directory(tmp_path):
    make(tmp_path / "again.tar.xz")
    with tarfile.open(tmp_path / "again.tar.xz") as made, tarfile.open(GOLDEN[-1]) as golden:
        assert {each.name for each in made} == {each.name for each in golden}
