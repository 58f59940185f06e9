"""Which tests of a run stay together in one process: those of a file, and all that need Spark.

A second session of Spark costs half a minute of processor time, and is slow again at everything
that the first one has learned to do fast. So one process runs all tests of `tests/spark`, in the
session that they share, while the others run the rest.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark/"


class WorkUnits(LoadFileScheduling):
    """Gives a process one file after the other, and one process all files of Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WorkUnits | None:
    """The plugin: takes the place of `--dist loadfile`."""
    return WorkUnits(config, log) if config.getvalue("dist") == "loadfile" else None
