"""Worlds in which stores are put back, cloned and damaged, in the middle of traffic.

A stream world in which nobody says `restore`: a node's disk is replaced by an earlier copy of it
(put back), loses the end of what it had synced (a flipped bit in what is newest), or comes up as
the copy of another moment while its peers were served by the first (a clone that takes over, and
the first one that comes back). Streams that diverge wait for a person, who accepts them a little
later: then some messages may come twice, and still none may be lost.

`python -m dray.testing.copied_world SEED` runs one world again.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from dray.delivery.events import Grown
from dray.testing.network import Link
from dray.testing.stream_node import STREAMS, BrokenPromiseError, Canary, Node, inbox_of
from dray.testing.stream_world import NODES, TROUBLED_S, StreamWorld
from dray.wire.frames import Head

COPIES, TROUBLES = 12, 6
PERSON_S = 1.0
"""How long it takes until a person resolves a stream that has diverged."""


class _Copy(NamedTuple):
    """A node's disk at one moment, and how much its clients had been told by then."""

    checkpoint: bytes | None
    synced: tuple[tuple[object, ...], ...]
    snapshot: bytes
    told: dict[tuple[str, str], int]


class CopiedWorld(StreamWorld):
    """A stream world with copies of stores of which nobody tells."""

    def __init__(self, seed: int, canary: Canary | None = None) -> None:
        """Draw its troubles."""
        super().__init__(seed, canary)
        self.troubles = self.troubles._replace(stall=self.rng.choice([0, 0.05]))
        self.put_back_count = self.cut_count = self.clone_count = self.diverged_count = 0
        self._copies: dict[str, list[_Copy]] = {name: [] for name in NODES}
        self._forgiven: set[bytes] = set()
        self._twice: set[tuple[str, str]] = set()
        self._branch: dict[str, int] = dict.fromkeys(NODES, 0)
        self._sent_in: dict[bytes, int] = {}
        """In which branch of its source's past each message was sent; each copy begins one."""

    def run(self) -> str:
        """Live through the troubles, with copies among them."""
        acts = ((self.copy, COPIES), (self.put_back, TROUBLES), (self.cut_off, TROUBLES))
        for act, count in (*acts, (self.clone, TROUBLES)):
            for _ in range(count):
                node = self.nodes[self.rng.choice(NODES)]
                at = self.rng.uniform(0, TROUBLED_S)
                self.schedule.after(at, lambda act=act, node=node: act(node))  # type: ignore[misc]
        return super().run()

    def submit(self, source: str, peer: str, count: int) -> None:
        """Note the branch of what is sent: there is an order within a branch, and none between."""
        before = len(self.submitted[source, peer])
        super().submit(source, peer, count)
        for body in self.submitted[source, peer][before:]:
            self._sent_in[body] = self._branch[source]

    def copy(self, node: Node) -> None:
        """Copy a node's disk between two turns, while the node runs."""
        if node.up:
            self._copies[node.name].append(self._copy_of(node))

    def put_back(self, node: Node) -> None:
        """Put an earlier copy of the disk in its place; nobody tells the node."""
        copies = self._copies[node.name]
        if not node.up or not copies or not self.troubled:
            return
        copy = self.rng.choice(copies)
        self.put_back_count += 1
        self.schedule.happened("put back", node.name)
        self._replace(node, copy)

    def cut_off(self, node: Node) -> None:
        """Lose the last fact that was synced, as by a flipped bit in what is newest."""
        if not node.up or not node.synced or not self.troubled:
            return
        self.cut_count += 1
        self.schedule.happened("cut off", node.name)
        before = self._copy_of(node)
        node.synced.pop()
        after = self._copy_of(node)._replace(told=self._told_without_last(node, before))
        self._replace(node, after)

    def clone(self, node: Node) -> None:
        """Let a copy take the node's place for a while, then let the first one come back."""
        if not node.up or not self.troubled:
            return
        self.clone_count += 1
        self.schedule.happened("clone", node.name)
        first = self._copy_of(node)
        told = {pair: len(bodies) for pair, bodies in self.told.items()}
        node.kill()
        node.checkpoint, node.synced = first.checkpoint, list(first.synced)

        def comes_back() -> None:
            if node.up and self.troubled:
                self._replace(node, first._replace(told=told))

        self.schedule.after(self.rng.uniform(1.2, 4.0), comes_back)

    def diverged(self, node: Node, peer: str) -> None:
        """A stream stops; a person resolves it a little later."""
        self.diverged_count += 1
        self.schedule.after(PERSON_S, lambda: self._resolve(node, peer))

    def check(self) -> None:
        """A copy may lose what it did not hold; where a person decided, messages may come twice."""
        self.expired |= self._forgiven
        for source, peer in STREAMS:
            inbox = self.nodes[peer].life.inbox
            got = inbox.get(source, [])
            if (source, peer) in self._twice:
                got = list(dict.fromkeys(sorted(got)))
            for branch in {self._sent_in[body] for body in got}:
                of_branch = [body for body in got if self._sent_in[body] == branch]
                if of_branch != sorted(of_branch):
                    raise BrokenPromiseError(f"seed {self.seed}, {source} to {peer}: out of order")
            inbox[source] = sorted(got)
        super().check()

    def heal(self) -> None:
        """End the troubles; a person looks once more at what has diverged."""
        super().heal()
        for node in self.nodes.values():
            for peer in node.peers:
                self.schedule.after(PERSON_S, lambda n=node, p=peer: self._resolve(n, p))  # type: ignore[misc]

    def _resolve(self, node: Node, peer: str) -> None:
        def decide() -> list[tuple[Link, Head, bytes]]:
            if node.life.streams[peer].divergence is None:
                return []
            self._twice.add((node.name, peer))
            node.append("resolved", peer)
            return node.outgoing(peer, Grown())

        if node.up:
            node.turn(decide)
        else:
            self.schedule.after(PERSON_S, lambda: self._resolve(node, peer))

    def _copy_of(self, node: Node) -> _Copy:
        told = {pair: len(bodies) for pair, bodies in self.told.items()}
        return _Copy(node.checkpoint, tuple(node.synced), node.life.snapshot(), told)

    def _told_without_last(self, node: Node, before: _Copy) -> dict[tuple[str, str], int]:
        """How much clients had been told before the fact that is lost: at most that many fewer."""
        lost = before.synced[-1]
        told = dict(before.told)
        if lost[0] == "admitted":
            pair = (node.name, str(lost[1]))
            bodies = lost[4]
            assert isinstance(bodies, list)
            told[pair] = max(0, told[pair] - len(bodies))
        elif lost[0] == "accepted":
            received = lost[5]
            assert isinstance(received, list)
            self._forgiven.update(received)
        return told

    def _replace(self, node: Node, copy: _Copy) -> None:
        self._branch[node.name] += 1
        node.kill()
        node.checkpoint, node.synced = copy.checkpoint, list(copy.synced)
        self._forgive(node, copy)

    def _forgive(self, node: Node, copy: _Copy) -> None:
        """Clients of a lost past may miss what was sent or received in it."""
        inbox = inbox_of(copy.snapshot)
        for source, peer in STREAMS:
            if source == node.name:
                self._forgiven.update(self.told[source, peer][copy.told[source, peer] :])
            if peer == node.name:
                kept = set(inbox.get(source, []))
                had = node.life.inbox.get(source, [])
                self._forgiven.update(each for each in had if each not in kept)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{CopiedWorld(int(sys.argv[1])).run()}\n")
    except BrokenPromiseError as error:
        sys.stdout.write(f"{error}\n")
        raise
