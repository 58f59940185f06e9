"""What a run has gone through, added up: failures of power, worlds, kills, damages.

A test that goes through many of something says how many it was, and the end of the run has the
sums, over all its processes: what is claimed of a run can be read at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

PROPERTY = "went through"


@pytest.fixture
def went_through(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """How many of what, by a name in the plural."""
    counted: Counter[str] = Counter()
    yield counted
    request.node.user_properties.append((PROPERTY, dict(counted)))


class Counts:
    """The plugin: one for each run."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test of this process, or of another one, has said at its end."""
        if report.when == "teardown":
            for name, counted in report.user_properties:
                if name == PROPERTY:
                    self._sums.update(counted)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say the sums in one line."""
        if self._sums:
            told = ", ".join(f"{many:,} {what}" for what, many in sorted(self._sums.items()))
            terminalreporter.write_line(f"this run went through {told}")
