"""Full, missing and remade queues at a destination, with kills: nothing is dropped unsaid."""

from __future__ import annotations

import random
from collections import Counter
from threading import Timer

import pytest

import dray
from tests.integration.commands import until
from tests.integration.copied_stores import Pair, Party

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

SEEDS = 4
ROUNDS = 25
DEAD = "system$;deadxact"
QUOTA = 12_000
QUEUES = ("full", "missing", "remade")


class Loop:
    """A source that sends to queues that cannot take everything, and what became of it."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair, self.chance = pair, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.kept: set[bytes] = set()
        """Acked, and sent with the default or `use_dead_letter_queue=True`."""
        self.unkept: set[bytes] = set()
        """Acked, and sent with `use_dead_letter_queue=False`."""
        self.doubts: set[bytes] = set()
        self.received: list[bytes] = []
        self.number = 0

    def run(self, rounds: int) -> None:
        with self.pair.destination.process.connect() as manager:
            manager.create_queue("full", quota=QUOTA)
            manager.create_queue("remade")
        acts = (self.kill, self.kill, self.make_room, self.delete, self.make_again)
        for _ in range(rounds):
            self.send(self.chance.choice(QUEUES), self.chance.randrange(1, 15))
            self.chance.choice(acts)()
        self.make_again()
        self.rest()
        self.judge()

    def send(self, name: str, count: int, doomed: Party | None = None) -> None:
        """Send messages; a party may be killed meanwhile."""
        killer = Timer(self.chance.uniform(0, 0.2), doomed.process.kill) if doomed else None
        if killer:
            killer.start()
        try:
            with self.pair.source.process.connect() as manager:
                queue = manager.queue(f"{self.pair.destination.url}/{name}")
                for _ in range(count):
                    self.number += 1
                    body = b"%d " % self.number + bytes(self.chance.randrange(100, 2000))
                    wanted = self.chance.choice([None, None, True, False])
                    self.doubts.add(body)
                    queue.send(body, use_dead_letter_queue=wanted)
                    self.doubts.discard(body)
                    (self.unkept if wanted is False else self.kept).add(body)
        except (dray.InDoubt, dray.ConnectionLost):
            assert doomed is self.pair.source, "only a kill ends a connection"
        finally:
            if killer:
                killer.join()

    def kill(self) -> None:
        """Kill either manager, or both, under traffic."""
        self.counts["kills"] += 1
        doomed = self.chance.choice([self.pair.source, self.pair.destination])
        self.send(self.chance.choice(QUEUES), 40, doomed)
        if self.chance.randrange(3) == 0:
            for each in (self.pair.source, self.pair.destination):
                each.process.kill()
        for each in (self.pair.source, self.pair.destination):
            if not each.process.running:
                each.process.start()

    def make_room(self) -> None:
        """Receive all that is there."""
        with self.pair.destination.process.connect() as manager:
            self.drain(manager, "full")

    def delete(self) -> None:
        """Delete a queue under traffic, once all in it is received."""
        with self.pair.destination.process.connect() as manager:
            if any(each.name == "remade" for each in manager.queues()):
                self.counts["deleted queues"] += 1
                self.rest()
                self.drain(manager, "remade")
                manager.delete_queue("remade")

    def make_again(self) -> None:
        with self.pair.destination.process.connect() as manager:
            manager.create_queue("remade", exist_ok=True)

    def drain(self, manager: dray.Manager, name: str) -> None:
        queue = manager.queue(name)
        while queue.info().message_count:
            self.received.append(bytes(queue.receive(0).body))

    def rest(self) -> None:
        """Wait until the source has nothing left to deliver, and is told of all refusals."""

        def at_rest() -> bool:
            with self.pair.source.process.connect() as manager:
                infos = [each for each in manager.queues() if each.name.startswith("dray://")]
            return not any(each.message_count for each in infos)

        until(at_rest)

    def judge(self) -> None:
        """Each message is at one place: received, in its queue, or a dead letter at its source."""
        dead = self.pair.source.bodies(DEAD)
        arrived = list(self.received)
        for name in ("full", "remade"):
            arrived += self.pair.destination.bodies(name)
        places = Counter(arrived) + Counter(dead)
        twice = [each.split()[0] for each, count in places.items() if count > 1]
        assert not twice, twice
        missing = [each.split()[0] for each in self.kept if not places[each]]
        assert not missing, missing
        assert not set(dead) & self.unkept, "kept against the word of the sender"
        assert set(places) <= self.kept | self.unkept | self.doubts
        told = {line.get("kind") for line in self.pair.source.log()}
        assert {"refused-quota-exceeded", "refused-queue-not-found"} <= told
        self.pair.source.assert_readable_log()
        self.pair.destination.assert_readable_log()
        self.counts["messages"] += len(arrived)
        self.counts["dead letters"] += len(dead)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_refused_message_is_a_dead_letter_through_every_kill(tmp_path, seed, went_through):
    with Pair(tmp_path) as pair:
        loop = Loop(pair, seed)
        try:
            loop.run(ROUNDS)
        finally:
            print(f"seed {seed}: {dict(loop.counts)}")
            went_through.update(loop.counts)
    assert loop.counts["dead letters"]
