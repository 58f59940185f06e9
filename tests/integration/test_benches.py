"""Every benchmark can begin, and one that is ended leaves nothing behind that it has started."""

import importlib
import os
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import benches
from benches.__main__ import GROUPS, NAMES, main
from benches.results import Result
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


@pytest.mark.parametrize("name", [each.name for each in pkgutil.iter_modules(benches.__path__)])
def test_what_a_benchmark_takes_from_the_house_is_there(name):
    if name == "peer_clients":
        pytest.importorskip("pika", reason="only `make peers` installs the clients of others")
    module = importlib.import_module(f"benches.{name}")
    assert name not in NAMES or callable(module.run)


def test_one_name_measures_all_work_that_has_a_bar():
    assert set(GROUPS["peers"]) == {
        "small_peers", "two_hops", "two_managers", "transfer", "large_peers"
    }  # fmt: skip
    # A name of a group hides a benchmark of that name.
    assert not set(GROUPS) & set(NAMES)


def test_the_names_that_stand_for_several_benchmarks_name_benchmarks():
    assert all(set(names) <= set(NAMES) for names in GROUPS.values())


def test_a_bar_says_whether_it_is_the_least_or_the_greatest_that_will_do():
    rate = Result("in", "messages/s", [90.0], "Redis", [100.0], 1)
    assert rate.verdict == "MISSED (at least 1)"
    time = Result("p50", "us", [90.0], "Redis", [100.0], 1, turned=True)
    assert time.verdict == "good (at most 1)"
    assert Result("grown", "MiB", [90.0], bar=64).verdict == "MISSED (at most 64)"
    alone = Result("two hops", "messages/s", [41_000.0], bar=40_000, turned=True)
    assert alone.verdict == "good (at least 40,000)"


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


def test_figures_of_a_busy_machine_are_not_recorded(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.6, 0.0, 0.0))
    monkeypatch.setattr(sys, "argv", ["benches", "small", "--record", "--work", str(tmp_path)])
    assert main() == 1
    assert "at a load of 0.6 figures are not worth keeping" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
