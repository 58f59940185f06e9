"""A command is alive while it asks whether to stop, works, or runs a command; else it is not."""

import socket
import statistics
import subprocess
import sys
import time

import pytest

QUIET_S = 0.6
"""Longer than several looks."""
PROGRAM = """
import subprocess, sys, threading
from dray.cli.until_stopped import AskedEvent, watched

def hang(stop):
    threading.Event().wait()

def ask(stop):
    while not stop.wait(0.05):
        pass

def work(stop):
    while True:
        sum(range(10_000))

def run_a_command(stop):
    subprocess.run([sys.executable, "-c", "input()"])
    hang(stop)

with watched(stop := AskedEvent()):
    locals()[sys.argv[1]](stop)
"""


@pytest.fixture
def manager(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        yield listening


@pytest.fixture
def start(manager):
    started = []

    def start(what):
        program = [sys.executable, "-c", PROGRAM, what]
        started.append(subprocess.Popen(program, stdin=subprocess.PIPE))
        assert manager.recv(100) == b"WATCHDOG=1"
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def stays_alive(manager):
    """Whether words come again and again, most of them soon; a busy machine may delay some."""
    manager.settimeout(60)
    waited_s = []
    for _ in range(20):
        began = time.monotonic()
        manager.recv(100)
        waited_s.append(time.monotonic() - began)
    return statistics.median(waited_s) < QUIET_S


def falls_silent(manager):
    """Whether nothing is said for a while, once the words for what was done before have passed."""
    manager.settimeout(QUIET_S)
    for _ in range(20):
        try:
            manager.recv(100)
        except TimeoutError:
            return True
    return False


def test_a_command_that_hangs_says_nothing(manager, start):
    start("hang")
    assert falls_silent(manager)


@pytest.mark.parametrize("what", ["ask", "work"])
def test_a_command_that_asks_or_works_is_alive(manager, start, what):
    start(what)
    assert stays_alive(manager)


def test_a_command_whose_child_runs_is_alive_as_long_as_it_runs(manager, start):
    command = start("run_a_command")
    assert stays_alive(manager)
    command.stdin.write(b"\n")
    command.stdin.flush()
    assert falls_silent(manager)
