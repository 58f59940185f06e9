"""A run of tests that is ended from outside ends what its tests have started.

`timeout`, CI and people end a run by SIGTERM. By default that ends pytest at once and leaves every
`dray serve` that a test has started, each in a session of its own, with its port and its disk.

A process that hangs behind its last test is ended too; `pyproject.toml` does it for a test.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from types import FrameType
from typing import NoReturn

_LAST_S = 200
"""So long may a process of the run take after its last test."""


def pytest_configure() -> None:
    """Be interrupted, as by ^C: fixtures and `with` blocks are left in order."""
    signal.signal(signal.SIGTERM, _interrupt)


def pytest_sessionfinish() -> None:
    """End a process that hangs after its last test, with the stacks of all threads."""
    faulthandler.dump_traceback_later(_LAST_S, exit=True, file=sys.__stderr__)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    # Once: what hangs while it is being left must still be possible to end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt("the run was ended by SIGTERM")
