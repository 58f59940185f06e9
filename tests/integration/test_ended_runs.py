"""A run that is ended by SIGTERM leaves no queue manager behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
HANGS = """
import time
from pathlib import Path

import pytest

from dray.testing.processes import ManagerProcess

HERE = Path(__file__).parent


@pytest.fixture
def manager():
    with ManagerProcess("left", HERE) as process:
        yield process


def test_it_hangs(manager):
    (HERE / "started").write_text(str(manager.pid))
    time.sleep(600)
"""
PATIENCE_S = 100.0


def test_a_run_that_is_ended_leaves_no_queue_manager_behind(tmp_path):
    (tmp_path / "test_hangs.py").write_text(HANGS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.endings",
        "-p",
        "no:cacheprovider",
    ]
    command += ["--rootdir", str(tmp_path), "-c", os.devnull, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as run:
        try:
            pid = _pid_in(tmp_path / "started", run)
        finally:
            run.send_signal(signal.SIGTERM)
            assert run.wait(PATIENCE_S) == 2, "pytest says that it was interrupted"
    assert not Path(f"/proc/{pid}").exists()


def _pid_in(path: Path, run: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while not (path.exists() and path.read_text()):
        assert run.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline, "the queue manager did not start"
        time.sleep(0.01)
    return int(path.read_text())
