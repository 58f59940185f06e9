"""Worlds of bare delivery cores: hundreds a second, each decided by its seed.

Three nodes send to each other over `network`. A node is the smallest thing that can carry the
cores: queues in dictionaries, facts on a disk that forgets what was not synced, and the turn of
every manager: decide, append, sync once, and only then speak. Worlds lose, repeat and reorder
frames, break links, kill nodes before and after their sync, let messages expire, pause and refuse
streams. In the end the faults stop, and what was promised must have arrived: once, in order.

`python -m tests.worlds.stream_world SEED` runs one world again.
"""

from __future__ import annotations

import random
import sys

from dray.delivery.events import (
    Grown,
    Paused,
    Unpaused,
)
from dray.delivery.outgoing import OutgoingStream
from dray.machine import Tick
from dray.testing.promises import BrokenPromiseError
from dray.wire.head import Head
from tests.worlds.network import Faults, Link, Schedule
from tests.worlds.stream_node import STREAMS, Canary, Node, NodeChances

START = 1_700_000_000.0
NODES = ("a", "b", "c")
TROUBLED_S = 20.0
LIMIT_S = 600.0


class StreamWorld:
    """Three nodes, one network, everything from one seed."""

    def __init__(self, seed: int, canary: Canary | None = None) -> None:
        """Draw the troubles of this world."""
        self.seed = seed
        self.canary = canary or Canary()
        self.rng = rng = random.Random(seed)
        self.schedule = Schedule(START)
        self.troubled = True
        self.chances = NodeChances(
            kill=rng.choice([0, 0.02, 0.06]),
            expire=rng.choice([0, 0.1]),
            refuse=rng.choice([0, 0.2]),
            pause=rng.choice([0, 0.1]),
        )
        self.troubles = Faults(
            loss=rng.choice([0, 0.05, 0.2]),
            repetition=rng.choice([0, 0.1]),
            reordering=rng.choice([0, 0.1]),
            disconnection=rng.choice([0, 0.01, 0.05]),
            delay_s=rng.choice([0.002, 0.05]),
        )
        self.submitted: dict[tuple[str, str], list[bytes]] = {pair: [] for pair in STREAMS}
        self.told: dict[tuple[str, str], list[bytes]] = {pair: [] for pair in STREAMS}
        self.expired: set[bytes] = set()
        self.reminders: dict[tuple[Node, str], float] = {}
        self.nodes: dict[str, Node] = {}
        for name in NODES:
            self.nodes[name] = Node(name, self)

    @property
    def faults(self) -> Faults:
        """The faults of a new link: none once the troubles are over."""
        return self.troubles if self.troubled else Faults()

    def unlucky(self, chance: float) -> bool:
        """Whether a trouble strikes now."""
        return self.troubled and self.rng.random() < chance

    def remind(self, node: Node, peer: str, stream: OutgoingStream) -> None:
        """See to it that a stream gets a Tick at its deadline."""
        at = stream.deadline()
        if at is None or self.reminders.get((node, peer)) == at:
            return
        self.reminders[node, peer] = at
        self.schedule.after(max(0.0, at - self.schedule.now), lambda: self.tick(node, peer, at))

    def tick(self, node: Node, peer: str, at: float) -> None:
        """Send the Tick, if the node still lives and waits for it."""
        if self.reminders.get((node, peer)) == at:
            del self.reminders[node, peer]
            if node.up:
                node.turn(lambda: node.outgoing(peer, Tick()))

    def submit(self, source: str, peer: str, count: int) -> None:
        """A client commits messages to one outgoing queue; it is told only if the node survives."""
        node = self.nodes[source]
        if node.up:
            self.told[source, peer] += self.commit(node, peer, count)

    def commit(self, node: Node, peer: str, count: int) -> list[bytes]:
        """Commit messages at a node; gives those of which the client is told."""
        journal = self.submitted[node.name, peer]
        bodies = [f"{node.name}{peer}{len(journal) + n:06}".encode() for n in range(count)]
        journal += bodies
        incarnation = node.run

        def decide() -> list[tuple[Link, Head, bytes]]:
            first = incarnation.queues[peer].last + 1
            node.append("admitted", peer, first, int(self.schedule.now * 1e6), bodies)
            return node.outgoing(peer, Grown())

        node.turn(decide)
        return bodies if node.up else []

    def trouble(self, source: str, peer: str) -> None:
        """Perhaps expire a message, pause or resume a stream."""
        node = self.nodes[source]
        if not node.up:
            return
        waiting = [*node.run.queues[peer].bodies]
        if waiting and self.unlucky(self.chances.expire):
            lookup_id = self.rng.choice(waiting)
            self.expired.add(node.run.queues[peer].bodies[lookup_id])
            node.turn(lambda: node.expire(peer, lookup_id))
        if self.unlucky(self.chances.pause):
            node.turn(lambda: node.outgoing(peer, Paused()))
        else:
            node.turn(lambda: node.outgoing(peer, Unpaused()))

    def run(self) -> str:
        """Live through the troubles, then finish in peace. Gives the digest."""
        for _ in range(40):
            source, peer = self.rng.choice(STREAMS)
            count = self.rng.randint(1, 9)
            self.schedule.after(
                self.rng.uniform(0, TROUBLED_S),
                lambda source=source, peer=peer, count=count: self.submit(source, peer, count),  # type: ignore[misc]
            )
        for _ in range(40):
            source, peer = self.rng.choice(STREAMS)
            self.schedule.after(
                self.rng.uniform(0, TROUBLED_S),
                lambda source=source, peer=peer: self.trouble(source, peer),  # type: ignore[misc]
            )
        self.schedule.after(TROUBLED_S, self.heal)
        while self.schedule.now < START + LIMIT_S and self.schedule.step():
            pass
        self.check()
        return self.schedule.digest()

    def diverged(self, node: Node, peer: str) -> None:
        """A node's stream met a peer that took messages from a copy: here nothing is copied."""
        raise BrokenPromiseError(f"{node.name} to {peer} diverged without a copied store")

    def heal(self) -> None:
        """End the troubles: fresh links without faults, nothing paused."""
        self.troubled = False
        for node in self.nodes.values():
            for link in [*node.links]:
                link.cut()
            if node.up:
                for peer in node.peers:
                    node.turn(lambda node=node, peer=peer: node.outgoing(peer, Unpaused()))  # type: ignore[misc]

    def check(self) -> None:
        """Hold every stream against what its clients were told."""
        for source, peer in STREAMS:
            got = self.nodes[peer].run.inbox.get(source, [])
            where = f"seed {self.seed}, {source} to {peer}"
            if len(set(got)) != len(got):
                raise BrokenPromiseError(f"{where}: delivered twice")
            order = {body: at for at, body in enumerate(self.submitted[source, peer])}
            got = [body for body in got if body[:2].decode() == source + peer]
            if sorted(got, key=order.__getitem__) != got:
                raise BrokenPromiseError(f"{where}: out of order")
            delivered = set(got) | self.expired
            lost = [body for body in self.told[source, peer] if body not in delivered]
            if lost:
                raise BrokenPromiseError(f"{where}: promised and never delivered: {lost[:3]}")
            if self.nodes[source].run.queues[peer].bodies:
                raise BrokenPromiseError(f"{where}: messages are left in the outgoing queue")


if __name__ == "__main__":
    sys.stdout.write(f"{StreamWorld(int(sys.argv[1])).run()}\n")
