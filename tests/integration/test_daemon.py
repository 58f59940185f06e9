"""The daemon as a process: ready, stopped, killed, refused; and two of them with a link between."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

import dray
from tests.integration.commands import COMMAND, environment, finish, started, until
from tests.integration.commands import dray as dray_command

pytestmark = pytest.mark.slow

READY = re.compile(
    r'dray: manager "(.+)" \(([0-9a-f]{32})\) ready at (dray://\S+)( dray\+unix://\S+)?\n'
)


@contextmanager
def serving(data, *more, listen="127.0.0.1:0"):
    """A manager in a process of its own, and its address once it is ready."""
    with started("serve", "--data", data, "--open", "--listen", listen, *more) as process:
        line = process.stdout.readline().decode()
        ready = READY.fullmatch(line)
        assert ready, (line, process.stderr.read() if not line else "")
        yield process, ready[3]


def bodies(queue):
    return [bytes(message.body) for message in queue.messages()]


def test_it_says_once_that_it_is_ready_and_where(tmp_path):
    path = tmp_path / "dray.sock"
    with started(
        "serve", "--data", tmp_path / "d", "--name", "source",
        "--open", "--listen", "127.0.0.1:0", "--socket", path,
    ) as process:  # fmt: skip
        ready = READY.fullmatch(process.stdout.readline().decode())
        assert ready
        assert ready[1] == "source"
        assert ready[4] == f" dray+unix://{path}"
        for address in (ready[3], ready[4].strip()):
            with dray.connect(address) as manager:
                assert manager.info().id == ready[2]
        process.send_signal(signal.SIGTERM)
        said = finish(process)
    assert (said.status, said.out) == (0, "")
    (warning,) = said.err.splitlines()
    assert json.loads(warning)["kind"] == "open"
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_with_clients_connected(tmp_path, number):
    with serving(tmp_path / "d") as (process, address):
        manager = dray.connect(address)
        queue = manager.create_queue("orders")
        queue.send(b"kept")
        process.send_signal(number)
        assert finish(process).status == 0
        manager.close()
    with serving(tmp_path / "d") as (_, address), dray.connect(address) as manager:
        assert bodies(manager.queue("orders")) == [b"kept"]


def test_a_directory_in_use_is_refused_in_one_line(tmp_path):
    with serving(tmp_path / "d"):
        dray_command(
            "serve", "--data", tmp_path / "d", "--open", "--listen", "127.0.0.1:0"
        ).assert_error("store-locked")


def test_a_port_in_use_is_refused_in_one_line(tmp_path):
    with serving(tmp_path / "d") as (_, address):
        listen = address.removeprefix("dray://")
        said = dray_command("serve", "--data", tmp_path / "e", "--open", "--listen", listen)
        assert listen in said.assert_error("address-in-use")


def test_it_does_not_run_without_assertions(tmp_path):
    optimised = [sys.executable, "-O", *COMMAND[1:], "serve", "--data", tmp_path / "d"]
    done = subprocess.run(
        optimised, capture_output=True, text=True, timeout=100, env=environment(), check=False
    )
    assert done.returncode == 21
    assert done.stderr.startswith("dray: invalid-configuration: dray does not run with python -O")


def test_a_stale_socket_file_is_no_obstacle_after_a_kill(tmp_path):
    path = tmp_path / "s"
    for _ in range(2):
        with serving(tmp_path / "d", "--socket", path) as (process, _):
            process.kill()
            process.wait(100)
        assert path.exists()


def test_a_kill_under_traffic_loses_nothing_that_was_answered(tmp_path):
    """Several rounds of SIGKILL while a client commits; what was answered is there, in order."""
    data, sent, answered = tmp_path / "d", 0, []
    for _ in range(5):
        with serving(data) as (process, address):
            manager = dray.connect(address)
            queue = manager.create_queue("orders", exist_ok=True)
            killer = threading.Timer(0.2, process.kill)
            killer.start()
            with suppress(dray.DrayError):
                while True:
                    sent += 1
                    with manager.transaction() as transaction:
                        for part in range(3):
                            queue.send(b"%d.%d" % (sent, part), transaction=transaction)
                    answered.append(sent)
            killer.join()
            process.wait(100)
            manager.close()
    with serving(data) as (_, address), dray.connect(address) as manager:
        found = bodies(manager.queue("orders"))
    kept = [int(body.split(b".")[0]) for body in found[::3]]
    assert found == [b"%d.%d" % (number, part) for number in kept for part in range(3)]
    assert kept == sorted(set(kept))
    assert set(answered) <= set(kept)


def test_messages_pass_between_two_managers_once_and_in_order_while_both_are_killed(tmp_path):
    quick = tmp_path / "quick.toml"
    quick.write_text("reconnect_delay_s = 0.2\nresend_schedule_s = [0.5]\n")
    expected: list[bytes] = []
    listen = "127.0.0.1:0"
    for round_number in range(3):
        with (
            serving(tmp_path / "b", listen=listen) as (destination, there),
            serving(tmp_path / "a", "--config", quick) as (source, here),
        ):
            listen = there.removeprefix("dray://")
            with dray.connect(there) as manager:
                manager.create_queue("in", exist_ok=True)
            with dray.connect(here) as manager:
                queue = manager.queue(f"{there}/in")
                for number in range(50):
                    body = os.urandom(20_000) + b"%d.%d" % (round_number, number)
                    queue.send(body)
                    expected.append(body)
            for process in (source, destination):
                process.kill()
                process.wait(100)
    with (
        serving(tmp_path / "b", listen=listen) as (_, there),
        serving(tmp_path / "a", "--config", quick),
        dray.connect(there) as manager,
    ):
        queue = manager.queue("in")
        until(lambda: queue.info().message_count >= len(expected))
        assert bodies(queue) == expected


def test_a_failing_disk_ends_it_with_the_status_of_the_error(tmp_path):
    """We let strace make every fdatasync fail from some point on."""
    data = tmp_path / "d"
    command = [*COMMAND, "serve", "--data", str(data), "--open", "--listen", "127.0.0.1:0"]
    try:
        process = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync",
             "-e", "inject=fdatasync:error=EIO:when=40+", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("strace is not installed")
    with process:
        address = READY.fullmatch(process.stdout.readline().decode())[3]
        answered = 0
        with suppress(dray.DrayError), dray.connect(address) as manager:
            queue = manager.create_queue("orders")
            while True:
                queue.send(b"%d" % (answered + 1))
                answered += 1
        said = finish(process)
    said.assert_error("store-poisoned")
    with serving(data) as (_, address), dray.connect(address) as manager:
        found = [int(body) for body in bodies(manager.queue("orders"))]
    assert found[:answered] == list(range(1, answered + 1))
    assert len(found) <= answered + 1
