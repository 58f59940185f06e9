"""The landing leg: `dray spark land` as a process of its own, followed by what it puts in place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dray.errors import DrayError, every_error
from dray.testing.interrupts import uninterrupted

LANDING_WITHIN_S = 900.0
STOP_WITHIN_S = 20.0
POLL_EVERY_S = 0.2


def land(url: str, queue: str, out: Path, *, log: Path, shown: Callable[[int], None]) -> float:
    """Land everything in `queue` into the directory `out`; the seconds it took.

    `shown` is told of the bytes landed so far. Raises the error that the landing ended with.
    """
    command = [sys.executable, "-m", "dray.cli", "--url", url, "--json"]
    command += ["spark", "land", queue, "--to", str(out)]
    began = time.monotonic()
    with log.open("wb") as output:
        process: subprocess.Popen[bytes] | None = None
        try:
            with uninterrupted():
                # A session of its own, so that all of it, Java included, can be ended together.
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            _follow(process, out, began + LANDING_WITHIN_S, shown)
        finally:
            if process is not None:
                _end(process)
    if process.returncode:
        raise _failure(log)
    return time.monotonic() - began


def _follow(
    process: subprocess.Popen[bytes], out: Path, deadline: float, shown: Callable[[int], None]
) -> None:
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise DrayError(f"Spark did not land everything within {LANDING_WITHIN_S:.0f} s")
        shown(_bytes_below(out))
        time.sleep(POLL_EVERY_S)
    shown(_bytes_below(out))


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
    """End the landing with everything it started, if it has not ended by itself."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(log: Path) -> DrayError:
    """The error the landing printed, or one that shows where to look."""
    for line in reversed(log.read_text(errors="replace").splitlines()):
        name, _, rest = line.partition(": ")
        code, _, sentence = rest.partition(": ")
        if name == "dray" and code in every_error():
            return every_error()[code](sentence)
    return DrayError(f"the landing with Spark failed; see {log}")
