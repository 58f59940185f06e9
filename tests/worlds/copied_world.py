"""Worlds in which stores are put back, cloned and damaged, in the middle of traffic.

A stream world in which nobody says `restore`: a node's disk is replaced by an earlier copy of it
(put back), loses the end of what it had synced (a flipped bit in what is newest), or comes up as
the copy of another moment while its peers were served by the first (a clone that takes over, and
the first one that comes back). A copy of a running node runs beside it, both deliver what their
clients send, and one of them goes for good (a twin). A node starts over an empty disk at its known
address, as if its disk were not mounted, until the true one is back. Streams that diverge wait for
a person, who accepts them a little later: then some messages may come twice, and still none may be
lost.

`python -m tests.worlds.copied_world SEED` runs one world again.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

from dray.delivery.events import Grown
from dray.testing.promises import BrokenPromiseError
from dray.wire.head import Head
from tests.worlds.network import Link
from tests.worlds.stream_node import EMPTY, STREAMS, Canary, Node, NodeDisk, inbox_of
from tests.worlds.stream_world import NODES, TROUBLED_S, StreamWorld

COPIES, TROUBLES = 12, 6
EMPTY_DISKS, TWINS = 4, 4
TWIN_STAYS = 0.5
"""Share of two copies at once of which the later one stays."""
PERSON_S = 1.0
"""How long it takes until a person resolves a stream that has diverged."""


class _Copy(NamedTuple):
    """A node's disk at one moment, and how much its clients had been told by then."""

    disk: NodeDisk
    snapshot: bytes
    told: dict[tuple[str, str], int]


