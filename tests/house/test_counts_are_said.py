"""The end of a run says what its tests went through, added up over all processes."""

from __future__ import annotations

from tests.house.sandbox import run_tests

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
    said = run_tests(tmp_path, "-n", "2")
    assert "6 passed" in said, said
    assert "this run went through 2 kills, 2,406 worlds\n" in said
