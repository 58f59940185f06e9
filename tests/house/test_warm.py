"""Programs that tests start are processes as any other, though they are forked from a warm one."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm import WarmPopen, WarmPython

PROGRAM = "tests.house.told"
COMMAND = [sys.executable, "-m", PROGRAM]


@pytest.fixture(scope="module", autouse=True)
def warm():
    before, WarmPopen.warm = WarmPopen.warm, WarmPython()
    yield WarmPopen.warm
    WarmPopen.warm.end()
    WarmPopen.warm = before


@pytest.fixture
def forked(warm, monkeypatch):
    """The requests that reached the warm process."""
    seen, start = [], warm.start

    def watched(request, streams):
        seen.append(request)
        return start(request, streams)

    monkeypatch.setattr(warm, "start", watched)
    return seen


def told(*arguments, **how):
    with WarmPopen(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how
    ) as process:
        out, _ = process.communicate("its input\n", timeout=100)
    return process, out.splitlines()


def test_a_program_has_its_own_arguments_environment_directory_and_streams(forked, tmp_path):
    (tmp_path / "tests").symlink_to(Path("tests").resolve())
    process, lines = told("one", "two words", cwd=tmp_path, env=os.environ | {"DRAY_X": "y"})
    assert forked
    assert process.returncode == 7
    assert lines == [
        str(["one", "two words"]),
        str(tmp_path),
        "y",
        "its input",
        f"child of {os.getpid()}",
        f"group {os.getpgid(0)}",
        f"SIGINT {signal.default_int_handler.__name__}",
        "a thread",
        "the end",
    ]


def test_a_program_may_have_a_session_of_its_own(forked):
    process, lines = told(start_new_session=True)
    assert forked
    assert lines[5] == f"group {process.pid}"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_is_killed_and_waited_for_by_its_id(forked, number):
    process = WarmPopen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    process.send_signal(number)
    assert process.wait(100) == -number
    process.stdin.close()
    assert forked


def test_an_interrupt_right_after_the_fork_is_heard(forked):
    """Python loses the rare one that comes in a callback of an import or of a collection."""
    unheard = 0
    for _ in range(20):
        process = WarmPopen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            unheard += 1
            process.send_signal(signal.SIGINT)
        assert process.wait(100) == -signal.SIGINT
        process.stdin.close()
    assert len(forked) == 20
    assert unheard <= 1


def test_whoever_asks_for_more_gets_a_new_python(forked, monkeypatch):
    """Another Python, a file of its own, a terminal, other limits: all that a fork cannot give."""
    read, write = os.pipe()
    for how in (
        {"pass_fds": [read]},
        {"preexec_fn": os.getpid},
        {"env": os.environ | {"PYTHONHASHSEED": "1"}},
        {"umask": 0o77},
    ):
        assert told(**how)[0].returncode == 7
    with WarmPopen([sys.executable, "-c", ""]) as process:
        assert process.wait(100) == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (1, hard))
    try:
        assert told()[0].returncode == 7
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        os.close(read)
        os.close(write)
    assert not forked


def test_a_directory_that_is_not_there_is_refused_as_ever(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        WarmPopen(COMMAND, cwd=tmp_path / "nowhere")
