"""A run of tests ends: by SIGTERM without leaving queue managers, and when a test hangs."""

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
FAILS_AND_HANGS = """
import time

import pytest


@pytest.fixture
def hanging():
    yield
    time.sleep(600)


def test_it_fails(hanging):
    assert False
"""
SWALLOWS = """
import time


def test_it_hangs():
    try:
        time.sleep(600)
    except BaseException:
        time.sleep(600)
"""
TAKES_LONG = """
import time

import pytest


@pytest.mark.timeout(600)
def test_it_takes_long():
    time.sleep(1)
"""
PATIENCE_S = 100.0


def test_a_run_that_is_ended_leaves_no_queue_manager_behind(tmp_path):
    (tmp_path / "test_hangs.py").write_text(HANGS)
    with subprocess.Popen(command(tmp_path), cwd=ROOT, stdout=subprocess.DEVNULL) as run:
        try:
            pid = _pid_in(tmp_path / "started", run)
        finally:
            run.send_signal(signal.SIGTERM)
            assert run.wait(PATIENCE_S) == 2, "pytest says that it was interrupted"
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("code", "place"), [(FAILS_AND_HANGS, "in hanging"), (SWALLOWS, "in test_it_hangs")]
)
def test_a_test_that_hangs_for_ever_ends_its_run_and_the_run_says_where(tmp_path, code, place):
    """Timers of pytest end when a test has failed, and its teardown may wait for ever."""
    (tmp_path / "test_hangs.py").write_text(code)
    run = subprocess.run(
        command(tmp_path, "-o", "timeout=0.5"),
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert place in run.stderr


def test_a_test_with_a_longer_timeout_of_its_own_is_not_ended(tmp_path):
    (tmp_path / "test_long.py").write_text(TAKES_LONG)
    run = subprocess.run(
        command(tmp_path, "-o", "timeout=0.5"), cwd=ROOT, timeout=PATIENCE_S, check=False
    )
    assert run.returncode == 0


def command(folder, *more):
    """Run the tests of a folder by themselves, with the ends of runs as here."""
    run = [sys.executable, "-m", "pytest", "-q", "-p", "tests.endings", "-p", "no:cacheprovider"]
    return [*run, *more, "--rootdir", str(folder), "-c", os.devnull, str(folder)]


def _pid_in(path: Path, run: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while not (path.exists() and path.read_text()):
        assert run.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline, "the queue manager did not start"
        time.sleep(0.01)
    return int(path.read_text())
