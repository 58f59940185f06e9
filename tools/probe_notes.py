"""Note which tests would notice a changed expression: copied into the checkout of `mutations.py`.

An instrumented module asks `differs` with the value as it is and a function that gives the value as
it would be, or says `reached` where that cannot be asked. The program goes on with the value as it
is. One file for each change, in the folder `probes` of the checkout, names the tests.

pytest loads this module as a plugin, which writes down the test that runs. A process that a test
starts reads it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

FOLDER = Path(__file__).resolve().parent.parent / "probes"
UNKNOWN = "?"
"""Stands for the test where a process was started without the environment of its test."""
_WHERE = "DRAY_PROBES_TEST"

T = TypeVar("T")
_noted: set[tuple[int, str]] = set()
_read: tuple[int, str] = (0, UNKNOWN)


def differs(number: int, value: T, changed: Callable[[], object], *, truth: bool = False) -> T:
    """Give `value`; note the test if a change would give another one, or raise.

    `truth` if only the truth of the value counts.
    """
    try:
        other = changed()
        if truth:
            same = bool(value) == bool(other)
        else:
            same = type(value) is type(other) and bool(value == other)
    except Exception:  # noqa: BLE001 - that is a difference, too
        same = False
    if not same:
        reached(number)
    return value


def reached(number: int) -> bool:
    """Note that the running test executes a line that would be changed; gives True."""
    note = (number, _test())
    if note not in _noted:
        _noted.add(note)
        line = f"{note[1]}\n".encode()
        # Without O_CREAT: a test that forbids new files must go on.
        opened = os.open(FOLDER / str(number), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(opened, line)
        finally:
            os.close(opened)
    return True


def _test() -> str:
    """The test that runs now, here or in the process of pytest that started this one."""
    global _read  # noqa: PLW0603 - one process has one test at a time
    where = os.environ.get(_WHERE)
    if where is None:
        return UNKNOWN
    written = os.stat(where).st_mtime_ns  # noqa: PTH116 - a probe runs very often
    if written != _read[0]:
        _read = (written, Path(where).read_text("utf-8"))
    return _read[1]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Pytest begins with a test."""
    path = FOLDER / f"test-{os.getpid()}"
    fresh = path.with_suffix(".new")
    fresh.write_text(nodeid, "utf-8")
    fresh.replace(path)
    os.environ[_WHERE] = str(path)
