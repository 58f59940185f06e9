"""One process of a run has all tests of Spark, and with them the only session of Spark."""

from __future__ import annotations

import re

from tests.house.sandbox import run_tests

CONFTEST = """
from tests import work_units

def pytest_configure(config):
    config.pluginmanager.register(work_units)
"""

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number, worker_id):
    print("ran by", __file__.rpartition("/")[2], worker_id)
"""


def test_one_process_runs_all_tests_of_spark(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    folder = tmp_path / "tests" / "spark"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / f"test_spark_{number}.py").write_text(TESTS)
        (tmp_path / f"test_other_{number}.py").write_text(TESTS)
    order = [str(folder.relative_to(tmp_path)), *(f"test_other_{each}.py" for each in range(4))]
    options = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-rP"]
    said = run_tests(tmp_path, *options, *order)
    ran = set(re.findall(r"ran by test_(spark|other)_(\d)\.py (gw\d)", said))
    assert len(ran) == 8, "a file stays in one process"
    assert len({worker for kind, _, worker in ran if kind == "spark"}) == 1
    assert len({worker for kind, _, worker in ran if kind == "other"}) > 1
