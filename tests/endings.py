"""A run of tests that is ended from outside ends what its tests have started.

`timeout`, CI and people end a run by SIGTERM. By default that ends pytest at once and leaves every
`dray serve` that a test has started, each in a session of its own, with its port and its disk.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


def pytest_configure() -> None:
    """Be interrupted, as by ^C: fixtures and `with` blocks are left in order."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    # Once: what hangs while it is being left must still be possible to end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt("the run was ended by SIGTERM")
