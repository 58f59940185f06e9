"""`dray watch` and its queue manager are killed again and again; each file is sent once."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, until

pytestmark = pytest.mark.slow


class Writer(threading.Thread):
    """Drops files of unlike sizes into a tree: written in place, or renamed into it."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        super().__init__()
        self._folder, self._count = folder, count
        self._random = random.Random(seed)
        self.written: dict[str, bytes] = {}

    def run(self) -> None:
        for number in range(self._count):
            path = f"{self._random.randrange(5)}/{self._random.randrange(3)}/file-{number}"
            size = int(2 ** self._random.uniform(0, 20))
            body = self._random.randbytes(size)
            full = self._folder / path
            full.parent.mkdir(parents=True, exist_ok=True)
            if self._random.random() < 0.5:
                aside = self._folder.parent / "aside"
                aside.write_bytes(body)
                aside.rename(full)
            else:
                with full.open("wb") as file:
                    file.write(body[: size // 2])
                    file.flush()
                    file.write(body[size // 2 :])
            self.written[path] = hashlib.sha256(body).digest()


class Watch:
    """The command, started again whenever it was killed."""

    def __init__(self, folder: Path, url: str, state: Path, log: Path) -> None:
        self._command = [
            *COMMAND, "watch", str(folder), "files", "--state", str(state), "--settle", "0.1",
        ]  # fmt: skip
        self._url, self._log = url, log
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment(self._url)
            )

    def kill(self, number: int = signal.SIGKILL) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(60)


def run(tmp_path: Path, *, files: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    folder = tmp_path / "folder"
    folder.mkdir()
    log = tmp_path / "watch.log"
    with ManagerProcess("one", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("files")
        watch = Watch(folder, process.url, tmp_path / "state", log)
        writer = Writer(folder, files, seed)
        writer.start()
        try:
            for _ in range(kills):
                sent = log.read_text().count("\nsent ")
                wanted = sent + chance.randrange(1, max(2, files // kills))
                until(
                    lambda wanted=wanted: (
                        log.read_text().count("\nsent ") >= wanted or not writer.is_alive()
                    )
                )
                if chance.random() < 0.5:
                    watch.kill()
                    watch.start()
                else:
                    process.kill()
                    process.start()
            writer.join()
            with process.connect() as manager:
                queue = manager.queue("files")
                # Three messages for each file: a header, a fragment and a trailer.
                until(lambda: queue.info().message_count >= 3 * files)
                assert watch.kill(signal.SIGTERM) == 0, log.read_text()[-2000:]
                large, found, counts = dray.LargeMessageQueue(queue), {}, Counter()
                while queue.info().message_count:
                    with large.receive(0) as message:
                        found[message.file.path] = hashlib.sha256(message.body()).digest()
                        counts[message.file.path] += 1
        finally:
            if watch.process.poll() is None:
                watch.kill()
            writer.join()
    assert [path for path, count in counts.items() if count > 1] == []
    assert found == writer.written


def test_each_file_is_sent_once_through_kills_of_the_watch_and_of_its_queue_manager(tmp_path):
    run(tmp_path, files=120, kills=6, seed=7)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_each_file_is_sent_once_through_sixty_kills(tmp_path, seed):
    run(tmp_path, files=5_000, kills=60, seed=seed)
