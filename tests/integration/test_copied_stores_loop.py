"""Kills, copies put back, flipped bits and empty folders by chance, under real queue managers."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from threading import Timer

import pytest

import dray
from tests.integration.commands import until
from tests.integration.copied_stores import Pair, Party, flip_newest

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

ROUNDS = 30
SEEDS = 4
OVERTAKEN = 30
BODY_BYTES_MAX = 3000


class Loop:
    """The pair, what was acked to its sender, and what a lost past may have lost."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair, self.chance, self.counts = pair, random.Random(seed), Counter()
        self.newest = b""
        self.acked: list[bytes] = []
        self.maybe: set[bytes] = set()
        """In doubt: sent, and not answered."""
        self.forgiven: set[bytes] = set()
        """What only a past knew that is lost."""
        self.accepted: set[bytes] = set()
        """What may arrive twice, since a person accepted it."""
        self.source_copies: list[tuple[object, set[bytes]]] = []
        self.destination_copies: list[object] = []
        self.number = 0

    def run(self, rounds: int) -> None:
        acts = (
            self.kill_source,
            self.kill_destination,
            self.kill_both,
            self.copy_source,
            self.copy_destination,
            self.put_back_source,
            self.put_back_destination,
            self.flip,
            self.empty_destination,
        )
        for _ in range(rounds):
            self.send(self.chance.randrange(1, 12))
            if self.chance.randrange(2):
                self.settle()
            self.chance.choice(acts)()
            self.send(self.chance.randrange(6))
        self.send(10)
        self.settle()
        self.judge()

    def send(self, count: int, doomed: Party | None = None) -> None:
        """Send messages; a party may be killed meanwhile."""
        killer = Timer(self.chance.uniform(0, 0.1), doomed.process.kill) if doomed else None
        try:
            with self.pair.source.process.connect() as manager:
                queue = manager.queue(self.pair.url)
                if killer:
                    killer.start()
                for _ in range(count):
                    self.number += 1
                    body = b"%d " % self.number + self.chance.randbytes(
                        self.chance.randrange(100, BODY_BYTES_MAX)
                    )
                    self.maybe.add(body)
                    queue.send(body)
                    self.maybe.discard(body)
                    self.newest = body
                    self.acked.append(body)
        except (dray.InDoubt, dray.ConnectionLost):
            assert doomed is self.pair.source, "only a kill ends a connection"
        finally:
            if killer:
                killer.join()

    def settle(self) -> None:
        """Wait until all is delivered; a person accepts what has diverged."""

        def delivered() -> bool:
            state, count = self.pair.source.outgoing(self.pair.url)
            if state == "diverged":
                self.accepted.update(self.acked, self.maybe)
                with self.pair.source.process.connect() as manager:
                    manager.accept_outgoing(self.pair.url)
                self.counts["divergences"] += 1
            return (state, count) == ("connected", 0)

        if self.number:
            until(delivered)

    def kill_source(self) -> None:
        self.counts["kills"] += 1
        self.send(50, doomed=self.pair.source)
        self.pair.source.process.start()

    def kill_destination(self) -> None:
        self.counts["kills"] += 1
        self.send(50, doomed=self.pair.destination)
        self.pair.destination.process.start()

    def kill_both(self) -> None:
        self.counts["kills"] += 2
        self.send(50, doomed=self.pair.source)
        self.pair.destination.process.kill()
        self.pair.source.process.start()
        self.send(3)
        self.pair.destination.process.start()

    def copy_source(self) -> None:
        self.counts["copies"] += 1
        self.pair.source.process.kill()
        copy = self.pair.source.copy(f"source-{len(self.source_copies)}")
        self.source_copies.append((copy, set(self.acked) | self.maybe))
        self.pair.source.process.start()

    def copy_destination(self) -> None:
        self.counts["copies"] += 1
        self.pair.destination.process.kill()
        self.destination_copies.append(
            self.pair.destination.copy(f"destination-{len(self.destination_copies)}")
        )
        self.pair.destination.process.start()

    def put_back_source(self) -> None:
        """What was acked since the copy, and is not at the destination, is lost with its past."""
        if not self.source_copies:
            return
        self.counts["sources put back"] += 1
        copy, known = self.chance.choice(self.source_copies)
        self.pair.source.process.kill()
        there = set(self.pair.destination.bodies())
        self.forgiven |= {*self.acked, *self.maybe} - known - there
        self.pair.source.put_back(copy)
        log = len(self.pair.source.log())
        offline = self.chance.randrange(2)
        if offline:
            self.pair.destination.process.kill()
        self.pair.source.process.start()
        self.send(self.chance.randrange(1, 10))
        if offline:
            self.pair.destination.process.start()
        if there - known:
            self.settle()
            told = [line.get("kind") for line in self.pair.source.log()[log:]]
            assert {"older-copy", "diverged"} & set(told), told

    def put_back_destination(self) -> None:
        """What arrived since the copy is lost with its past, and both ends say so."""
        if not self.destination_copies:
            return
        self.counts["destinations put back"] += 1
        settled = bool(self.chance.randrange(2))
        if settled:
            self.settle()
        self.pair.source.process.kill()
        before = set(self.pair.destination.bodies())
        self.pair.destination.put_back(self.chance.choice(self.destination_copies))
        log = len(self.pair.destination.log()), len(self.pair.source.log())
        self.pair.destination.process.start()
        lost = before - set(self.pair.destination.bodies())
        self.forgiven |= lost
        self.pair.source.process.start()
        self.send(self.chance.randrange(10))
        if lost & set(self.acked) and settled:
            self.settle()
            told = {line.get("kind") for line in self.pair.destination.log()[log[0] :]}
            told |= {line.get("kind") for line in self.pair.source.log()[log[1] :]}
            assert {"older-copy", "destination-behind"} <= told, told

    def flip(self) -> None:
        """Flip a bit in what was sent last, which may have arrived; it goes to quarantine."""
        self.pair.source.process.kill()
        if self.newest and flip_newest(self.pair.source, self.newest):
            self.counts["flipped bits"] += 1
            self.forgiven.add(self.newest)
        self.pair.source.process.start()

    def empty_destination(self) -> None:
        self.counts["empty folders"] += 1
        self.pair.destination.process.kill()
        empty = self.pair.other("empty", self.pair.destination.process.port)
        empty.process.start()
        self.send(self.chance.randrange(1, 10))
        until(
            lambda: self.pair.source.outgoing(self.pair.url)[0] in ("need-validation", "diverged")
        )
        with empty.process.connect() as manager:
            assert all(each.message_count == 0 for each in manager.queues())
        empty.process.kill()
        shutil.rmtree(empty.data)
        self.pair.destination.process.start()

    def judge(self) -> None:
        """Nothing lost, nothing doubled, nothing unheard of, and a log for people."""
        arrived = self.pair.destination.bodies()
        twice = {body for body, count in Counter(arrived).items() if count > 1}
        assert not twice - self.accepted, sorted(int(each.split()[0]) for each in twice)
        missing = set(self.acked) - self.forgiven - set(arrived)
        assert not missing, sorted(int(each.split()[0]) for each in missing)
        assert set(arrived) <= {*self.acked, *self.maybe}
        if not self.accepted:
            numbers = [int(each.split()[0]) for each in arrived]
            assert numbers == sorted(numbers)
        for party in (self.pair.source, self.pair.destination):
            party.assert_readable_log()
        self.counts["messages"] += len(arrived)
        self.counts["messages lost with their past"] += len(
            self.forgiven & set(self.acked) - set(arrived)
        )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_message_is_lost_or_doubled_but_with_a_lost_past(tmp_path, seed, went_through):
    with Pair(tmp_path) as pair:
        loop = Loop(pair, seed)
        try:
            loop.run(ROUNDS)
        finally:
            went_through.update(loop.counts)


