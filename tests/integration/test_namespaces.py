"""Two real queue managers, each in a network namespace, over a cable that is bad and is cut.

It is the kernel's own TCP that meets delay, loss, repetition and reordering of packets; see
`tests.lines.namespaces`. The test reaches both managers through their Unix sockets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

import dray
from tests.integration.test_line import BATCH, numbered
from tests.lines.cable import Faults
from tests.lines.namespaces import cabled, why_not

BAD = Faults(delay_s=0.05, loss=0.01, repetition=0.002, reordering=0.01, late_s=0.02)
"""50 ms each way; one packet in a hundred is lost, and one is overtaken."""
PORT = 7340
RECEIVE_WITHIN_S = 240.0
READY_WITHIN_S = 60.0
ENDS_WITHIN_S = 60.0


PACKETS = 150
"""They fit what a socket holds while a busy machine does not let its program read."""
ECHO = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], 7000))
print("ready", flush=True)
while data := sock.recvfrom(100):
    sock.sendto(*data)
"""
ASK = """
import json, socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], 7000))
sock.settimeout(0.5)
for number in range(int(sys.argv[3])):
    sock.send(b"%d %f" % (number, time.monotonic()))
seen, quickest, until = [], 1e9, time.monotonic() + float(sys.argv[2])
while -1 not in seen and time.monotonic() < until:
    try:
        number, sent = sock.recv(100).split()
        seen.append(int(number))
        quickest = min(quickest, time.monotonic() - float(sent))
    except TimeoutError:
        sock.send(b"-1 %f" % time.monotonic())
print(json.dumps({"seen": [each for each in seen if each >= 0], "quickest": quickest}))
"""


class Host:
    """A place at one end of the cable, and the queue manager there."""

    def __init__(self, place, folder):
        self.place = place
        self.socket = folder / f"{place.address}.sock"
        self._folder = folder
        self._process = None

    @property
    def orders(self):
        return f"dray://{self.place.address}:{PORT}/orders"

    def start(self):
        command = [sys.executable, "-m", "dray.cli", "serve", "--socket", str(self.socket)]
        command += ["--data", str(self._folder / self.place.address), "--name", self.place.address]
        command += ["--open", "--listen", f"{self.place.address}:{PORT}"]
        with (self._folder / f"{self.place.address}.log").open("wb") as log:
            self._process = subprocess.Popen(self.place.command(command), stdout=log, stderr=log)
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.socket.exists():
            assert self._process.poll() is None, "the queue manager ended"
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(ENDS_WITHIN_S) == 0

    def connect(self):
        return dray.connect(f"dray+unix://{self.socket}")


@pytest.fixture
def line(request, tmp_path):
    """Two hosts and the cable between them, as bad as the test says."""
    if reason := why_not():
        pytest.skip(reason)
    hosts = []
    with cabled(request.param, seed=1) as (*places, cable):
        try:
            for place in places:
                hosts.append(Host(place, tmp_path))
                hosts[-1].start()
            yield *hosts, cable
        finally:
            for host in hosts:
                host.stop()


class Sender(threading.Thread):
    """Sends numbered messages in transactions."""

    def __init__(self, host, queue, count):
        super().__init__()
        self.failure = None
        self._host, self._queue, self._count = host, queue, count

    def run(self):
        try:
            with self._host.connect() as manager:
                queue = manager.queue(self._queue)
                for start in range(0, self._count, BATCH):
                    with manager.transaction() as transaction:
                        queue.send_many(numbered(start, BATCH), transaction=transaction)
        except BaseException as error:
            self.failure = error
            raise


def history(line, *, count, cuts, cut_s):
    """Send `count` messages while the cable is cut again and again; what was received."""
    near, far, cable = line
    received = []
    with far.connect() as manager:
        queue = manager.create_queue("orders")
        sender = Sender(near, far.orders, count)
        sender.start()
        was_cut = 0
        while len(received) < count:
            with manager.transaction() as transaction:
                found = queue.receive_many(500, timeout=RECEIVE_WITHIN_S, transaction=transaction)
            received += [message.app_specific for message in found]
            if len(received) * (cuts + 1) // count > was_cut < cuts:
                was_cut += 1
                cable.cut()
                time.sleep(cut_s)
                cable.mend()
        sender.join(RECEIVE_WITHIN_S)
        assert not sender.is_alive()
        assert sender.failure is None
        assert was_cut == cuts
        assert queue.info().message_count == 0
    return received


