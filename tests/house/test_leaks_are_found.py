"""A test that leaves something open fails by its name, and one that tidies up does not."""

from __future__ import annotations

import re

from tests.house.sandbox import run_tests

CONFTEST = """
import threading
import pytest
from tests import leaks

leaks.PATIENCE_S = 0.0

def pytest_configure(config):
    config.pluginmanager.register(leaks.Leaks())

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shared")
    with (directory / "kept").open("w") as file:
        yield directory
"""

TESTS = """
import os, socket, subprocess, sys, threading
import pytest

over = threading.Event()
kept = []

def test_bad_file(tmp_path):
    kept.append((tmp_path / "forgotten").open("w"))

def test_bad_socket():
    kept.append(socket.socket())

def test_bad_thread():
    threading.Thread(target=over.wait, name="lingering", daemon=True).start()

def test_bad_process():
    kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

def test_good_tidy(tmp_path):
    with (tmp_path / "f").open("w"), socket.socket():
        thread = threading.Thread(target=print)
        thread.start()
        thread.join()
        subprocess.run([sys.executable, "-c", ""], check=True)

def test_good_user_of_what_is_shared(shared):
    kept.append((shared / "opened later").open("w"))

def test_end():
    over.set()
"""


def test_what_a_test_leaves_behind_is_named_and_the_tidy_pass(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_samples.py").write_text(TESTS)
    said = run_tests(tmp_path, "test_samples.py")
    told = r"ERROR at teardown of test_(\w+) _+\nthe test left behind: (.*)"
    left = dict(re.findall(told, said))
    assert "7 passed, 4 errors" in said, said
    assert "forgotten (descriptor" in left["bad_file"]
    assert left["bad_socket"].startswith("socket:")
    assert "thread lingering" in left["bad_thread"]
    assert "process " in left["bad_process"]
