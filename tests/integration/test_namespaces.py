"""Two real queue managers, each in a network namespace, over a cable that is bad and is pulled.

The namespaces and the cable (a veth pair) are made and removed by the test, which reaches both
managers through their Unix sockets. Where the kernel has netem the cable delays, loses and
reorders; where it has not, it is only pulled. Needs root and `ip` (iproute2).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dray
from tests.integration.test_bad_line import BATCH, numbered

NETEM = ("delay", "50ms", "loss", "1%", "reorder", "25%", "limit", "100000")
PORT = 7340
PULLS = 5
PULLED_S = 2.0
RECEIVE_WITHIN_S = 120.0
READY_WITHIN_S = 60.0


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Host:
    """A network namespace with one end of the cable, and a queue manager in it."""

    def __init__(self, name, address, end, folder):
        self.name, self.address, self.end = name, address, end
        self.socket = folder / f"{end}.sock"
        self._folder = folder
        self._process = None

    def plug_in(self):
        ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", self.end)
        for device in (self.end, "lo"):
            ip("-n", self.name, "link", "set", device, "up")

    def pull(self):
        ip("-n", self.name, "link", "set", self.end, "down")

    def put_back(self):
        ip("-n", self.name, "link", "set", self.end, "up")

    def make_bad(self):
        """Whether the kernel can make the cable bad."""
        command = ["tc", "-n", self.name, "qdisc", "add", "dev", self.end, "root", "netem", *NETEM]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def start(self):
        command = ["ip", "netns", "exec", self.name, sys.executable, "-m", "dray.cli", "serve"]
        command += ["--data", str(self._folder / self.end), "--socket", str(self.socket)]
        command += ["--listen", f"{self.address}:{PORT}", "--name", self.end]
        with (self._folder / f"{self.end}.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.socket.exists():
            assert self._process.poll() is None, "the queue manager ended"
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(60) == 0

    def connect(self):
        return dray.connect(f"dray+unix://{self.socket}")


@pytest.fixture
def hosts(tmp_path):
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    made = [
        Host(f"dray-{os.getpid()}-{end}", f"10.77.0.{last}", f"dray{end}", Path(tmp_path))
        for last, end in enumerate("ab", 1)
    ]
    try:
        for host in made:
            ip("netns", "add", host.name)
        near, far = made
        ends = ("type", "veth", "peer", "name", far.end, "netns", far.name)
        ip("link", "add", near.end, "netns", near.name, *ends)
        for host in made:
            host.plug_in()
            host.start()
        yield made
    finally:
        for host in made:
            host.stop()
            ip("netns", "delete", host.name)


def history(near, far, count):
    """Send `count` messages while the cable is pulled again and again; what was received."""
    received = []
    failures = []

    def send():
        try:
            with near.connect() as manager:
                queue = manager.queue(f"dray://{far.address}:{PORT}/orders")
                for start in range(0, count, BATCH):
                    with manager.transaction() as transaction:
                        queue.send_many(numbered(start, BATCH), transaction=transaction)
        except dray.DrayError as error:
            failures.append(error)

    with far.connect() as manager:
        queue = manager.create_queue("orders")
        sender = threading.Thread(target=send)
        sender.start()
        pulled = 0
        while len(received) < count and not failures:
            with manager.transaction() as transaction:
                found = queue.receive_many(500, timeout=RECEIVE_WITHIN_S, transaction=transaction)
            received += [message.app_specific for message in found]
            if len(received) * PULLS // count > pulled:
                pulled += 1
                end = (near, far)[pulled % 2]
                end.pull()
                time.sleep(PULLED_S)
                end.put_back()
        sender.join(RECEIVE_WITHIN_S)
        assert not failures
        assert not sender.is_alive()
        assert pulled == PULLS
        assert queue.info().message_count == 0
    return received


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_a_hundred_thousand_messages_over_a_cable_that_is_pulled(hosts):
    assert history(*hosts, 100_000) == list(range(100_000))


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_messages_over_a_cable_that_loses_and_reorders(hosts):
    bad = [host.make_bad() for host in hosts]
    if not all(bad):
        pytest.skip("this kernel has no netem")
    assert history(*hosts, 100_000) == list(range(100_000))
