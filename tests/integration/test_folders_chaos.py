"""A tree becomes another tree while everything on the way is killed, again and again."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, until

pytestmark = pytest.mark.slow
KIB, MIB = 1 << 10, 1 << 20
PIECE = random.Random(0).randbytes(MIB)


class TreeWriter(threading.Thread):
    """Drops files into a tree: written in place, or renamed into it.

    Of n files some n / sqrt(2) are below 2 KiB, and one in 300 is above 100 MiB: a mean of about
    half a megabyte, so that 20,000 files fit a disk.
    """

    def __init__(self, folder: Path, count: int, largest: int, seed: int) -> None:
        super().__init__()
        self._folder, self._count, self._largest = folder, count, largest
        self._random = random.Random(seed)
        self.written = 0

    def run(self) -> None:
        chance = self._random
        least = (KIB / self._largest) ** 0.5
        for number in range(self._count):
            path = self._folder / f"{chance.randrange(9)}/{chance.randrange(7)}/file-{number}"
            size = int(KIB / chance.uniform(least, 1) ** 2) if number else self._largest
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = self._folder.parent / "aside"
            renamed = chance.random() < 0.5
            with (aside if renamed else path).open("wb") as file:
                file.write(b"%d " % number)
                while (left := size - file.tell()) > 0:
                    file.write(PIECE[:left])
            if renamed:
                aside.rename(path)
            self.written += 1


class Program:
    """A command of Dray's, started again whenever it was killed."""

    def __init__(self, arguments, url: str, log: Path) -> None:
        self._command = [*COMMAND, *map(str, arguments)]
        self._url, self.log = url, log
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment(self._url)
            )

    def kill(self, number: int = signal.SIGKILL) -> int:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(100)


def tree_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Path, size, time and digest of each file, without those of Dray itself."""
    found = {}
    for each in folder.rglob("*"):
        path = each.relative_to(folder)
        if each.is_file() and not path.parts[0].startswith(".dray-"):
            status = each.stat()
            with each.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").digest()
            found[str(path)] = (status.st_size, status.st_mtime_ns, digest)
    return found


def count_in(folder: Path) -> int:
    return sum(len(names) for at, _, names in os.walk(folder) if ".dray-" not in at)


def messages_in(process: ManagerProcess, *names: str) -> list[int]:
    with process.connect() as manager:
        return [manager.queue(name).info().message_count for name in names]


def run(tmp_path: Path, *, files: int, kills: int, largest: int, seed: int) -> dict[str, float]:
    """`kills` of each of the four programs; gives the figures of the run."""
    chance = random.Random(seed)
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    one, two = ManagerProcess("one", tmp_path), ManagerProcess("two", tmp_path)
    with one, two:
        with two.connect() as manager:
            manager.create_queue("statusq")
            manager.create_queue("files", quota="60GiB")
        watch = Program(
            [
                "watch", folder, f"{two.url}/files", "--state", tmp_path / "state",
                "--settle", "0.1",
            ],
            one.url,
            tmp_path / "watch.log",
        )  # fmt: skip
        receive = Program(
            [
                "receive", "files", "--large", "--to", out, "--tree", "--preserve", "--follow",
                "--workers", "2",
            ],
            two.url,
            tmp_path / "receive.log",
        )  # fmt: skip
        writer = TreeWriter(folder, files, largest, seed)
        began = time.monotonic()
        writer.start()
        victims = [watch, receive, one, two] * kills
        chance.shuffle(victims)
        try:
            for at, victim in enumerate(victims):
                # Spread over the run, and never two at the same moment of it.
                wanted = chance.randrange(files * at // len(victims) + 1)
                until(lambda wanted=wanted: count_in(out) >= wanted, 1_800)
                victim.kill()
                victim.start()
            writer.join()
            until(lambda: count_in(out) >= files, 3_600)
            until(lambda: messages_in(two, "files") == [0])
            took = time.monotonic() - began
            assert receive.kill(signal.SIGTERM) == 0, receive.log.read_text()[-2_000:]
            assert watch.kill(signal.SIGTERM) == 0, watch.log.read_text()[-2_000:]
        finally:
            for each in (watch, receive):
                each.kill()
            writer.join()
        assert messages_in(one, "system$;deadletter") == [0]
        assert messages_in(two, "system$;deadletter", "files;poison") == [0, 0]
    sent, received = tree_of(folder), tree_of(out)
    assert received == sent
    assert len(sent) == files
    left = {each.name.split("-wal")[0] for each in out.glob(".dray-*/*")}
    assert left == {"received.sqlite"}, "no litter"
    assert [each.name for each in folder.iterdir() if each.name.startswith(".dray-")] == []
    return {"files": files, "kills": len(victims), "seconds": took}


def test_a_tree_arrives_equal_while_the_programs_on_its_way_are_killed(tmp_path, went_through):
    done = run(tmp_path, files=60, kills=1, largest=4 * MIB, seed=7)
    went_through["kills"] = done["kills"]


@pytest.mark.torture
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("files", [2_000, 20_000])
def test_a_tree_arrives_equal_through_thirty_kills_of_each_program(tmp_path, files, went_through):
    done = run(tmp_path, files=files, kills=30, largest=200 * MIB, seed=files)
    went_through["kills"] = done["kills"]
    print(done)