@pytest.mark.parametrize("also", ["alone", "with its destination"])
def test_a_source_that_is_killed_while_its_first_position_is_judged_loses_nothing(
    tmp_path, also, went_through
):
    """After a put-back: at chance between the start, OpenStream and the first Data, again."""
    chance = random.Random(7)
    with Pair(tmp_path) as pair:
        pair.delivered(b"first")
        pair.source.process.stop()
        copy = pair.source.copy("copy")
        pair.source.process.start()
        lost = [b"lost %d" % n for n in range(20)]
        pair.delivered(*lost)
        pair.destination.process.kill()
        pair.source.put_back(copy)
        pair.source.process.start()
        sent = [b"offline %d" % n for n in range(10)]
        pair.send(*sent)
        pair.destination.process.start()
        forgiven: set[bytes] = set()
        for n in range(OVERTAKEN):
            # The destination listens; the source dials within a tenth of a second.
            killer = Timer(chance.uniform(0, 0.15), pair.source.process.kill)
            killer.start()
            killer.join()
            if also != "alone":
                pair.destination.process.kill()
                pair.destination.process.start()
            pair.source.process.start()
            if n % 3 == 2:
                pair.source.process.kill()
                forgiven |= set(sent) - set(pair.destination.bodies())
                pair.destination.process.kill()
                pair.source.put_back(copy)
                pair.source.process.start()
                sent += [b"after put-back %d" % n]
                pair.send(sent[-1])
                pair.destination.process.start()
            went_through["kills"] += 1
        until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
        arrived = pair.destination.bodies()
        assert len(arrived) == len(set(arrived))
        assert arrived[:21] == [b"first", *lost]
        assert set(sent) - set(arrived) <= forgiven
