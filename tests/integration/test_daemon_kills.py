"""Fifty kills at random moments, of either manager, under traffic: nothing lost, nothing twice."""

from __future__ import annotations

import random
import re
import threading
from contextlib import ExitStack, suppress

import pytest

import dray
from tests.integration.commands import started, until

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

KILLS = 50
PARTS = 3


class House:
    """One manager that is killed and started again at the same address."""

    def __init__(self, stack: ExitStack, folder, config) -> None:
        self._stack = stack
        self._folder = folder
        self._config = config
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        self.process = self._stack.enter_context(
            started(
                "serve",
                "--data",
                self._folder,
                "--open",
                "--listen",
                self.listen,
                "--config",
                self._config,
            )
        )
        line = self.process.stdout.readline().decode()
        found = re.search(r"dray://(\S+)", line)
        assert found, line or self.process.stderr.read()
        self.listen = found[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(100)


class Traffic:
    """Transactions of a few messages, one after the other; settles what it is in doubt about."""

    def __init__(self, source: House, queue_name: str) -> None:
        self.source = source
        self.queue_name = queue_name
        self.committed: list[int] = []
        self.over = threading.Event()
        self.error: BaseException | None = None
        self.doubts = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self.over.set()
        self._thread.join(120)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            number, pending = 0, None
            while not self.over.is_set() or pending is not None:
                with (
                    suppress(dray.ConnectionLost),
                    dray.connect(f"dray://{self.source.listen}") as manager,
                ):
                    if pending is not None:
                        if manager.outcome(pending) is dray.TransactionStatus.COMMITTED:
                            self.committed.append(number)
                        pending = None
                    queue = manager.queue(self.queue_name)
                    while not self.over.is_set():
                        number += 1
                        pending = self._commit(manager, queue, number)
                        if pending is not None:
                            self.doubts += 1
                            break
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self.error = error

    def _commit(self, manager, queue, number: int) -> str | None:
        """Commit one transaction; its id if nobody knows how it ended."""
        transaction = manager.transaction()
        try:
            for part in range(PARTS):
                queue.send(
                    b"%d.%d" % (number, part) + bytes(number % 20_000), transaction=transaction
                )
            transaction.commit()
        except dray.InDoubt:
            return transaction.id
        self.committed.append(number)
        return None


def test_fifty_kills_under_traffic(tmp_path, went_through):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    config = tmp_path / "quick.toml"
    config.write_text("reconnect_delay_s = 0.2\nresend_schedule_s = [0.3]\n")
    with ExitStack() as stack:
        source = House(stack, tmp_path / "a", config)
        destination = House(stack, tmp_path / "b", config)
        with dray.connect(f"dray://{destination.listen}") as manager:
            manager.create_queue("in")
        traffic = Traffic(source, f"dray://{destination.listen}/in")
        pause = threading.Event()
        for _ in range(KILLS):
            pause.wait(chance.uniform(0.0, 0.4))
            house = chance.choice([source, destination])
            house.kill()
            house.start()
        traffic.stop()
        expected = [
            b"%d.%d" % (number, part) for number in traffic.committed for part in range(PARTS)
        ]
        print(f"{len(traffic.committed)} committed, {traffic.doubts} in doubt")
        with dray.connect(f"dray://{destination.listen}") as manager:
            queue = manager.queue("in")
            until(lambda: queue.info().message_count >= len(expected), 60)
            found = [bytes(message.body).rstrip(b"\0") for message in queue.messages()]
    went_through["kills"] = KILLS
    assert found == expected