@pytest.mark.slow
def test_the_kernels_own_packets_are_delayed_lost_repeated_and_overtaken():
    if reason := why_not():
        pytest.skip(reason)
    faults = Faults(delay_s=0.05, loss=0.1, repetition=0.1, reordering=0.1, late_s=0.1)
    with cabled(faults, seed=1) as (near, far, cable):
        echo = far.command([sys.executable, "-c", ECHO, far.address])
        ask = near.command([sys.executable, "-c", ASK, far.address])
        whole, short = ([*ask, within, str(PACKETS)] for within in (str(READY_WITHIN_S), "0.5"))
        answering = subprocess.Popen(echo, stdout=subprocess.PIPE)
        try:
            assert answering.stdout.readline() == b"ready\n"
            said = json.loads(subprocess.run(whole, capture_output=True, check=True).stdout)
            cable.cut()
            nothing = json.loads(subprocess.run(short, capture_output=True, check=True).stdout)
        finally:
            answering.kill()
            answering.communicate()
    seen = said["seen"]
    assert said["quickest"] >= 2 * faults.delay_s
    assert PACKETS // 2 < len(set(seen)) < PACKETS
    assert len(seen) > len(set(seen))
    assert seen != sorted(seen)
    assert nothing["seen"] == []
    assert cable.counts[0]["cut"]


@pytest.mark.slow
@pytest.mark.parametrize("line", [msgspec.structs.replace(BAD, delay_s=0.005)], indirect=True)
def test_two_thousand_messages_over_a_real_bad_cable_arrive_once_and_in_order(line):
    assert history(line, count=2_000, cuts=1, cut_s=0.3) == list(range(2_000))


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("line", [BAD], indirect=True)
def test_a_hundred_thousand_messages_over_a_real_bad_cable_arrive_once_and_in_order(line):
    assert history(line, count=100_000, cuts=10, cut_s=2.0) == list(range(100_000))


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("line", [BAD], indirect=True)
def test_a_file_goes_over_a_real_bad_cable_that_is_cut(line, tmp_path, monkeypatch):
    """The two programs are in this process; their queue managers are not."""
    near, far, cable = line
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    source = tmp_path / "source"
    source.write_bytes(os.urandom(20_000_000))
    with near.connect() as here, far.connect() as there:
        there.create_queue("orders")
        offer = here.offer_file(source, far.orders, listen=None)
        incoming = there.accept_file("orders", RECEIVE_WITHIN_S)
        cuts = []

        def cut(done, size):
            if done * 4 // size > len(cuts) < 3:
                cuts.append(done)
                cable.cut()
                time.sleep(2.0)
                cable.mend()

        incoming.save_to(tmp_path / "target", cut)
        assert offer.wait(RECEIVE_WITHIN_S).state == "done"
    assert len(cuts) == 3
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


LONG = Faults(delay_s=0.05, queue_bytes=64 << 20)
LARGE_BYTES, LARGE_COUNT = 4_000_000, 60
LINE_BYTES = 5_000_000
"""What 100 MB/s have on a line of 50 ms."""


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("line", [LONG], indirect=True)
def test_a_long_line_has_more_on_it_than_a_socket_holds_by_itself(line):
    """By itself it was as quick as 4 MB in 100 ms, half of them bookkeeping: 25 MB/s."""
    near, far, cable = line
    on_its_own = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text("ascii").split()[2])
    if on_its_own > LINE_BYTES:
        pytest.skip("the kernel lets a send buffer grow far enough by itself")
    with far.connect() as there, near.connect() as here:
        queue, away = there.create_queue("orders"), here.queue(far.orders)
        for _ in range(LARGE_COUNT):
            away.send(bytes(LARGE_BYTES))
        for _ in range(LARGE_COUNT):
            queue.receive(timeout=RECEIVE_WITHIN_S)
    near.stop()
    far.stop()
    cable.end()
    assert cable.counts[0]["most_bytes"] > on_its_own
