"""The processes of a benchmark: clients, and what memory any process came to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from dray.errors import DrayError

CLIENT_WITHIN_S = 1800
_RESET_PEAK = "5"


def client(name: str, **arguments: object) -> dict[str, Any]:
    """Run one of `benches.clients` in a process of its own; give what it measured."""
    command = [sys.executable, "-m", "benches.clients", name, json.dumps(arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=CLIENT_WITHIN_S
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["nothing"]
        raise DrayError(f"the client {name} ended with {done.returncode} and said: {lines[-1]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


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


def _status(pid: int | str, field: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
