"""How many functions of Python a send over a Unix socket calls: a lone one, and one of many."""

from __future__ import annotations

import array
import asyncio
import fcntl
import termios
import threading
from typing import NamedTuple

import pytest

import dray
from dray.daemon.config import read_options
from dray.daemon.limits import QUICK_SYNCS
from dray.daemon.server import Server
from dray.daemon.timekeeper import ClockedLoop
from tests.cost import calls_in_loop, calls_of
from tests.unit.daemon.conftest import eventually

SENDS = 20
SESSIONS = 64
CALLS_OF_ONE_OF_MANY = 125
"""In the queue manager, with its part of the one sync; 128 before."""
CALLS_IN_THE_QUEUE_MANAGER = 198
"""With the loop's own; 328 before."""
CALLS_IN_THE_CLIENT = 52
"""With the one of the test; 69 before."""


class Served(NamedTuple):
    """A queue manager that listens on a Unix socket."""

    loop: asyncio.AbstractEventLoop
    address: str
    server: Server


@pytest.fixture
def served(tmp_path):
    loop, ready, ended = ClockedLoop(), threading.Event(), asyncio.Event()
    servers = []

    async def serve():
        server = Server(loop, read_options(data=str(tmp_path / "data"), socket=str(tmp_path / "s")))
        servers.append(server)
        ready.set()
        await ended.wait()
        await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    yield Served(loop, f"dray+unix://{tmp_path / 's'}", servers[0])
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


def test_a_lone_send_takes_few_calls_at_either_end(served, monkeypatch):
    # On a disk that counts as quick the loop syncs itself.
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNC_S", 100.0)
    loop, address, _ = served
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


def test_a_send_takes_few_calls_if_many_sessions_send_at_once(served):
    loop, address, server = served
    managers = [dray.connect(address) for _ in range(SESSIONS)]
    queues = [each.create_queue("orders", exist_ok=True) for each in managers]

    def send_together():
        """The loop reads all of them in one pass."""
        goes_on = threading.Event()
        loop.call_soon_threadsafe(goes_on.wait)
        sends = [threading.Thread(target=each.send, args=[bytes(1024)]) for each in queues]
        for each in sends:
            each.start()
        try:
            eventually(lambda: all(bytes_unread(each) > 1024 for each in server._numbers))
        finally:
            goes_on.set()
        for each in sends:
            each.join()

    for each in queues:
        # The first one of a connection asks for numbers before.
        each.send(bytes(1024))
    in_loop = min(calls_in_loop(loop, send_together, "call") for _ in range(5))
    for each in managers:
        each.close()
    assert in_loop <= SESSIONS * CALLS_OF_ONE_OF_MANY


def bytes_unread(connection):
    count = array.array("i", [0])
    fcntl.ioctl(connection._sock, termios.FIONREAD, count)
    return count[0]
