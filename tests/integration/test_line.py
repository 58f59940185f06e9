"""Two real queue managers over a line that delays, stalls and breaks: once each, and in order."""

from __future__ import annotations

import random
import threading

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import until
from tests.lines.line import Inward, Line, Outward

DELAY_S = 0.05
BATCH = 100
BODY_BYTES = 1024
RECEIVE_WITHIN_S = 60.0
TROUBLES = 10


class Sender(threading.Thread):
    """Sends numbered messages in transactions; most commit, some are aborted on purpose."""

    def __init__(self, url, queue, count, rng):
        super().__init__()
        self.failure = None
        self._url, self._queue, self._count = url, queue, count
        self._aborts = [rng.random() < 0.1 for _ in range(count // BATCH)]

    def run(self):
        try:
            with dray.connect(self._url) as manager:
                queue = manager.queue(self._queue)
                for start, aborted in zip(range(0, self._count, BATCH), self._aborts, strict=True):
                    if aborted:
                        transaction = manager.transaction()
                        queue.send_many([dray.Message(body=b"never")], transaction=transaction)
                        transaction.abort()
                    with manager.transaction() as transaction:
                        queue.send_many(numbered(start, BATCH), transaction=transaction)
        except BaseException as error:
            self.failure = error
            raise


def numbered(start, count):
    body = bytes(BODY_BYTES)
    return [dray.Message(body=body, app_specific=number) for number in range(start, start + count)]


def trouble(line, rng):
    """Whatever a line can do."""
    rng.choice(
        [
            line.cut,
            line.cut,
            lambda: line.stall(0.3),
            lambda: line.stall(0.3, ways=(Outward,)),
            lambda: line.stall(0.3, ways=(Inward,)),
        ]
    )()


def history(tmp_path, count, seed):
    """Send `count` messages through troubles; the numbers as they were received."""
    rng = random.Random(seed)
    received = []
    with (
        ManagerProcess("source", tmp_path) as source,
        ManagerProcess("there", tmp_path) as there,
        Line(there.port, delay_s=DELAY_S).listen() as line,
        there.connect() as manager,
    ):
        queue = manager.create_queue("orders")
        sender = Sender(source.url, f"dray://127.0.0.1:{line.port}/orders", count, rng)
        sender.start()
        troubled = 0
        while len(received) < count:
            with manager.transaction() as transaction:
                found = queue.receive_many(500, timeout=RECEIVE_WITHIN_S, transaction=transaction)
            received += [message.app_specific for message in found]
            if len(received) * TROUBLES // count > troubled:
                troubled += 1
                trouble(line, rng)
        sender.join(RECEIVE_WITHIN_S)
        assert sender.failure is None
        assert queue.info().message_count == 0
        assert line.cuts
        assert line.stalls
    return received


@pytest.mark.slow
def test_five_thousand_messages_over_a_troubled_line_arrive_once_and_in_order(tmp_path):
    assert history(tmp_path, 5_000, seed=1) == list(range(5_000))


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_hundred_thousand_messages_over_a_troubled_line_arrive_once_and_in_order(tmp_path, seed):
    assert history(tmp_path, 100_000, seed) == list(range(100_000))


@pytest.mark.slow
def test_a_line_that_stalls_holds_back_one_message_and_not_a_whole_batch(tmp_path):
    """8 messages of 500 KB in one transaction; the line stalls behind 3 MB."""
    body, passed = bytes(500_000), 3_000_000
    with (
        ManagerProcess("source", tmp_path) as source,
        ManagerProcess("there", tmp_path) as there,
        Line(there.port).listen() as line,
        source.connect() as here,
        there.connect() as far,
    ):
        queue = far.create_queue("orders")
        out = here.queue(f"dray://127.0.0.1:{line.port}/orders")
        line.stall_behind(passed)
        with here.transaction() as transaction:
            out.send_many([dray.Message(body=body) for _ in range(8)], transaction=transaction)
        until(lambda: queue.info().message_count == (passed - 1) // len(body), RECEIVE_WITHIN_S)
