"""The sending leg: files in transactions of several, through a kill of the queue manager.

The kill comes while a commit is under way, the one moment at which a sender cannot know what became
of it. `outcome` tells: a commit that happened is not repeated, one that did not is sent again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import dray
from dray.cli.doubt import connect_again, was_committed
from dray.cli.progress import ProgressDisplay
from dray.errors import (
    ConnectionLost,
    DrayError,
    InDoubt,
    SourceUnreadable,
    TransactionAborted,
)
from dray.model.limits import FRAGMENT_BYTES_MAX, LABEL_CHARACTERS_MAX
from dray.testing.processes import ManagerProcess

FILES_PER_TRANSACTION = 8
BYTES_PER_TRANSACTION = 48_000_000
KILL_DELAY_S = 0.0005
"""After the commit is asked for, so that it is under way: either outcome is then as likely."""
PATIENCE_S = 60.0
ATTEMPTS_MAX = 5


class DemoFile(NamedTuple):
    """A file to be sent."""

    path: Path
    label: str
    size: int

    @property
    def fragment_count(self) -> int:
        """The number of its fragments."""
        return -(-self.size // FRAGMENT_BYTES_MAX)


class SentFile(NamedTuple):
    """A file that was sent: its large message sequence id and its place in which transaction."""

    origin: DemoFile
    sequence_id: str
    transaction_id: str
    position: int


@dataclass
class SendingReport:
    """Result of the sending leg."""

    files: list[SentFile] = field(default_factory=list)
    transactions: int = 0
    seconds: float = 0.0
    kill_story: str = "no kill"


def find_origins(folder: Path) -> list[DemoFile]:
    """All regular files below `folder`, in the order of their names; raises `SourceUnreadable`."""
    if not folder.is_dir():
        raise SourceUnreadable(f"{folder} is not a directory that can be read", path=str(folder))
    origins = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        label = path.relative_to(folder).as_posix()[-LABEL_CHARACTERS_MAX:]
        origins.append(DemoFile(path, label, path.stat().st_size))
    if not origins:
        raise SourceUnreadable(f"there are no files in {folder}", path=str(folder))
    return origins


def in_transactions(origins: Sequence[DemoFile]) -> Iterator[list[DemoFile]]:
    """Group files: several in each transaction, up to a bound in bytes."""
    batch: list[DemoFile] = []
    for origin in origins:
        held = sum(each.size for each in batch)
        if batch and (
            len(batch) == FILES_PER_TRANSACTION or held + origin.size > BYTES_PER_TRANSACTION
        ):
            yield batch
            batch = []
        batch.append(origin)
    if batch:
        yield batch


class Sender:
    """Sends batches through one queue manager, and through its death."""

    def __init__(self, source: ManagerProcess, queue: str, shown: ProgressDisplay) -> None:
        """Send to `queue`, as seen from `source`."""
        self.report = SendingReport()
        self._source, self._queue, self._shown = source, queue, shown
        self._manager: dray.Manager | None = None
        self._bytes_committed = 0

    def send_all(self, batches: Sequence[Sequence[DemoFile]]) -> SendingReport:
        """Send everything; the source is killed once, in the middle."""
        half = sum(origin.size for batch in batches for origin in batch) // 2
        killed = False
        began = time.monotonic()
        for batch in batches:
            size = sum(origin.size for origin in batch)
            kill = not killed and self._bytes_committed + size > half
            killed = killed or kill
            self.report.files += self._send_until_committed(batch, kill=kill)
            self.report.transactions += 1
            self._bytes_committed += size
            self._shown.update(self._bytes_committed)
        self.report.seconds = time.monotonic() - began
        self._disconnect()
        return self.report

    def _send_until_committed(self, batch: Sequence[DemoFile], *, kill: bool) -> list[SentFile]:
        for _ in range(ATTEMPTS_MAX):
            sent: list[SentFile] = []
            try:
                self._attempt(batch, sent, kill=kill)
            except InDoubt as doubt:
                committed = self._find_out(doubt, kill=kill)
                kill = False
                if committed:
                    return sent
            except (ConnectionLost, TransactionAborted):
                if kill:
                    self.report.kill_story = "killed before a commit: aborted, sent again"
                self._reconnect(kill=kill)
                kill = False
            else:
                if kill:
                    self.report.kill_story = "killed right after a commit: nothing in doubt"
                    self._reconnect(kill=True)
                return sent
        raise DrayError(f"the source manager was lost {ATTEMPTS_MAX} times in one transaction")

    def _attempt(self, batch: Sequence[DemoFile], sent: list[SentFile], *, kill: bool) -> None:
        manager = self._connected()
        large = dray.LargeMessageQueue(manager.queue(self._queue))
        transaction = manager.transaction()
        before = self._bytes_committed
        for position, origin in enumerate(batch):

            def follow(done: int, _total: int | None, before: int = before) -> None:
                self._shown.update(before + done)

            sequence_id = large.send(
                origin.path, label=origin.label, transaction=transaction, progress=follow
            )
            sent.append(SentFile(origin, sequence_id, transaction.id, position))
            before += origin.size
        killer = threading.Timer(KILL_DELAY_S, self._source.kill) if kill else None
        if killer is not None:
            killer.start()
        try:
            transaction.commit()
        finally:
            if killer is not None:
                killer.join()

    def _find_out(self, doubt: InDoubt, *, kill: bool) -> bool:
        """Find out about a commit in doubt: whether it happened."""
        self._reconnect(kill=kill)
        committed = was_committed(self._source.connect, doubt, PATIENCE_S)
        outcome, then = ("committed", "not sent again") if committed else ("aborted", "sent again")
        self.report.kill_story = f"killed during a commit: in doubt, outcome {outcome}, {then}"
        return committed

    def _connected(self) -> dray.Manager:
        if self._manager is None:
            self._manager = connect_again(self._source.connect, PATIENCE_S)
        return self._manager

    def _reconnect(self, *, kill: bool) -> None:
        """Leave the dead connection behind; start the manager that was killed."""
        self._disconnect()
        if kill:
            self._source.kill()
        if not self._source.running:
            self._source.start()

    def _disconnect(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()
