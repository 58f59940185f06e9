"""Worlds in which nodes are restored from backups, in the middle of traffic and of other troubles.

A stream world whose nodes are backed up now and then, between two turns, and now and then die for
good and come back from a backup: as a source, as a destination, more than once, also twice from
the same one. What a restore may lose is what the backup did not hold; all else must arrive, once
and in order.

`python -m tests.worlds.restored_world SEED` runs one world again.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from tests.worlds.stream_node import STREAMS, Canary, Node, inbox_of
from tests.worlds.stream_world import NODES, TROUBLED_S, StreamWorld

BACKUPS, RESTORES = 12, 6
AGAIN = 0.5
"""Share of restores that are soon followed by another."""


class _Backup(NamedTuple):
    """A node as it stood, and how much its clients had been told by then."""

    snapshot: bytes
    told: dict[tuple[str, str], int]


class RestoredWorld(StreamWorld):
    """A stream world with backups."""

    def __init__(self, seed: int, canary: Canary | None = None) -> None:
        """Draw its troubles."""
        super().__init__(seed, canary)
        # A frame may be under way for longer than it takes to restore its sender.
        self.troubles = self.troubles._replace(stall=self.rng.choice([0, 0.05]))
        self.restores = 0
        self._backups: dict[str, list[_Backup]] = {name: [] for name in NODES}
        self._forgiven: set[bytes] = set()

    def run(self) -> str:
        """Live through the troubles, with backups and restores among them."""
        for act, count in ((self.back_up, BACKUPS), (self.restore, RESTORES)):
            for _ in range(count):
                node = self.nodes[self.rng.choice(NODES)]
                at = self.rng.uniform(0, TROUBLED_S)
                self.schedule.after(at, lambda act=act, node=node: act(node))  # type: ignore[misc]
        return super().run()

    def back_up(self, node: Node) -> None:
        """Take a backup between two turns."""
        if node.up:
            told = {pair: len(bodies) for pair, bodies in self.told.items()}
            self._backups[node.name].append(_Backup(node.run.snapshot(), told))

    def restore(self, node: Node) -> None:
        """Lose a node with its disk, and put one of its backups in its place.

        What was backed up later belongs to an incarnation that never was.
        """
        backups = self._backups[node.name]
        if not node.up or not backups or not self.troubled:
            return
        backup = self.rng.choice(backups)
        del backups[backups.index(backup) + 1 :]
        self.restores += 1
        self.schedule.happened("restore", node.name)
        self._forgive(node, backup)
        node.kill()
        node.checkpoint = backup.snapshot
        node.synced = [("restored", int(self.schedule.now * 1e6))]
        if self.rng.random() < AGAIN:
            self.schedule.after(self.rng.uniform(0.02, 2.0), lambda: self.restore(node))

    def check(self) -> None:
        """What a restore was allowed to lose counts like what expired."""
        self.expired |= self._forgiven
        super().check()

    def _forgive(self, node: Node, backup: _Backup) -> None:
        inbox = inbox_of(backup.snapshot)
        for source, peer in STREAMS:
            if source == node.name:
                self._forgiven.update(self.told[source, peer][backup.told[source, peer] :])
            if peer == node.name:
                had = node.run.inbox.get(source, [])
                self._forgiven.update(had[len(inbox.get(source, [])) :])


if __name__ == "__main__":
    sys.stdout.write(f"{RestoredWorld(int(sys.argv[1])).run()}\n")
