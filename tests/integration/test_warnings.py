"""What an operator reads in the log of real queue managers."""

from __future__ import annotations

import json
import signal
import socket

import pytest

import dray
from tests.integration.commands import finish, started, until

pytestmark = pytest.mark.slow


def refused_by_source(queue):
    """The ends of connections to a manager that is not the known one."""
    changes = queue.info().delivery.history
    return [each for each in changes if "answers there" in each.reason]


def test_a_strange_manager_at_a_known_address_costs_one_line_a_minute(tmp_path):
    quick = tmp_path / "quick.toml"
    quick.write_text("reconnect_delay_s = 0.02\n")
    with started(
        "serve", "--data", tmp_path / "known", "--open", "--listen", "127.0.0.1:0"
    ) as known:
        address = known.stdout.readline().split()[-1].decode()
        with dray.connect(address) as manager:
            manager.create_queue("orders")
        place = address.removeprefix("dray://")
        with started(
            *(
                "serve",
                "--config",
                quick,
                "--data",
                tmp_path / "source",
                "--open",
                "--listen",
                "127.0.0.1:0",
            )
        ) as source:
            with dray.connect(source.stdout.readline().split()[-1].decode()) as manager:
                queue = manager.queue(f"{address}/orders")
                queue.send(b"one")
                until(lambda: queue.info().message_count == 0)
                known.send_signal(signal.SIGTERM)
                finish(known)
                with started(
                    "serve", "--data", tmp_path / "strange", "--open", "--listen", place
                ) as strange:
                    strange.stdout.readline()
                    queue.send(b"two")
                    until(lambda: queue.info().state == "need-validation")
                    # Each attempt that meets the strange manager is a warning.
                    until(lambda: len(refused_by_source(queue)) > 2)
                    assert queue.info().message_count == 1
            source.send_signal(signal.SIGTERM)
            lines = [json.loads(line) for line in finish(source).err.splitlines()]
    first, last = [line for line in lines if line.get("kind") == "other-manager-at-address"]
    assert "dray peer accept" in first["message"]
    assert first["times"] == 1
    assert last["times"] > 1
    assert f"({last['times']} times in the last " in last["message"]


def hung_up(address):
    """Whether a queue manager ends a connection on which nonsense comes."""
    host, port = address.removeprefix("dray://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as caller:
        caller.sendall(b"this is no frame of anybody, but long enough to be looked at" * 4)
        while caller.recv(4096):
            continue
    return True


def test_a_client_that_connects_again_and_again_fills_no_log(tmp_path):
    with started(
        "serve", "--data", tmp_path / "here", "--open", "--listen", "127.0.0.1:0"
    ) as process:
        address = process.stdout.readline().split()[-1].decode()
        assert all(hung_up(address) for _ in range(30))
        process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in finish(process).err.splitlines()]
    ended = [line for line in lines if line["kind"] == "connection-ended"]
    assert sum(line["times"] for line in ended) == 30
    assert len(lines) - 1 == len(ended) <= 3
    assert lines[0]["kind"] == "open"
