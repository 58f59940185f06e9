"""No queue manager that tests share outlives the tests of its folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]
PROBE = """
import gc
from dray.daemon.embedded import EmbeddedDaemon

def pytest_runtest_call(item):
    running = [each for each in gc.get_objects() if isinstance(each, EmbeddedDaemon)]
    print(f"while {item.path.name} runs: {sum(each._thread.is_alive() for each in running)}")
"""


def test_the_managers_of_the_contract_end_before_tests_of_another_folder(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    tests = ["tests/contract/test_express.py", "tests/unit/model/test_words.py"]
    options = ["-q", "-s", "-n0", "-p", "probe", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={tmp_path / 'base'}", *tests],
        cwd=HOUSE,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    told = re.findall(r"while (\w+\.py) runs: (\d+)", done.stdout)
    running = {name: {int(count) for of, count in told if of == name} for name, _ in told}
    assert max(running["test_express.py"]) > 0
    assert running["test_words.py"] == {0}
