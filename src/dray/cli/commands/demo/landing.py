"""Spark in a process of its own, started while files are sent; followed by what it lands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from dray.cli.commands.demo.spark_job import JobOrder, JobTimes
from dray.errors import DrayError, every_error
from dray.testing.processes import uninterrupted

LANDING_WITHIN_S = 900.0
STOP_WITHIN_S = 20.0
POLL_EVERY_S = 0.2


class SparkJob:
    """The process, from its start to its end; all that it has started ends with it."""

    def __init__(self, work: Path) -> None:
        """Work in the directory `work`."""
        self._log, self._answer = work / "spark.log", work / "spark.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._first_byte_at: float | None = None

    def __enter__(self) -> Self:
        """Start Spark; it waits for its order."""
        command = [sys.executable, "-m", "dray.cli.commands.demo.spark_job", str(self._answer)]
        with self._log.open("wb") as output, uninterrupted():
            # A session of its own, so that all of it, Java included, can be ended together.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, if it has not ended by itself."""
        if self._process is not None:
            _end(self._process)

    def land(self, order: JobOrder, shown: Callable[[int], None]) -> tuple[JobTimes, float]:
        """Have everything read, landed and audited; `shown` is told of the bytes landed so far.

        Give the times, and the seconds from the first byte of the landing to its last commit.
        Raises the error that the process ended with.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.close()
        except BrokenPipeError:
            # It has ended already, and its log says why.
            process.wait()
        out = Path(order.out)
        self._follow(process, out, shown)
        if process.returncode:
            raise _failure(self._log)
        times = msgspec.json.decode(self._answer.read_bytes(), type=JobTimes)
        moving_s = _last_commit_at(out) - (self._first_byte_at or time.time())
        return times, max(moving_s, POLL_EVERY_S)

    def _follow(
        self, process: subprocess.Popen[bytes], out: Path, shown: Callable[[int], None]
    ) -> None:
        deadline = time.monotonic() + LANDING_WITHIN_S
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise DrayError(f"Spark did not land everything within {LANDING_WITHIN_S:.0f} s")
            if self._first_byte_at is None and any((out / "payload").glob("*")):
                self._first_byte_at = time.time()
            shown(_bytes_below(out))
            time.sleep(POLL_EVERY_S)
        shown(_bytes_below(out))


def _last_commit_at(out: Path) -> float:
    commits = (path.stat().st_mtime for path in (out / "table").glob("*.parquet"))
    return max(commits, default=0.0)


def _bytes_below(folder: Path) -> int:
    """Bytes of payload files in place; files may come and go while we look."""
    total = 0
    for parent, _, names in os.walk(folder):
        if Path(parent).name != "payload":
            continue
        for name in names:
            if not name.startswith("."):
                total += (Path(parent) / name).stat().st_size
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with everything it started, if it has not ended by itself."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(log: Path) -> DrayError:
    """The error that Spark's part printed, or one that shows where to look."""
    for line in reversed(log.read_text(errors="replace").splitlines()):
        name, _, rest = line.partition(": ")
        code, _, sentence = rest.partition(": ")
        if name == "dray" and code in every_error():
            return every_error()[code](sentence)
    return DrayError(f"the landing with Spark failed; see {log}")
