"""Makes the golden data directory: one of each kind of file, as this version writes them.

    python -m tests.formats.make_store

Only a new version of the format is a reason to make another one, beside the old ones, which every
later version must still open. The archive is a tar of `storage`, compressed with xz: message files
of each kind (p, j, r), both maps (l), the log, both files of both checkpoint pairs, and lqs.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from random import Random

from dray.machine import Tick
from dray.manager.events import (
    LinkUp,
    Peer,
)
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.store.disk import FOLDER_NAME, LOCK_NAME
from dray.store.real_disk import RealDisk
from dray.testing.harness import ManagerHarness, Sizes
from dray.testing.storage_model import Known
from dray.testing.storage_peer import SEQUENCE, STREAM
from dray.testing.storage_records import Letters, Records, sizes_and_crcs
from dray.wire import message_frames, peer_frames, queue_frames

GOLDEN = Path(__file__).with_name("golden") / "store-1.tar.xz"
SIZES = Sizes(heap_file_bytes=4 << 20, log_bytes=1 << 20, queue_files=True, express_bytes=0)
OUTGOING = "dray://peer:7340/there"
MTIME = 1_700_000_000


class Golden:
    """What is put into the directory, by queue."""

    def __init__(self, harness: ManagerHarness) -> None:
        """Make the queues."""
        self.harness = harness
        self.session, welcome = harness.client()
        self.first_number = welcome.first_number
        for name, options in (
            ("orders", QueueOptions(journal=True, quota=1 << 20, label="golden")),
            ("urgent", QueueOptions(transactional=False)),
            ("large", QueueOptions()),
            ("later", QueueOptions(label="prepared")),
        ):
            harness.ask(self.session, queue_frames.CreateQueue(name, options))

    def send(self, name: str, records: Records) -> None:
        """Send as one transaction."""
        sizes, crcs = sizes_and_crcs(records)
        send = message_frames.Send(self.harness.number(self.session, name), 0, sizes, crcs)
        self.harness.ask(self.session, send, b"".join(records.values()))
        self.harness.store.sync()

    def prepare(self, name: str, records: Records, number: int) -> None:
        """Send in a transaction that has passed its first phase only."""
        sizes, crcs = sizes_and_crcs(records)
        send = message_frames.Send(self.harness.number(self.session, name), number, sizes, crcs)
        self.harness.say(self.session, send, b"".join(records.values()))
        self.harness.ask(self.session, message_frames.Prepare(number, 1))

    def move(self, name: str, target: str) -> None:
        """Move the first message of a queue."""
        queue, goal = (self.harness.number(self.session, each) for each in (name, target))
        (first,) = self.harness.messages(self.session, queue, count=1, peek=True)
        self.harness.ask(self.session, message_frames.Move(queue, first.lookup_id, goal, 0))


def fill(harness: ManagerHarness) -> None:
    """Something of everything; the last of it after the last checkpoint."""
    golden = Golden(harness)
    letters = Letters(Random(1), Known(), golden.first_number)
    for index in range(5):
        golden.send("orders", letters.one(Message(body=b"order %d" % index, label="order")))
    for priority in (2, 7, 4):
        golden.send("urgent", letters.one(Message(body=b"%d" % priority, priority=priority)))
    golden.send("large", letters.large())
    harness.messages(golden.session, harness.number(golden.session, "orders"), count=2, peek=False)
    tidy(harness)
    golden.send(OUTGOING, letters.one(Message(body=b"to be delivered")))
    golden.send("urgent", letters.one(Message(body=b"express", recoverable=False)))
    harness.store.checkpoint(harness.manager.snapshot())
    peer, other = harness.source()
    harness.ask(peer, other.proven(peer_frames.OpenStream(STREAM, "large")))
    arriving = letters.arriving(0, 4)
    data = peer_frames.Data(STREAM, SEQUENCE, 0, arriving.envelopes)
    harness.ask(peer, data, b"".join(arriving.records.values()))
    harness.store.sync()
    harness.handle(LinkUp(Peer("peer", 7340)))
    golden.prepare("later", letters.one(Message(body=b"if it commits")), letters.number())
    harness.store.checkpoint(harness.manager.snapshot())
    golden.send("orders", letters.one(Message(body=b"after the checkpoint")))
    golden.move("orders", "orders;retry")
    golden.send("urgent", letters.one(Message(body=b"express too", recoverable=False)))
    golden.send("urgent", letters.one(Message(body=b"0", priority=0)))


def tidy(harness: ManagerHarness) -> None:
    """Let copies move to the journal files."""
    for _ in range(3):
        harness.now += 1.0
        harness.handle(Tick())
    harness.store.sync()


def make(path: Path) -> None:
    """Write the archive to `path`."""
    with tempfile.TemporaryDirectory() as folder:
        harness = ManagerHarness(RealDisk(folder), SIZES)
        fill(harness)
        harness.store.close()
        path.parent.mkdir(exist_ok=True)
        storage = Path(folder) / FOLDER_NAME
        with tarfile.open(path, "w:xz") as archive:
            for file in sorted(storage.rglob("*")):
                name = file.relative_to(storage.parent).as_posix()
                if file.is_file() and file.name != LOCK_NAME:
                    about = tarfile.TarInfo(name)
                    about.size, about.mtime, about.mode = file.stat().st_size, MTIME, 0o640
                    archive.addfile(about, io.BytesIO(file.read_bytes()))


if __name__ == "__main__":
    make(GOLDEN)
