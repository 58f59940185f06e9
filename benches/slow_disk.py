"""Lone commits on disks whose syncs take milliseconds, as those of clouds do.

The commit of a receive has one file to sync, the log with its fact. A send of a small body has one
too, because the log has a copy of the body (docs/decisions/0294); a send of a longer one has two.
Some disks sync two files side by side, others one behind the other, so both are measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import dray
from benches.results import Result
from dray.daemon.config import read_options
from dray.daemon.server import Server
from dray.errors import DrayError
from dray.store.real_disk import RealDisk, RealFile

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_BYTES = 1024
COUNT = 200
SYNC_S = (0.0, 0.001, 0.003)


class SlowFile(RealFile):
    """A file of which each sync takes so long besides what the real disk takes."""

    sync_s = 0.0
    turn: AbstractContextManager[Any] = nullcontext()
    """A disk that syncs one file behind the other has a lock here."""

    def sync(self) -> None:
        """Flush, slowly."""
        with self.turn:
            super().sync()
            time.sleep(self.sync_s)


class SlowDisk(RealDisk):
    """A disk of such files."""

    def open(self, name: str, *, size: int = 0) -> SlowFile:
        """Open a file."""
        file = super().open(name, size=size)
        slow = SlowFile(name, file.fileno())
        # It has the descriptor now, and one of both closes it.
        vars(file)["_descriptor"] = -1
        return slow


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Measure; `size` is for the others."""
    del size
    results: list[Result] = []
    for sync_s in SYNC_S:
        for at_once in (True, False) if sync_s else (True,):
            measured = []
            for number in range(rounds):
                home = folder / f"{sync_s}-{at_once}-{number}"
                home.mkdir()
                measured.append(_round(home, sync_s, at_once=at_once))
            results += _results(measured, sync_s, at_once=at_once)
    return results


def _results(measured: list[tuple[float, float]], sync_s: float, *, at_once: bool) -> list[Result]:
    sends, receives = zip(*measured, strict=True)
    disk = f"sync + {sync_s * 1000:g} ms, {'two at once' if at_once else 'one by one'}"
    return [
        Result(f"commit of a send, {disk}", "us", sends, "commit of a receive", receives,
               note="one file each"),
    ]  # fmt: skip


def _round(home: Path, sync_s: float, *, at_once: bool) -> tuple[float, float]:
    """The medians of the commits of sends and of receives, in microseconds."""
    with _serving(home, sync_s, at_once=at_once), dray.connect(f"dray+unix://{home / 's'}") as here:
        queue = here.create_queue("small", transactional=True)
        body = bytes(MESSAGE_BYTES)
        sends, receives = [], []
        # By turns, so that both meet the same moments of the disk.
        for _ in range(COUNT):
            with here.transaction() as transaction:
                queue.send(body, transaction=transaction)
                began = time.perf_counter()
                transaction.commit()
                sends.append(time.perf_counter() - began)
            with here.transaction() as transaction:
                queue.receive(timeout=10, transaction=transaction)
                began = time.perf_counter()
                transaction.commit()
                receives.append(time.perf_counter() - began)
    return sorted(sends)[COUNT // 2] * 1e6, sorted(receives)[COUNT // 2] * 1e6


@contextmanager
def _serving(home: Path, sync_s: float, *, at_once: bool) -> Iterator[None]:
    asked = json.dumps({"home": str(home), "sync_s": sync_s, "at_once": at_once})
    command = [sys.executable, "-m", "benches.slow_disk", asked]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise DrayError("the queue manager on the slow disk did not start")
            yield
        finally:
            # At the end of its input it stops.
            process.communicate()


async def _serve(home: str, *, sync_s: float, at_once: bool) -> None:
    SlowFile.sync_s = sync_s
    SlowFile.turn = nullcontext() if at_once else Lock()
    options = read_options(data=f"{home}/data", socket=f"{home}/s")
    loop = asyncio.get_running_loop()
    server = Server(loop, options, open_disk=SlowDisk)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_serve(**json.loads(sys.argv[1])))
