"""SIGKILL of any process at any time, under traffic: nothing lost, nothing twice, order kept.

Four processes: a source and a destination queue manager, a sender and a receiver. Numbers and large
messages travel in common transactions. At chosen amounts of progress one of the four is killed and
started again. In the end the receiver must have every number once and in order, and every large
message with the bytes that were sent.
"""

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.testing.processes import ManagerProcess
from tests.integration.commands import until
from tests.integration.kill_loop_journal import committed, read
from tests.integration.kill_loop_sender import LARGE_EVERY, NUMBERS_PER_BATCH, large_body

HERE = Path(__file__).parent
HOUSE = HERE.parent.parent
PROGRESS_WITHIN_S = 200.0
LINES_BETWEEN_KILLS_MAX = 60


class Program:
    """A sender or a receiver, started again after each kill."""

    def __init__(self, name, arguments, folder):
        self.name, self.arguments = name, arguments
        self.journal = folder / f"{name}.journal"
        self.log = folder / f"{name}.log"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", f"tests.integration.kill_loop_{self.name}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *map(str, self.arguments)],
                cwd=HOUSE,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(100)

    def said(self):
        return self.log.read_text()


class Loop:
    """The four processes and the traffic between them."""

    def __init__(self, folder):
        self.source = ManagerProcess("source", folder)
        self.destination = ManagerProcess("destination", folder)
        self.stop_file = folder / "stop"
        self.folder = folder
        self.destination.start()
        self.source.start()
        with self.destination.connect() as manager:
            for name in ("numbers", "large", "statusq"):
                manager.create_queue(name)
        sent, received = folder / "sender.journal", folder / "receiver.journal"
        arguments = (self.source.url, self.destination.url, sent, self.stop_file)
        self.sender = Program("sender", arguments, folder)
        self.receiver = Program("receiver", (self.destination.url, received), folder)
        self.sender.start()
        self.receiver.start()

    @property
    def all(self):
        return [self.source, self.destination, self.sender, self.receiver]

    def lines(self):
        """How far all of it has come."""
        return sum(len(read(program.journal)) for program in (self.sender, self.receiver))

    def received(self):
        return committed(read(self.receiver.journal))

    def await_progress(self, lines):
        """Wait until that many more lines were written; nothing may stand still for long."""
        wanted = self.lines() + lines
        deadline = time.monotonic() + PROGRESS_WITHIN_S
        while self.lines() < wanted:
            assert time.monotonic() < deadline, f"no progress: {self.story()}"
            for program in (self.sender, self.receiver):
                assert program.process.poll() is None, self.story()
            time.sleep(0.002)

    def finish(self):
        """Let the sender end, and what it sent arrive; give how many batches there were."""
        self.stop_file.touch()
        assert self.sender.process.wait(PROGRESS_WITHIN_S) == 0, self.story()
        batches = len(committed(read(self.sender.journal)))
        until(lambda: self._all_received(batches), PROGRESS_WITHIN_S)
        return batches

    def assert_delivered_once_in_order(self, batches):
        received = self.received()
        numbers = [number for what in received for number in what.get("numbers", [])]
        assert numbers == list(range(batches * NUMBERS_PER_BATCH)), self.story()
        large = [tuple(pair) for what in received for pair in what.get("large", [])]
        assert large == [
            (batch, hashlib.sha256(large_body(batch)).hexdigest())
            for batch in range(0, batches, LARGE_EVERY)
        ], self.story()
        for manager in (self.source, self.destination):
            with manager.connect() as connected:
                queues = connected.queues()
            assert sum(queue.message_count for queue in queues) == 0, queues

    def end(self):
        for each in self.all:
            each.kill()

    def story(self):
        """Where to look when it went wrong."""
        said = {each.log.name: each.log.read_text()[-2000:] for each in self.all}
        return f"work is in {self.folder}; {said}"

    def _all_received(self, batches):
        numbers = sum(len(what.get("numbers", [])) for what in self.received())
        large = sum(len(what.get("large", [])) for what in self.received())
        return numbers >= batches * NUMBERS_PER_BATCH and large >= -(-batches // LARGE_EVERY)


def run(folder, kills):
    seed = int(os.environ.get("DRAY_KILL_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"DRAY_KILL_SEED={seed}")
    chance = random.Random(seed)
    loop = Loop(folder)
    try:
        for _ in range(kills):
            loop.await_progress(chance.randrange(1, LINES_BETWEEN_KILLS_MAX))
            victim = chance.choice(loop.all)
            victim.kill()
            victim.start()
        loop.assert_delivered_once_in_order(loop.finish())
    finally:
        loop.end()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_kills_lose_nothing_repeat_nothing_and_keep_order(tmp_path, went_through):
    run(tmp_path, 8)
    went_through["kills"] = 8


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_fifty_kills_lose_nothing_repeat_nothing_and_keep_order(tmp_path, went_through):
    run(tmp_path, 50)
    went_through["kills"] = 50
