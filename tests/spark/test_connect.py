"""Spark Connect: queues can be read, and a landing refuses in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.torture]
pytest.importorskip(
    "grpc_status", reason="NOT TESTED: Spark Connect needs grpcio, which is not here"
)
PROGRAM = Path(__file__).with_name("connect_and_land.py")


def test_queues_are_read_through_spark_connect_and_a_landing_refuses(daemon, manager, tmp_path):
    manager.create_queue("orders").send_many([b"x"] * 7)

    done = subprocess.run(
        [sys.executable, str(PROGRAM), daemon.url, str(tmp_path / "out")],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    batch, stream, refusal = done.stdout.splitlines()
    assert (batch, stream) == ("7", "7")
    assert refusal.startswith("land() needs a driver of its own")
