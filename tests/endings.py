"""A run of tests always ends: when it is ended from outside, and when a test hangs.

`timeout`, CI and people end a run by SIGTERM. By default that ends pytest at once and leaves every
`dray serve` that a test has started, each in a session of its own, with its port and its disk.

pytest-timeout raises an error in a test that takes too long. That does not help where the error is
swallowed, and once a test has failed, for whatever reason, pytest-timeout and pytest's own
faulthandler cancel their timers: its teardown may then wait for ever. So the process is ended, with
the stacks of all threads, if a test goes on beyond its timeout, if its teardown takes that long
again, and if the process hangs behind its last test.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Generator
from types import FrameType
from typing import NoReturn

import pytest

_LAST_S = 200
"""So long may a process of the run take after its last test."""
_BEYOND = 1.4
"""So many times its timeout may a test go on before its process is ended."""
_STDERR: list[int] = []
"""Where the stacks go: the standard error as it is before pytest captures that of a test."""


def pytest_configure() -> None:
    """Be interrupted, as by ^C: fixtures and `with` blocks are left in order."""
    signal.signal(signal.SIGTERM, _interrupt)
    if not _STDERR and sys.__stderr__ is not None:
        _STDERR.append(os.dup(sys.__stderr__.fileno()))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a process whose test goes on after its timeout."""
    _end_in(_timeout_s(item) * _BEYOND)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End a process that hangs in a teardown, also in that of a test that has failed."""
    _end_in(_timeout_s(item))
    return (yield)


def pytest_sessionfinish() -> None:
    """End a process that hangs after its last test."""
    _end_in(_LAST_S)


def _timeout_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    if marker is not None and marker.args:
        return float(marker.args[0])
    return float(item.config.getoption("timeout", None) or item.config.getini("timeout") or 0)


def _end_in(seconds: float) -> None:
    if seconds and _STDERR:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR[0])


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    # Once: what hangs while it is being left must still be possible to end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt("the run was ended by SIGTERM")
