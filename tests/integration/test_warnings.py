"""What an operator reads in the log of real queue managers."""

from __future__ import annotations

import json
import shutil
import signal

import pytest

import dray
from tests.integration.commands import finish, started, until

pytestmark = pytest.mark.slow


def test_two_managers_on_copies_of_one_directory_cost_one_line_a_minute(tmp_path):
    with dray.open(tmp_path / "one") as one:
        one.create_queue("own")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with started("serve", "--data", tmp_path / "goal", "--listen", "127.0.0.1:0") as goal:
        address = goal.stdout.readline().split()[-1].decode()
        with dray.connect(address) as manager:
            manager.create_queue("orders")
        with (
            dray.open(tmp_path / "one", reconnect_delay_s=0.02) as one,
            dray.open(tmp_path / "two", reconnect_delay_s=0.02) as two,
        ):
            queues = [each.queue(f"{address}/orders") for each in (one, two)]
            for queue in queues:
                queue.send(b"one of two")
            for queue in queues:
                until(lambda queue=queue: queue.info().state == "need validation")
            # Each call that is refused is a warning.
            until(lambda: len(queues[0].info().delivery.history) > 5)
        goal.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in finish(goal).err.splitlines()]
    first, last = [line for line in lines if line.get("kind") == "copied-manager"]
    assert "stop one of them" in first["message"]
    assert first["times"] == 1
    assert last["times"] > 1
    assert f"({last['times']} times in the last " in last["message"]
