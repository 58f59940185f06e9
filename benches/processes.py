"""The processes of a benchmark: clients, and what memory any process came to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benches.processor_time import TICKS_IN_A_SECOND, spent_ticks, stat_fields
from dray.errors import DrayError
from dray.testing.processes import uninterrupted
from tests.lines.namespaces import Place

CLIENT_WITHIN_S = 1800
_RESET_PEAK = "5"


def client(name: str, **arguments: object) -> dict[str, Any]:
    """Run one of `benches.clients` in a process of its own; give what it measured."""
    with ClientProcess(name, **arguments) as begun:
        return begun.result()


class ClientProcess:
    """One of `benches.clients` at work beside others; ended by its id when the block ends."""

    def __init__(self, name: str, place: Place | None = None, /, **arguments: object) -> None:
        """Start it, in a network namespace if one is given."""
        self._name = name
        command = [sys.executable, "-m", "benches.clients", name, json.dumps(arguments)]
        if place is not None:
            command = place.command(command)
        with uninterrupted():
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self._process.poll() is None

    def told(self) -> dict[str, Any]:
        """The first line that it prints while it goes on. Raises `DrayError` if it ended first."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.result()
            raise DrayError(f"the client {self._name} ended and said nothing")
        told: dict[str, Any] = json.loads(line)
        return told

    def result(self) -> dict[str, Any]:
        """Wait for it; what it measured. Raises `DrayError` with its last words if it failed."""
        said, complaint = self._process.communicate(timeout=CLIENT_WITHIN_S)
        if self._process.returncode:
            lines = complaint.strip().splitlines() or ["nothing"]
            raise DrayError(
                f"the client {self._name} ended with {self._process.returncode} and said:"
                f" {lines[-1]}"
            )
        measured: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return measured

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it if it has not ended by itself."""
        if self.running:
            self._process.kill()
        self._process.communicate()


def reset_peak(pid: int | str) -> int:
    """Forget a process's peak of memory so far; its memory now, in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
    return _status(pid, "VmRSS")


def memory(pid: int | str) -> int:
    """The memory a process has now, in bytes."""
    return _status(pid, "VmRSS")


def peak(pid: int | str) -> int:
    """The most memory a process has had since the last reset, in bytes."""
    return _status(pid, "VmHWM")


def processor_s(pid: int) -> float:
    """The processor time that a process has taken so far, in seconds."""
    return spent_ticks(stat_fields(pid)) / TICKS_IN_A_SECOND


def _status(pid: int | str, field: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
