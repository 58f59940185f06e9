"""A benchmark that is ended leaves nothing behind that it has started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import environment, finish, until

pytestmark = pytest.mark.slow
HOUSE = Path(__file__).resolve().parent.parent.parent
INTERRUPTED = 130


def processes_of(folder):
    """The ids of processes whose command line names a folder."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                said = (each / "cmdline").read_bytes().decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(folder) in said:
                found.append(int(each.name))
    return found


@pytest.fixture
def benchmark(tmp_path):
    command = [sys.executable, "-m", "benches", "small", "--work", tmp_path, "--rounds", "1"]
    process = subprocess.Popen(
        command, cwd=HOUSE, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    yield process
    for pid in processes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)
    process.communicate()


def test_a_benchmark_that_is_ended_ends_its_servers(benchmark, tmp_path):
    until(lambda: any(tmp_path.glob("dray-bench-*/s")) or benchmark.poll() is not None)
    assert len(processes_of(tmp_path)) >= 2, "the benchmark and its queue manager"
    benchmark.send_signal(signal.SIGTERM)
    assert finish(benchmark).status == INTERRUPTED
    assert not any(tmp_path.iterdir())
    until(lambda: processes_of(tmp_path) == [])
