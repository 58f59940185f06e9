"""What every test shares: Hypothesis on a busy machine, the end of a run and what it says then."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

from tests import counts, endings, work_units
from tests.leaks import Leaks
from tests.warm import WarmPrograms

# Started in the background by a shell, a process ignores SIGINT, and so do its children; the tests
# that interrupt something would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A run starts thousands of processes. Each would compile all that it imports, Spark's planners 1.3
# seconds' worth, where the environment forbids to keep what was compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shared machine is slow at times; slowness is what the timeout of pytest is for.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("house")

TESTS = Path(__file__).parent
LONG = ("spark", "integration", "browser", "http", "contract", "crash", "simulation", "property")
"""Folders whose files take long, first those that take longest."""


def pytest_configure(config):
    config.pluginmanager.register(WarmPrograms(), "warm programs")
    config.pluginmanager.register(Leaks(), "leaks")
    config.pluginmanager.register(endings, "endings")
    config.pluginmanager.register(work_units, "work units")
    config.pluginmanager.register(counts, "counts")
    config.pluginmanager.register(counts.Counts(), "sums of counts")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Long files first, so that none is left to one worker at the end while the other is idle.

    Spark before all, and its session before any driver: no other work of one process is so long.
    Its gateway waits by select() besides, which cannot name a file above the 1,024th.
    """
    items.sort(key=_rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """A command that a test runs in this process leaves its level of the log to no other test."""
    logger = logging.getLogger("dray")
    level, handlers, propagates = logger.level, [*logger.handlers], logger.propagate
    try:
        return (yield)
    finally:
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagates


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Tests and modules stay to the end, so that nobody has to look for garbage among them.

    A collection of all garbage took a quarter of a second, and there were thousands.
    """
    gc.collect()
    gc.freeze()


def _rank(item):
    folder = item.path.relative_to(TESTS).parts[0]
    rank = LONG.index(folder) if folder in LONG else len(LONG)
    return rank, not work_units.needs_session(item.nodeid)
