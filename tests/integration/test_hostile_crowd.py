"""Seven kinds of hostile callers at once, and an honest one that works as if it were alone.

Afterwards everything that they held is back (the kinds: `tests/hostile.py`). The test counts the
calls of the loop while the honest one works. It tells how long the honest one takes and does not
judge it: the machine may have other work. `python -m benches hostile` compares by turns.
"""

from __future__ import annotations

import gc
import os
import resource
import ssl
import statistics
import time
from functools import partial

import pytest
import trustme

import dray
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from tests.cost import calls_in_loop, descriptors
from tests.hostile import Hostile
from tests.integration.commands import until

pytestmark = pytest.mark.slow

ROUNDS = 100
CALLS_RATIO_MAX = 1.5
"""The honest caller costs the loop 1,600 calls a message; the crowd itself adds a tenth of that."""


def delays(queue: dray.Queue) -> list[float]:
    """How long each send and receive of an honest caller takes, in seconds."""
    taken = []
    for number in range(ROUNDS):
        begun = time.perf_counter()
        queue.send(b"%d" % number)
        assert queue.receive(timeout=60).body == b"%d" % number
        taken.append(time.perf_counter() - begun)
    return taken


@pytest.fixture
def _many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def served(tmp_path):
    authority = trustme.CA()
    shown = tmp_path / "localhost.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(shown)
    options = ServeOptions(
        data="", listen="127.0.0.1:0", socket=str(tmp_path / "dray.sock"), tls_cert=str(shown),
        open=True,
    )  # fmt: skip
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    yield daemon, trusted
    daemon.stop()


def held(server) -> dict[str, int]:
    """What a daemon holds of its callers."""
    around = server._around
    return {
        "sessions": len(server._sessions),
        "unheard": len(server._unheard),
        "shares": len(server._held),
        "handshakes": len(server._handshakes._under_way),
        "lent files": around.copier.files_lent,
        "files without a frame": len(around.copier.unclaimed.since),
        "frames that are not whole": around.intake.bytes_held,
        "unsent bytes": around.unsent_bytes,
    }


@pytest.mark.usefixtures("_many_descriptors")
@pytest.mark.parametrize(
    "count", [105, pytest.param(1_001, marks=pytest.mark.torture)], ids=["105", "1001"]
)
def test_hostile_callers_of_seven_kinds_cost_others_nothing_and_leave_nothing(
    served, tmp_path, count
):
    daemon, trusted = served
    server = daemon._server
    unix, tcp = sorted(daemon.addresses, key=lambda address: "unix" not in address)
    lent = os.open(tmp_path / "lent", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with dray.connect(unix) as manager:
            assert manager.create_queue("orders").info().message_count == 0
            queue = manager.create_queue("honest")
            alone = delays(queue)
            calls_alone = calls_in_loop(server._loop, partial(delays, queue))
            gc.collect()
            before, open_before = held(server), descriptors()
            hostile = Hostile(tcp, unix, lent, trusted)
            try:
                hostile.come(count)
                among = delays(queue)
                calls_among = calls_in_loop(server._loop, partial(delays, queue))
                assert len(server._sessions) > count // 4
            finally:
                hostile.leave()
            until(lambda: held(server) == before)
            until(lambda: not descriptors() - open_before)
            again = delays(queue)
    finally:
        os.close(lent)
    print(f"calls of the loop for a message: {calls_alone / ROUNDS}, {calls_among / ROUNDS}")
    assert calls_among <= CALLS_RATIO_MAX * calls_alone
    for name, taken in (("alone", alone), ("among them", among), ("after", again)):
        print(f"{count} hostile callers, {name}: {told(taken)}")


def told(taken: list[float]) -> str:
    cuts = statistics.quantiles(taken, n=100)
    return f"median {1_000 * cuts[49]:.2f} ms, p99 {1_000 * cuts[98]:.2f} ms"
