"""What killed drivers leave in the temporary directory goes when the next session begins."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from dray.spark import scratch

BEGIN = """
import os, signal, sys
from dray.spark.scratch import own_directory, session_directory
with session_directory() as session:
    (session / "blocks").touch()
    print(own_directory().name, flush=True)
    sys.stdin.readline()
    {end}
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory, in which this process has nothing yet."""
    made = functools.cache(scratch._made_by.__wrapped__)
    monkeypatch.setattr(scratch, "_made_by", made)
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    os.close(made(os.getpid()).descriptor)


@pytest.fixture
def driver(temporary):
    """A process with a session; it ends as it is told, when its input ends."""
    started = []

    def start(end):
        process = subprocess.Popen(
            [sys.executable, "-c", BEGIN.format(end=end)], env=os.environ | {"TMPDIR": temporary},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.communicate()


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def begin_session():
    with scratch.session_directory() as session:
        assert session.is_dir()
    assert not session.exists()


@pytest.mark.slow
def test_a_session_removes_what_a_killed_driver_has_left(temporary, driver):
    process, left = driver(KILLED)
    process.communicate()
    assert names(temporary) == [left]

    begin_session()

    assert names(temporary) == [scratch.own_directory().name]


@pytest.mark.slow
def test_a_session_leaves_alone_what_a_driver_at_work_needs(temporary, driver):
    process, used = driver("pass")
    begin_session()
    (session,) = (temporary / used).glob("session-*")
    assert (session / "blocks").exists()

    process.communicate()

    assert names(temporary) == [scratch.own_directory().name]


@pytest.mark.slow
def test_a_forked_child_has_a_directory_of_its_own(temporary, driver):
    process, own = driver(
        "child = os.fork()\n"
        "    if not child:\n"
        "        os._exit(own_directory().name == session.parent.name)\n"
        "    print(os.waitpid(child, 0)[1], session.exists())"
    )
    said, _ = process.communicate()
    assert said.split() == ["0", "True"]
    assert own not in names(temporary)


def test_a_file_and_a_link_of_that_name_are_no_leftovers(temporary, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "mine").touch()
    (temporary / "dray-spark.link").symlink_to(other)
    (temporary / "dray-spark.file").touch()

    begin_session()

    assert (temporary / "dray-spark.link").is_symlink()
    assert (temporary / "dray-spark.file").exists()
    assert (other / "mine").exists()


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_a_directory_that_another_session_takes_for_a_leftover_is_made_again(
    temporary, monkeypatch, moment
):
    lost = []
    opened = scratch._opened

    def lose_the_first(path):
        descriptor = opened(path)
        if not lost:
            lost.append(path)
            path.rmdir()
            if moment == "before it is opened":
                os.close(descriptor)
                raise FileNotFoundError(path)
        return descriptor

    monkeypatch.setattr(scratch, "_opened", lose_the_first)

    own = scratch.own_directory()

    assert own not in lost
    assert names(temporary) == [own.name]
