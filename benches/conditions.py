"""What a figure depends on besides Dray: said with every table, kept with every history line."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
import timeit
from dataclasses import dataclass
from pathlib import Path

import dray


@dataclass(frozen=True)
class Conditions:
    """One machine at one moment."""

    date: str
    commit: str
    dray: str
    python: str
    million_calls: float
    """Calls of an empty function a second: builds of one version differ by half."""
    kernel: str
    cpus: int
    memory_mib: int
    file_system: str
    load: float

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.date}  dray {self.dray} ({self.commit})  Python {self.python}"
            f" at {self.million_calls:.0f} million calls/s"
            f"  Linux {self.kernel}  {self.cpus} CPUs  {self.memory_mib} MiB"
            f"  {self.file_system}  load {self.load:.1f}"
        )


def conditions(folder: Path) -> Conditions:
    """The conditions of a run that works in `folder`."""
    return Conditions(
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        commit=_commit(),
        dray=dray.__version__,
        python=platform.python_version(),
        million_calls=_million_calls(),
        kernel=platform.release(),
        cpus=len(os.sched_getaffinity(0)),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        file_system=_file_system(folder),
        load=os.getloadavg()[0],
    )


def _million_calls() -> float:
    count = 100_000
    best = min(timeit.repeat("f()", "def f(): pass", number=count, repeat=9))
    return round(count / best / 1e6, 1)


def _commit() -> str:
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "no commit"


def _file_system(folder: Path) -> str:
    """The type of the file system that `folder` is on: the longest mount point above it."""
    best, found = "", "unknown"
    whole = str(folder.resolve())
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        above = whole == point or whole.startswith(point.rstrip("/") + "/")
        if above and len(point) >= len(best):
            best, found = point, kind
    return found
