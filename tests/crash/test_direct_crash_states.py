"""Threads of a program send through `dray.open`, and the power fails: they were told no lie.

The power fails in the middle of syncs, at moments that chance chooses. Everything that a thread was
told before is there afterwards, each message once, and those of one thread in order without a gap.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from dray.client.blocking.manager import Manager
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.server import Server
from dray.embedded import EmbeddedDialer, EmbeddedRuntime
from dray.testing.disk import SimDisk

THREADS = 3
EACH = 12


class FailingPower(SimDisk):
    """Notes what would be left if the power failed in the middle of a sync."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._chance = Random(rng.random())
        self.told: list[bytes] = []
        self.left: list[tuple[list[bytes], SimDisk]] = []

    def admit_sync(self, name: str) -> None:
        if self.told and self._chance.random() < 0.2:
            # No other thread may write in the middle of this look.
            interval = sys.getswitchinterval()
            sys.setswitchinterval(100.0)
            self.left.append((list(self.told), self.after_crash()))
            sys.setswitchinterval(interval)
        super().admit_sync(name)


def opened(disk):
    def make(loop, options):
        return Server(loop, options, open_disk=lambda _: disk)

    daemon = EmbeddedDaemon("a simulated disk", read_options(data=""), make=make)
    daemon.start()
    dialer = EmbeddedDialer(daemon, "a simulated disk")
    return Manager(dialer, stop=daemon.stop, runtime=EmbeddedRuntime())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_after_a_power_failure_everything_is_there_that_threads_were_told(seed):
    disk = FailingPower(Random(seed))
    with opened(disk) as manager:
        queue = manager.create_queue("orders")
        started = threading.Barrier(THREADS)

        def send(name):
            started.wait()
            for number in range(EACH):
                body = b"%d/%d" % (name, number)
                queue.send(body)
                disk.told.append(body)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(send, range(THREADS)))
    assert disk.left, "the power never failed"
    for told, left in disk.left:
        with opened(left) as manager:
            found = [each.body for each in manager.queue("orders").messages()]
        assert set(told) <= set(found)
        for name in range(THREADS):
            of_one = [int(each.split(b"/")[1]) for each in found if each.startswith(b"%d/" % name)]
            assert of_one == list(range(len(of_one)))
