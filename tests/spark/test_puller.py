"""Payloads on their way from a queue manager into files, without Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from blake3 import blake3

import dray
from dray.spark.landing.payload import Expected, Placement
from dray.spark.landing.puller import ManagerPuller
from dray.spark.source.offsets import QueuePlace
from dray.spark.source.partitions import LargeWork, pieces_of
from dray.testing.processes import ManagerProcess
from dray.wire.large_frames import LargeEntry

pytestmark = pytest.mark.slow

BODY = random.Random(5).randbytes(3_000_000)


def written():
    """Bytes that this process has handed to the system to write."""
    return int(Path("/proc/self/io").read_text().partition("wchar: ")[2].split()[0])


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A queue manager with two doors, and the sequence id of its large message."""
    folder = tmp_path_factory.mktemp("stage")
    with ManagerProcess("source", folder, ["--socket", str(folder / "s")]) as process:
        with process.connect() as manager:
            sequence_id = dray.LargeMessageQueue(manager.create_queue("parcels")).send(BODY)
        yield {"tcp": process.url, "unix": f"dray+unix://{folder / 's'}"}, sequence_id


@pytest.mark.parametrize(("door", "writes"), [("unix", False), ("tcp", True)])
def test_a_queue_manager_of_this_machine_writes_the_payload_files(stage, tmp_path, door, writes):
    urls, sequence_id = stage
    row = {"manager": urls[door], "queue": "parcels", "sequence_id": sequence_id}
    puller = ManagerPuller()
    before = written()

    Placement(tmp_path / "name", Expected(len(BODY), blake3(BODY).hexdigest(), "blake3")).fill(
        lambda target: puller.pull(row, target)
    )

    count = written() - before
    puller.close()
    assert (count > len(BODY) // 2) is writes
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("name", BODY)]


@pytest.mark.parametrize(
    ("url", "pieces"), [("dray+unix:///run/dray.sock", [0]), ("dray://127.0.0.1:7340", [1, 2, 3])]
)
def test_a_long_message_whose_file_is_lent_is_not_cut(url, pieces):
    entry = LargeEntry(1, 9, 1, "0" * 32, fragment_count=7, size=1000, missing=[])
    work = LargeWork(QueuePlace(url, "0" * 32, "parcels", 1), entry)

    cut = pieces_of(work, 400, partitions=6, piece_bytes=100)
    assert [each.piece for each in cut] == pieces
