"""What every test shares: how Hypothesis behaves on a busy machine, and what ^C does."""

from __future__ import annotations

import signal
from pathlib import Path

import hypothesis
import pytest

from tests.leaks import Leaks

# Started in the background by a shell, a process ignores SIGINT, and so do its children; the tests
# that interrupt something would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine is slow at times; slowness is what the timeout of pytest is for.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("house")

SPARK = Path(__file__).parent / "spark"


def pytest_configure(config):
    config.pluginmanager.register(Leaks(), "leaks")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Spark first: its gateway waits by select(), which cannot name a file above the 1,024th."""
    items.sort(key=lambda item: SPARK not in item.path.parents)
