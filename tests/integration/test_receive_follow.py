"""`dray receive` as an installed program that one leaves running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, finish, started, until
from tests.integration.commands import dray as run

pytestmark = pytest.mark.slow


@pytest.fixture
def process(tmp_path):
    with ManagerProcess("one", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("statusq")
        yield process


@pytest.fixture
def send(process):
    """Sends a file; gives the name of its queue first."""
    name = "files"
    with process.connect() as manager:
        manager.create_queue(name)

    def send(path, body):
        with process.connect() as manager:
            large = dray.LargeMessageQueue(manager.queue(name))
            file = dray.FileProperties(path, len(body), 1_700_000_000_000_000_000)
            large.send(body, label=path, file=file)

    send.queue = name
    return send


@contextmanager
def following(url, log, queue, out, *options):
    """Receive into `out` until the block ends, and then by SIGTERM with 0."""
    command = [*COMMAND, "receive", queue, "--large", "--to", str(out), *options, "--follow"]
    with log.open("wb") as lines:
        receiver = subprocess.Popen(command, stdout=lines, stderr=lines, env=environment(url))
    try:
        yield
        receiver.send_signal(signal.SIGTERM)
        assert receiver.wait(60) == 0
    finally:
        if receiver.poll() is None:
            receiver.kill()
            receiver.wait()


def test_receive_follows_through_restarts_with_two_lines_and_sigterm_ends_it_with_0(
    process, send, tmp_path
):
    out, log = tmp_path / "out", tmp_path / "log"
    with following(process.url, log, send.queue, out, "--tree"):
        send("a/first", b"1")
        until(lambda: "received" in log.read_text())
        process.kill()
        until(lambda: "receiving has stopped and goes on by itself" in log.read_text())
        process.start()
        send("b/second", b"2")
        until(lambda: log.read_text().count("\nreceived ") == 1)
    said = log.read_text().splitlines()
    assert [each.split(":")[0] for each in said] == [
        f"received {out}/a/first (1 B)",
        "dray",
        "dray",
        f"received {out}/b/second (1 B)",
    ], said
    assert said[2] == "dray: receiving goes on"
    assert (out / "b" / "second").read_bytes() == b"2"


def test_receive_waits_for_a_queue_manager_that_is_not_there_yet(process, send, tmp_path):
    send("late", b"x")
    process.kill()
    log = tmp_path / "log"
    with following(process.url, log, send.queue, tmp_path / "out"):
        until(lambda: "waiting for the queue manager" in log.read_text())
        process.start()
        until(lambda: "received" in log.read_text())
    assert (tmp_path / "out" / "late").read_bytes() == b"x"


def test_a_body_goes_through_a_pipe_to_standard_output(process, send):
    with process.connect() as manager:
        large = dray.LargeMessageQueue(manager.queue(send.queue), fragment_size=1_000)
        large.send(bytes(range(256)) * 40, label="dump")
    received = subprocess.run(
        [*COMMAND, "receive", send.queue, "--large", "--to", "-"],
        capture_output=True,
        check=False,
        env=environment(process.url),
        timeout=100,
    )
    assert (received.returncode, received.stdout) == (0, bytes(range(256)) * 40), received.stderr
    with process.connect() as manager:
        assert manager.queue(send.queue).info().message_count == 0


def test_a_body_that_nobody_reads_stays_in_its_queue(process, send):
    with process.connect() as manager:
        dray.LargeMessageQueue(manager.queue(send.queue)).send(b"x" * 5_000_000, label="dump")
    reading, writing = os.pipe()
    os.close(reading)
    received = subprocess.run(
        [*COMMAND, "receive", send.queue, "--large", "--to", "-"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        env=environment(process.url),
        timeout=100,
    )
    os.close(writing)
    assert received.returncode != 0
    with process.connect() as manager:
        assert dray.LargeMessageQueue(manager.queue(send.queue)).peek(0).size == 5_000_000


def test_a_file_whose_command_fails_is_tried_again_and_set_aside(process, send, tmp_path):
    send("a file", b"x")
    log = tmp_path / "log"
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; open({str(log)!r}, 'a').write(sys.argv[1] + '\\n'); sys.exit(3)"
    )
    said = run(
        "receive", send.queue, "--large", "--to", tmp_path / "out", "--retries", 1, "--exec",
        f"{sys.executable} {script} {{path}}", url=process.url,
    )  # fmt: skip
    assert said.status == dray.CommandFailed.exit_status, said
    assert said.err.count("ended with exit status 3") == 3, "each try, and the end"
    assert log.read_text().splitlines() == [str(tmp_path / "out" / "a file")] * 2
    with process.connect() as manager:
        assert manager.queue(f"{send.queue};poison").info().message_count == 3


def test_an_empty_queue_is_told_of_in_time(process, send, tmp_path):
    run(
        "receive", send.queue, "--large", "--to", tmp_path, "--tree", "--timeout", 0,
        url=process.url,
    ).assert_error("receive-timeout")  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ("--follow",),
        ("--large", "--to", "out", "--follow", "--max", "2"),
        ("--large", "--to", "-", "--tree"),
        ("--large", "--to", "-", "--max", "2"),
        ("--large", "--to", "out", "--tree", "--resume"),
        ("--large", "--to", "out", "--tree", "--workers", "2"),
        ("--large", "--to", "out", "--follow", "--on-conflict", "skip"),
        ("--to", "-"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(options):
    said = run("receive", "files", *options, url="dray://127.0.0.1:1")
    assert said.status == 2, said


def test_sigterm_ends_a_receiver_with_0_while_its_queue_manager_is_away_and_its_commit_in_doubt(
    process, send, tmp_path
):
    out = tmp_path / "out"
    script = tmp_path / "script.py"
    script.write_text(
        "import pathlib, sys, time\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "(here / 'runs').touch()\n"
        "while not (here / 'ends').exists(): time.sleep(0.01)\n"
    )
    receive = ("receive", send.queue, "--large", "--to", out)
    command = ("--follow", "--exec", f"{sys.executable} {script} {tmp_path}")
    send("file", b"once")
    with started(*receive, *command, url=process.url) as receiver:
        until((tmp_path / "runs").exists)
        process.kill()
        (tmp_path / "ends").touch()
        line = receiver.stderr.readline().decode()
        assert line.startswith("dray: receiving has stopped and goes on by itself: "), line
        receiver.send_signal(signal.SIGTERM)
        said = finish(receiver)
        assert said.status == 0, said
    process.start()
    run(*receive, url=process.url).assert_good()
    assert [each.name for each in out.iterdir()] == ["file"]
    assert (out / "file").read_bytes() == b"once"


def test_an_interrupted_receive_of_files_says_what_was_received(process, send, tmp_path):
    send("file", b"x")
    receive = ("receive", send.queue, "--large", "--to", tmp_path / "out", "--follow")
    told = f"1 message received; every other message is still in {send.queue}"
    with started(*receive, url=process.url) as receiver:
        assert receiver.stdout.readline().startswith(b"received ")
        receiver.send_signal(signal.SIGINT)
        said = finish(receiver)
    assert (said.status, said.err.strip()) == (130, f"dray: interrupted; {told}")


def test_a_receive_into_a_tree_says_what_it_waits_for(process, send, tmp_path):
    receive = ("receive", send.queue, "--large", "--to", tmp_path / "out", "--tree")
    with started(*receive, url=process.url) as receiver:
        line = receiver.stderr.readline().decode()
        assert line == f"dray: waiting for a large message in '{send.queue}' (Ctrl-C ends it)\n"
        send("a/file", b"x")
        said = finish(receiver)
    assert (said.status, said.out) == (0, f"received {tmp_path}/out/a/file (1 B)\n")
