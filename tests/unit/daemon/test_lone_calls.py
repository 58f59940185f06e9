"""How many functions of Python a lone send over a Unix socket calls at either end."""

from __future__ import annotations

import asyncio
import threading

import pytest

import dray
from dray.daemon.config import read_options
from dray.daemon.limits import QUICK_SYNCS
from dray.daemon.server import Server
from dray.daemon.timekeeper import ClockedLoop
from tests.cost import calls_in_loop, calls_of

SENDS = 20
CALLS_IN_THE_QUEUE_MANAGER = 198
"""With the loop's own; 328 before."""
CALLS_IN_THE_CLIENT = 52
"""With the one of the test; 69 before."""


@pytest.fixture
def served(tmp_path):
    """The loop of a queue manager that listens on a Unix socket, and the address."""
    loop, ready, ended = ClockedLoop(), threading.Event(), asyncio.Event()

    async def serve():
        server = Server(loop, read_options(data=str(tmp_path / "data"), socket=str(tmp_path / "s")))
        ready.set()
        await ended.wait()
        await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    yield loop, f"dray+unix://{tmp_path / 's'}"
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


def test_a_lone_send_takes_few_calls_at_either_end(served, monkeypatch):
    # On a disk that counts as quick the loop syncs itself.
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNC_S", 100.0)
    loop, address = served
    with dray.connect(address) as manager:
        queue = manager.create_queue("orders")

        def send():
            queue.send(bytes(1024))

        def send_some():
            for _ in range(SENDS):
                send()

        for _ in range(3 * QUICK_SYNCS):
            send()
        # The least of some: a checkpoint or a timer may fall into one.
        in_loop = min(calls_in_loop(loop, send_some, "call") for _ in range(4))
        in_client = min(calls_of(send) for _ in range(4))
    assert in_loop <= SENDS * CALLS_IN_THE_QUEUE_MANAGER
    assert in_client <= CALLS_IN_THE_CLIENT