class CopiedWorld(StreamWorld):
    """A stream world with copies of stores of which nobody tells."""

    def __init__(self, seed: int, canary: Canary | None = None) -> None:
        """Draw its troubles."""
        super().__init__(seed, canary)
        self.troubles = self.troubles._replace(stall=self.rng.choice([0, 0.05]))
        self.met = Counter[str]()
        """How often each trouble came."""
        self._twins: dict[str, Node] = {}
        self._told_by_twins: dict[tuple[str, str], list[bytes]] = {pair: [] for pair in STREAMS}
        self._copies: dict[str, list[_Copy]] = {name: [] for name in NODES}
        self._forgiven: set[bytes] = set()
        self._twice: set[tuple[str, str]] = set()
        self._branches = 0
        self._branch: dict[Node, int] = dict.fromkeys(self.nodes.values(), 0)
        self._sent_in: dict[bytes, int] = {}
        """In which branch of its source's past each message was sent; each copy begins one."""
        for node in self.nodes.values():
            # Whoever meets a node for the first time takes any manager for it.
            node.run.known = {peer: peer for peer in node.peers}
            node.disk = NodeDisk(node.run.snapshot(), ())

    def run(self) -> str:
        """Live through the troubles, with copies among them."""
        acts = (
            (self.copy, COPIES),
            (self.put_back, TROUBLES),
            (self.cut_off, TROUBLES),
            (self.clone, TROUBLES),
            (self.empty, EMPTY_DISKS),
            (self.run_twice, TWINS),
        )
        for act, count in acts:
            for _ in range(count):
                node = self.nodes[self.rng.choice(NODES)]
                at = self.rng.uniform(0, TROUBLED_S)
                self.schedule.after(at, lambda act=act, node=node: act(node))  # type: ignore[misc]
        return super().run()

    def submit(self, source: str, peer: str, count: int) -> None:
        """Send to a node and to its twin; clients do not find their queues over an empty disk."""
        if self.nodes[source].is_itself:
            super().submit(source, peer, count)
        twin = self._twins.get(source)
        if twin is not None and twin.up:
            self._told_by_twins[source, peer] += self.commit(twin, peer, count)

    def commit(self, node: Node, peer: str, count: int) -> list[bytes]:
        """Note the branch of what is sent: there is an order within a branch, and none between."""
        journal = self.submitted[node.name, peer]
        before = len(journal)
        told = super().commit(node, peer, count)
        for body in journal[before:]:
            self._sent_in[body] = self._branch[node]
        return told

    def copy(self, node: Node) -> None:
        """Copy a node's disk between two turns, while the node runs."""
        if _is_up(node):
            self._copies[node.name].append(self._copy_of(node))

    def put_back(self, node: Node) -> None:
        """Put an earlier copy of the disk in its place; nobody tells the node."""
        copies = self._copies[node.name]
        if not _is_up(node) or not copies or not self.troubled:
            return
        copy = self.rng.choice(copies)
        self.met["put back"] += 1
        self.schedule.happened("put back", node.name)
        self._replace(node, copy)

    def cut_off(self, node: Node) -> None:
        """Lose the last fact that was synced, as by a flipped bit in what is newest."""
        if not _is_up(node) or not node.synced or not self.troubled:
            return
        self.met["cut off"] += 1
        self.schedule.happened("cut off", node.name)
        copy = self._copy_of(node)
        self._forgive_fact(node.synced[-1])
        self._replace(node, copy._replace(disk=NodeDisk(node.checkpoint, tuple(node.synced[:-1]))))

    def clone(self, node: Node) -> None:
        """Let a copy take the node's place for a while, then let the first one come back."""
        if not _is_up(node) or not self.troubled:
            return
        self.met["clone"] += 1
        self.schedule.happened("clone", node.name)
        first = self._copy_of(node)
        told = {pair: len(bodies) for pair, bodies in self.told.items()}
        node.kill()
        node.disk = first.disk

        def comes_back() -> None:
            if _is_up(node) and self.troubled:
                self._replace(node, first._replace(told=told))

        self.schedule.after(self.rng.uniform(1.2, 4.0), comes_back)

    def empty(self, node: Node) -> None:
        """Start a node over an empty disk, as another manager, until its own disk is back."""
        if not _is_up(node) or not self.troubled:
            return
        self.met["empty"] += 1
        self.schedule.happened("empty", node.name)
        node.kill()
        true_disk, node.disk = node.disk, EMPTY
        node.manager_id = f"not {node.name}"

        def comes_back() -> None:
            if node.up:
                node.kill()
            node.disk = true_disk
            node.manager_id = node.name

        self.schedule.after(self.rng.uniform(1.2, 4.0), comes_back)

    def run_twice(self, node: Node) -> None:
        """Run a copy of a running node beside it, until one of the two goes for good."""
        if not _is_up(node) or not self.troubled or node.name in self._twins:
            return
        self.met["two at once"] += 1
        self.schedule.happened("two at once", node.name)
        twin = self._twins[node.name] = Node(node.name, self, self._copy_of(node).disk)
        self._branch[twin] = self._next_branch()
        self.schedule.after(self.rng.uniform(0.5, 4.0), lambda: self._run_once(node))

    def diverged(self, node: Node, peer: str) -> None:
        """A stream stops; a person resolves it a little later."""
        self.met["diverged"] += 1
        self.schedule.after(PERSON_S, lambda: self._resolve(node, peer))

    def check(self) -> None:
        """A copy may lose what it did not hold; where a person decided, messages may come twice."""
        self.expired |= self._forgiven
        for source, peer in STREAMS:
            inbox = self.nodes[peer].run.inbox
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
            self._look_at(node)

    def _look_at(self, node: Node) -> None:
        """Let a person resolve what has diverged at a node."""
        for peer in node.peers:
            self.schedule.after(PERSON_S, partial(self._resolve, node, peer))

    def _resolve(self, node: Node, peer: str) -> None:
        def decide() -> list[tuple[Link, Head, bytes]]:
            if node.run.streams[peer].divergence is None:
                return []
            self._twice.add((node.name, peer))
            node.append("resolved", peer)
            return node.outgoing(peer, Grown())

        if _is_up(node):
            node.turn(decide)
        elif not node.gone:
            self.schedule.after(PERSON_S, lambda: self._resolve(node, peer))

    def _run_once(self, node: Node) -> None:
        """End a node or its twin for good; what only that one held is lost with it.

        A message is in the queue of its copy until it is delivered, so what is no longer there must
        have arrived. The twin has received nothing, for it is not the one that others call.
        """
        twin = self._twins.pop(node.name)
        twin.gone = True
        twin_stays = _is_up(node) and self.rng.random() < TWIN_STAYS
        stays, goes = (twin, node) if twin_stays else (node, twin)
        self._forgiven |= _waiting(goes) - _waiting(stays)
        for (source, peer), told in self._told_by_twins.items():
            if source == node.name:
                self.told[source, peer] += told
                told.clear()
        for each in (goes, twin):
            if each.up:
                each.kill()
        if stays is twin:
            self._forgive_received(node, twin.run.inbox)
            self._branch[node] = self._branch[twin]
            node.disk = twin.disk
            self._look_at(node)

    def _next_branch(self) -> int:
        self._branches += 1
        return self._branches

    def _copy_of(self, node: Node) -> _Copy:
        told = {pair: len(bodies) for pair, bodies in self.told.items()}
        return _Copy(node.disk, node.run.snapshot(), told)

    def _forgive_fact(self, lost: tuple[Any, ...]) -> None:
        """Clients may miss the messages of a fact that is lost."""
        if lost[0] in ("admitted", "accepted"):
            self._forgiven.update(lost[-1])

    def _replace(self, node: Node, copy: _Copy) -> None:
        self._branch[node] = self._next_branch()
        node.kill()
        node.disk = copy.disk
        self._forgive(node, copy)

    def _forgive(self, node: Node, copy: _Copy) -> None:
        """Clients of a lost past may miss what was sent or received in it."""
        for source, peer in STREAMS:
            if source == node.name:
                self._forgiven.update(self.told[source, peer][copy.told[source, peer] :])
        self._forgive_received(node, inbox_of(copy.snapshot))

    def _forgive_received(self, node: Node, inbox: dict[str, list[bytes]]) -> None:
        for source, had in node.run.inbox.items():
            kept = set(inbox.get(source, []))
            self._forgiven.update(each for each in had if each not in kept)


def _is_up(node: Node) -> bool:
    """Whether a node runs over its own disk."""
    return node.up and node.is_itself


def _waiting(node: Node) -> set[bytes]:
    """What the outgoing queues of a node hold."""
    return {body for queue in node.run.queues.values() for body in queue.bodies.values()}


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{CopiedWorld(int(sys.argv[1])).run()}\n")
    except BrokenPromiseError as error:
        sys.stdout.write(f"{error}\n")
        raise
