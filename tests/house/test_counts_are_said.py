"""The end of a run says what its tests went through, added up over all processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]

CONFTEST = """
from tests import counts

def pytest_configure(config):
    config.pluginmanager.register(counts)
    config.pluginmanager.register(counts.Counts())
"""

TESTS = """
def test_many(went_through):
    went_through["worlds"] = 1_200

def test_few(went_through):
    went_through["worlds"] += 3
    went_through["kills"] += 1

def test_none():
    pass
"""


def test_a_run_says_what_its_tests_went_through(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in ("one", "another"):
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    options = ["-c", "/dev/null", "--rootdir", ".", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", *options, f"--basetemp={tmp_path / 'b'}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(HOUSE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "6 passed" in done.stdout, done.stdout
    assert "this run went through 2 kills, 2,406 worlds\n" in done.stdout
