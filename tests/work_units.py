"""Which tests of a run stay together in one process: those of a file, and all that need Spark.

A second session of Spark costs half a minute of processor time, and is slow again at everything
that the first one has learned to do fast. So one process runs all tests of `tests/spark`, in the
session that they share, while the others run the rest. Files that do not use this session go their
own way: the process with Spark has more to do than any other.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark/"
WITHOUT_SESSION = frozenset(
    f"{SPARK}test_{name}.py" for name in ("columns", "compact", "full_disk", "java", "random_kills")
)
"""They start drivers of their own, or need no Spark."""


class WorkUnits(LoadFileScheduling):
    """Gives a process one file after the other, and one process all files of Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if needs_session(nodeid) else super()._split_scope(nodeid)


def needs_session(nodeid: str) -> bool:
    """Whether a test runs in the process with the session of Spark."""
    return nodeid.startswith(SPARK) and nodeid.partition("::")[0] not in WITHOUT_SESSION


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WorkUnits | None:
    """The plugin: takes the place of `--dist loadfile`."""
    return WorkUnits(config, log) if config.getvalue("dist") == "loadfile" else None
