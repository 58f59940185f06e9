"""A large message under way between two queue managers does not hold up small ones of other queues.

What is on the line is bounded by time, so the test counts fragments: each takes a second of the
line, and without lanes eight of them, a window, would be ahead of the small message.
"""

from __future__ import annotations

import statistics
import time

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import until
from tests.lines.line import Line

FRAGMENT_BYTES = 4_000_000
WAITS_S = 60.0


def await_parts(queue, count):
    until(lambda: queue.info().message_count >= count, WAITS_S)


@pytest.mark.slow
def test_a_small_message_overtakes_a_large_one_on_a_narrow_line(tmp_path):
    with (
        ManagerProcess("source", tmp_path) as source,
        ManagerProcess("there", tmp_path) as there,
        Line(there.port, rate_bytes_s=FRAGMENT_BYTES).listen() as line,
        source.connect() as here,
        there.connect() as far,
    ):
        for name in ("large", "small", "statusq"):
            far.create_queue(name)
        to_small = here.queue(f"dray://127.0.0.1:{line.port}/small")
        to_large = here.queue(f"dray://127.0.0.1:{line.port}/large")
        dray.LargeMessageQueue(to_large).send(bytes(15 * FRAGMENT_BYTES))
        large, small = far.queue("large", raw=True), far.queue("small")
        await_parts(large, 1)
        to_small.send(b"urgent")
        urgent = small.receive(timeout=WAITS_S)
        assert bytes(urgent.body) == b"urgent"
        # The header, and what came while the small one was made durable twice.
        there_first = [
            part for part in large.messages() if part.arrived_time <= urgent.arrived_time
        ]
        assert len(there_first) < 7


@pytest.mark.torture
@pytest.mark.timeout(300)
def test_a_large_message_delays_a_small_one_by_no_more_than_fifty_milliseconds(tmp_path):
    with (
        ManagerProcess("source", tmp_path) as source,
        ManagerProcess("there", tmp_path) as there,
        Line(there.port, delay_s=0.05, rate_bytes_s=12_500_000).listen() as line,
        source.connect() as here,
        there.connect() as far,
    ):
        for name in ("large", "small", "statusq"):
            far.create_queue(name)
        to_small = here.queue(f"dray://127.0.0.1:{line.port}/small")
        to_large = here.queue(f"dray://127.0.0.1:{line.port}/large")
        small = far.queue("small")

        def median_s():
            found = []
            for _ in range(60):
                began = time.perf_counter()
                to_small.send(b"x" * 1024)
                small.receive(timeout=WAITS_S)
                found.append(time.perf_counter() - began)
            return statistics.median(found[5:])

        alone = median_s()
        dray.LargeMessageQueue(to_large).send(bytes(300_000_000))
        await_parts(far.queue("large", raw=True), 2)
        beside = median_s()
        assert beside - alone <= 0.05
