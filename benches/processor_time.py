"""Processor seconds of a tree of processes, also of those that begin and end meanwhile.

Timings say little on a shared machine; processor time says how much work was done, whoever waited.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

_EVERY_S = 0.05
"""So much at most of a process's time is not seen: what it spends after the last look at it."""
TICKS_IN_A_SECOND = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name, which may contain anything.
_PARENT, _USER, _SYSTEM, _BEGAN = 1, 11, 12, 19


class ProcessorTime:
    """Watches some processes and all that they start; `seconds` is what they have spent so far.

    Each process is remembered by its id and its start, so that what it spent stays counted when it
    has ended. The kernel adds the time of a child to its parent only if the parent waits for it,
    and Spark's daemons do not.
    """

    def __init__(self, roots: Iterable[int]) -> None:
        """Take the processes that are watched with their children."""
        self._roots = set(roots)
        self._spent: dict[tuple[int, int], int] = {}
        self._own = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="processor time", daemon=True)

    @property
    def seconds(self) -> float:
        """Processor seconds, user and system, since these processes began; without this watch."""
        with self._lock:
            self._look()
            return sum(self._spent.values()) / TICKS_IN_A_SECOND - self._own

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        began = time.thread_time()
        found = dict(_processes())
        watched = _with_children(self._roots, found)
        for pid, fields in found.items():
            key = (pid, int(fields[_BEGAN]))
            # A daemon whose parent has ended belongs to process 1 by now, and still counts.
            if pid in watched or key in self._spent:
                self._spent[key] = spent_ticks(fields)
        self._own += time.thread_time() - began


def tree_of(roots: Iterable[int]) -> set[int]:
    """The processes and all that they have started and that run."""
    return _with_children(set(roots), dict(_processes()))


def _with_children(roots: set[int], found: dict[int, list[str]]) -> set[int]:
    watched = set(roots)
    while True:
        children = {pid for pid, fields in found.items() if int(fields[_PARENT]) in watched}
        if children <= watched:
            return watched
        watched |= children


def stat_fields(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` behind the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def spent_ticks(fields: list[str]) -> int:
    """The processor time of a process, user and system, without its children."""
    return int(fields[_USER]) + int(fields[_SYSTEM])


def _processes() -> Iterable[tuple[int, list[str]]]:
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                fields = stat_fields(int(each.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(each.name), fields


def _main() -> int:
    """Run a command, and say at its end what it and all that it started have spent."""
    with subprocess.Popen(sys.argv[1:]) as process, ProcessorTime([process.pid]) as watched:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_EVERY_S)
        print(f"{watched.seconds:.1f} processor seconds: {' '.join(sys.argv[1:])}")
    return process.returncode


if __name__ == "__main__":
    sys.exit(_main())
