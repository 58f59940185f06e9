"""The record of one run of a manager: each change of its disk, its contents after each turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.testing.disk import Operation, SimDisk
from dray.testing.harness import Sizes
from dray.testing.storage_model import Frozen, Known

BEGUN, ENDED = "begun", "ended"


@dataclass
class Recording:
    """Each change of the disk, and the contents after each turn."""

    known: Known
    sizes: Sizes
    base: SimDisk | None = None
    first: Frozen | None = None
    operations: list[Operation] = field(default_factory=list)
    turns: dict[int, Frozen] = field(default_factory=dict)
    peers: list[tuple[int, tuple[int, int, int]]] = field(default_factory=list)
    """The messages that the peer has accepted, each with the operation from which on."""
    told: list[int] = field(default_factory=list)
    """Behind how many operations the peer has made each of its confirmations in this run."""

    def told_at(self, done: int) -> int:
        """The number of confirmations that the peer had made behind so many operations."""
        before = len(self.known.told) - len(self.told)
        return before + sum(1 for at in self.told if at <= done)

    def note_peer(self) -> None:
        """From here on the peer knows what it knows now."""
        self.peers.append((len(self.operations), self.known.peer))

    def peer_at(self, done: int) -> tuple[int, int, int]:
        """The messages that the peer had accepted behind so many operations."""
        return [peer for at, peer in self.peers if at <= done][-1]
