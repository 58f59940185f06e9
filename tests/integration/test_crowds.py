"""More callers than descriptors: some are turned away, and the store does not notice."""

import re
import socket
import subprocess

import pytest

import dray
from dray.daemon.sockets.descriptors import DESCRIPTORS_KEPT
from tests.integration.commands import COMMAND, WITHIN_S, environment, until

pytestmark = pytest.mark.slow

CALLERS = 20


@pytest.fixture
def crowded(tmp_path):
    """A daemon that may serve twenty callers."""
    command = f'ulimit -n {DESCRIPTORS_KEPT + CALLERS}; exec "$@"'
    serve = ["serve", "--data", str(tmp_path / "data"), "--open", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        ["sh", "-c", command, "sh", *COMMAND, *serve],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    )
    with process.stdout as said:
        yield re.search(r"dray://\S+", said.readline()).group()
    process.terminate()
    assert process.wait(WITHIN_S) == 0


def test_callers_who_say_nothing_cannot_keep_the_store_from_its_files(crowded):
    host, _, port = crowded.removeprefix("dray://").partition(":")
    with dray.connect(crowded) as manager:
        queue = manager.create_queue("orders")
        crowd = [socket.create_connection((host, int(port))) for _ in range(DESCRIPTORS_KEPT + 100)]
        for _ in range(5):
            queue.send(bytes(4_000_000))
        assert queue.info().message_count == 5
        for each in crowd:
            each.close()

    def answered() -> bool:
        try:
            with dray.connect(crowded) as manager:
                return manager.queue("orders").info().message_count == 5
        except dray.ConnectionLost:
            return False

    until(answered)
