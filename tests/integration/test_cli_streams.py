"""Standard streams closed, full, gone: one clear line, nothing lost, no traceback."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

import dray
from dray.errors import TargetUnwritable
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("streams")) as process:
        yield process


@pytest.fixture
def run(manager):
    def run(arguments, redirection):
        command = f"{shlex.join([*COMMAND, *arguments.split()])} {redirection}"
        done = subprocess.run(
            ["sh", "-c", command],
            check=False,
            capture_output=True,
            env=environment(manager.url),
            text=True,
            timeout=200,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_good_as_none(run, closed):
    assert run("queue list", closed).returncode == 0


def test_a_reader_that_goes_away_is_no_error(run):
    done = run("queue list", "| head -1")
    assert (done.stderr, len(done.stdout.splitlines())) == ("", 1)


def test_nothing_is_sent_from_a_closed_standard_input_but_nothing(run, manager):
    with manager.connect() as connected:
        queue = connected.create_queue("silent")
        assert run("send silent --stdin", "<&-").returncode == 0
        assert queue.receive(0).body == b""


@pytest.mark.parametrize("form", ["", "--json "])
def test_what_cannot_be_printed_stays_in_its_queue(run, manager, form):
    with manager.connect() as connected:
        queue = connected.create_queue("full", exist_ok=True)
        queue.purge()
        queue.send(b"precious")
        done = run(f"{form}receive full", "> /dev/full")
        assert done.returncode == TargetUnwritable.exit_status
        assert done.stderr.startswith("dray: target-unwritable: ")
        assert len(done.stderr.splitlines()) == 1
        assert queue.receive(0).body == b"precious"


def test_nothing_is_received_for_a_closed_standard_output(run, manager, tmp_path):
    with manager.connect() as connected:
        queue = connected.create_queue("unseen")
        queue.send(b"precious")
        done = run("receive unseen", ">&-")
        assert done.returncode == TargetUnwritable.exit_status
        assert done.stderr.startswith("dray: target-unwritable: standard output is closed")
        assert run(f"receive unseen --to {tmp_path}", ">&-").returncode == 0
        assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"precious"]


@pytest.mark.parametrize("large", ["", "--large "])
def test_what_comes_out_of_a_named_pipe_is_sent_whole(run, manager, tmp_path, large):
    body = bytes(range(256)) * 800
    (tmp_path / "body").write_bytes(body)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    queue = "piped" + large.strip(" -")
    with manager.connect() as connected:
        connected.create_queue("statusq", exist_ok=True)
        sent_to = connected.create_queue(queue)
        with subprocess.Popen(["cp", tmp_path / "body", pipe]) as writer:
            try:
                assert run(f"send {queue} {large}{pipe}", "").stderr == ""
                assert writer.wait(60) == 0
            finally:
                writer.kill()
        if large:
            with dray.LargeMessageQueue(sent_to).receive(0) as message:
                assert message.body() == body
        else:
            assert sent_to.receive(0).body == body


def test_a_file_that_the_kernel_makes_up_is_sent_as_a_large_message(run, manager):
    with manager.connect() as connected:
        connected.create_queue("statusq", exist_ok=True)
        large = dray.LargeMessageQueue(connected.create_queue("made-up"))
        assert run("send made-up --large /proc/version", "").returncode == 0
        with large.receive(0) as message:
            assert message.body() == Path("/proc/version").read_bytes()
