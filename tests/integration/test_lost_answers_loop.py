"""Requests and answers lost by chance, and kills: each message is sent once and received once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import dray
from dray.client.connections.address import parse_address
from dray.testing.processes import ManagerProcess
from dray.wire.message_frames import Commit, Receive, Send
from tests.lines.losing_line import WAIT_S, LosingLine

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

SEEDS = 4
ROUNDS = 60
COMMITTED, ABORTED = dray.TransactionStatus.COMMITTED, dray.TransactionStatus.ABORTED


class Loop:
    """One client over a line that loses what it sends or hears, and what its queue must hold."""

    def __init__(self, process: ManagerProcess, line: LosingLine, seed: int) -> None:
        self.process, self.line, self.chance = process, line, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.waiting: dict[str, list[bytes]] = {"orders": [], "plain": []}
        """What was sent and not received, in order, by queue."""
        self.number = 0

    def run(self, rounds: int) -> None:
        with dray.connect(self.line.url) as manager:
            for _ in range(rounds):
                name = self.chance.choice(list(self.waiting))
                self.arm()
                act = self.chance.choice([self.send, self.send_many, self.receive, self.receive])
                act(manager, name)
                self.settle()
            for name, waiting in self.waiting.items():
                while waiting:
                    self.receive(manager, name)
                assert manager.queue(name).info().message_count == 0

    def arm(self) -> None:
        """Lose the next frame of a kind, its request or its answer; a kill may come with it."""
        self.line.happened.clear()
        kind = self.chance.choice([Send, Commit, Receive])
        self.chance.choice([self.line.lose_answer, self.line.lose_request])(kind)
        self.line.then = self.kill if self.chance.randrange(2) else None

    def settle(self) -> None:
        """Let what was armed happen; none of it is left for another round."""
        if not self.line.disarm():
            assert self.line.happened.wait(WAIT_S)
            self.counts["lost frames"] += 1

    def kill(self) -> None:
        self.counts["kills"] += 1
        self.process.kill()
        self.process.start()

    def bodies(self, count: int) -> list[bytes]:
        self.number += count
        return [b"%d" % each for each in range(self.number - count, self.number)]

    def send(self, manager: dray.Manager, name: str) -> None:
        (body,) = self.bodies(1)
        try:
            manager.queue(name).send(body)
        except dray.InDoubt as doubt:
            self.find_out(manager, doubt, name, [body])
        else:
            self.waiting[name].append(body)

    def send_many(self, manager: dray.Manager, name: str) -> None:
        bodies = self.bodies(self.chance.randrange(2, 9))
        try:
            manager.queue(name).send_many(bodies)
        except dray.InDoubt as doubt:
            self.find_out(manager, doubt, name, bodies)
        else:
            self.waiting[name] += bodies

    def find_out(
        self, manager: dray.Manager, doubt: dray.InDoubt, name: str, bodies: list[bytes]
    ) -> None:
        """The outcome of a send in doubt is known, and it is true."""
        self.counts["sends in doubt"] += 1
        assert self.line.happened.wait(WAIT_S)
        assert (doubt.sent, doubt.count, doubt.retryable) == (0, len(bodies), False)
        outcome = manager.outcome(doubt.transaction_id)
        assert outcome in {COMMITTED, ABORTED}
        if outcome is COMMITTED:
            self.waiting[name] += bodies

    def receive(self, manager: dray.Manager, name: str) -> None:
        """Receive until there is an answer: it gives the first message, once."""
        waiting = self.waiting[name]
        while waiting:
            try:
                found = manager.queue(name).receive(30)
            except dray.ConnectionLost:
                self.counts["receives repeated"] += 1
                assert self.line.happened.wait(WAIT_S)
            else:
                assert found.body == waiting.pop(0)
                return


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_lost_answer_or_request_loses_or_doubles_a_message(tmp_path, seed, went_through):
    with ManagerProcess("manager", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("orders")
            manager.create_queue("plain", transactional=False)
        with LosingLine(parse_address(process.url).dial).listen() as line:
            loop = Loop(process, line, seed)
            try:
                loop.run(ROUNDS)
            finally:
                print(f"seed {seed}: {dict(loop.counts)}")
                went_through.update(loop.counts)
    assert loop.counts["sends in doubt"]
    assert loop.counts["receives repeated"]
