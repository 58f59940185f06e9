"""`dray watch` of a folder of a million files: how soon it sees a new one, in what memory."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from dray.folders.ledger import FolderLedger
from dray.folders.tree import FoundFile
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, until

FOLDERS, FILES = 1_000, 1_000
STARTS_WITHIN_S = 30.0
MEMORY_MIB = 300.0
SEEN_WITHIN_S = 1.0


def fill(folder: Path) -> list[FoundFile]:
    """Make a million small files."""
    found = []
    for each in range(FOLDERS):
        below = folder / f"{each:03}"
        below.mkdir(parents=True)
        for number in range(FILES):
            path = below / f"{number:03}"
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
            status = path.stat()
            name = f"{below.name}/{path.name}"
            found.append(
                FoundFile(name, status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode)
            )
    return found


def memory_mib(process: int) -> float:
    """The largest resident memory of a process so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith("VmHWM")) / 1024


@pytest.mark.torture
@pytest.mark.timeout(1_800)
def test_a_watch_of_a_million_old_files_starts_soon_in_little_memory_and_sees_a_new_one(tmp_path):
    folder, state, log = tmp_path / "folder", tmp_path / "state", tmp_path / "log"
    old = fill(folder)
    with ManagerProcess("one", tmp_path) as process, process.connect() as manager:
        queue = manager.create_queue("files")
        with FolderLedger(state, manager_id=manager.info().id, queue="files") as ledger:
            for start in range(0, len(old), 10_000):
                ledger.begin([("x", old[start : start + 10_000])])
                ledger.settle([("x", True)])
        del old
        began = time.monotonic()
        with log.open("wb") as lines:
            watch = subprocess.Popen(
                [*COMMAND, "watch", str(folder), "files", "--state", str(state)],
                stdout=lines,
                stderr=lines,
                env=environment(process.url),
            )
        try:
            # Before it watches, the kernel tells it nothing; so drop files until one is seen.
            dropped: list[Path] = []

            def drop_and_look():
                dropped.append(folder / "500" / f"first-{len(dropped)}")
                dropped[-1].write_bytes(b"x")
                return queue.info().message_count

            until(drop_and_look, 600)
            started_s = time.monotonic() - began
            until(lambda: queue.info().message_count == 3 * len(dropped), 600)
            seen_s = []
            for number in range(9):
                sent = queue.info().message_count
                since = time.monotonic()
                (folder / "007" / f"new-{number}").write_bytes(b"x")
                until(lambda sent=sent: queue.info().message_count > sent)
                seen_s.append(time.monotonic() - since)
            memory = memory_mib(watch.pid)
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(100) == 0
        finally:
            if watch.poll() is None:
                watch.kill()
                watch.wait()
    print(f"started in {started_s:.1f} s, {memory:.0f} MiB, new files seen in {seen_s}")
    assert started_s < STARTS_WITHIN_S
    assert memory < MEMORY_MIB
    assert statistics.median(seen_s) < SEEN_WITHIN_S
