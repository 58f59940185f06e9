"""Identities over time: the incarnations of this store, and the managers that it has met.

Durable, and made by facts like all of the state, but for the addresses under which the manager is
reached and the number of its connections, which begin anew with each start.
`docs/explanation/identity.md` tells which conversations carry these facts, and what happens when
they do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import msgspec

from dray.delivery.keys import ManagerKey
from dray.delivery.lineage import INCARNATIONS_KEPT, Past
from dray.delivery.receipts import Receipt, Told, judge_receipt, read_receipt, write_receipt
from dray.manager.events import Peer
from dray.manager.facts import (
    Committed,
    Fact,
    IncarnationBegan,
    ManagerNamed,
    PeerForgotten,
    PeerMet,
    QueueCreated,
    Restored,
    SourceBound,
    TokenSet,
)
from dray.model.ids import Incarnation
from dray.model.places import Amounts


class KnownPeer(msgspec.Struct, array_like=True, frozen=True):
    """The manager that was met at an address, and our last incarnation that sent it anything."""

    manager_id: str
    since_us: int
    sent_in: int = 0
    caller: str = ""
    """The name in its certificate, `cert:NAME`; empty without TLS."""


class BoundCaller(msgspec.Struct, array_like=True, frozen=True):
    """The caller by which a manager comes, and since when."""

    name: str
    since_us: int


class KnownToken(msgspec.Struct, array_like=True, frozen=True):
    """A token that callers may show; its times in microseconds, 0 if it never expires."""

    digest: bytes
    created_us: int
    expires_us: int


class IdentitySnapshot(msgspec.Struct, array_like=True, frozen=True):
    """All of it in a checkpoint."""

    incarnations: list[Incarnation]
    age: int
    born: int
    peers: list[tuple[Peer, KnownPeer]]
    key: bytes
    tokens: dict[str, KnownToken] = {}
    callers: dict[str, BoundCaller] = {}
    restored_us: int = 0


class StoreIdentity:
    """The incarnations of the store, births of queues, managers it has met, and its tokens."""

    def __init__(self) -> None:
        """Begin before the first incarnation."""
        self.incarnations: list[Incarnation] = []
        self.age = 0
        """The number of facts held. A restore does not count: it adds nothing of its own."""
        self.born = 0
        """The birth number of the youngest queue."""
        self.restored_us = 0
        """When the store last learned that it is an older copy of itself."""
        self.peers: dict[Peer, KnownPeer] = {}
        self.key = ManagerKey(b"")
        """The private key of the manager; empty before its first fact."""
        self.tokens: dict[str, KnownToken] = {}
        """Tokens that callers may show, by name."""
        self.callers: dict[str, BoundCaller] = {}
        """By the ids of managers that have opened streams here, the caller of each."""
        self.bound_to: Amounts[str] = Amounts()
        """The number of managers bound to each caller."""
        self.token_expires_us = 0
        """When the next token expires; 0 if none does."""
        self.own_addresses: frozenset[Peer] = frozenset()
        """Under which the manager is reached: a queue that is named by one is a queue here."""
        self._connections = count()

    @property
    def incarnation(self) -> int:
        """The number of the present incarnation; 0 before the first."""
        return self.incarnations[-1].number if self.incarnations else 0

    def reached_at(self, addresses: Iterable[Peer]) -> None:
        """Learn under which addresses the manager is reached from now on."""
        self.own_addresses = frozenset(addresses)

    def connection_number(self) -> bytes:
        """A number for a connection with another manager, which no other connection has."""
        return self.key.once(self.incarnation, next(self._connections))

    def of_same_caller(self, source: str) -> list[str]:
        """Ids of all managers that are bound to the caller of one; its own if none is."""
        bound = self.callers.get(source)
        if bound is None:
            return [source]
        return [each for each, other in self.callers.items() if other.name == bound.name]

    def past(self, peer: Peer) -> Past:
        """The past by which the positions that a peer states are judged."""
        known = self.peers.get(peer)
        return Past(tuple(self.incarnations), known.sent_in if known else 0)

    def receipt(self) -> bytes:
        """The proof that this store has come as far as it has."""
        return write_receipt(self.key, Receipt(self.incarnation, self.age, self.restored_us))

    def judge(self, written: bytes) -> tuple[Told, int]:
        """Tell the writer of a receipt, and when its store was restored last."""
        receipt = read_receipt(self.key, written)
        told = judge_receipt(receipt, self.incarnations, self.age)
        return told, receipt.restored_us if receipt is not None else 0

    def next_birth(self, now_us: int) -> int:
        """The birth number of a queue that is made now: above all earlier ones, and in time."""
        return max(self.born + 1, now_us)

    def await_expiry(self, now_us: int) -> None:
        """Note when the next token expires after a time."""
        ends = [each.expires_us for each in self.tokens.values() if each.expires_us > now_us]
        self.token_expires_us = min(ends, default=0)

    def apply(self, fact: Fact) -> None:
        """Make the part of a fact true that is about identity."""
        match fact:
            case Committed():
                # Most facts, and nothing about identity.
                pass
            case ManagerNamed():
                self.key = ManagerKey(fact.key)
            case IncarnationBegan(number, age):
                self.incarnations = [*self.incarnations, Incarnation(number, age)][
                    -INCARNATIONS_KEPT:
                ]
            case PeerMet():
                peer = Peer(fact.host, fact.port, fact.secure)
                self.peers[peer] = KnownPeer(
                    fact.manager_id, fact.when_us, fact.sent_in, fact.caller
                )
            case PeerForgotten(host, port, secure):
                self.peers.pop(Peer(host, port, secure), None)
            case SourceBound():
                self._bind(fact)
            case QueueCreated():
                self.born = max(self.born, fact.born)
            case Restored(_, when_us):
                # Queues have messages again that had left, behind positions that readers know.
                self.born = self.next_birth(when_us)
                self.restored_us = max(self.restored_us, when_us)
            case TokenSet(name, digest, times_us) if digest:
                self.tokens[name] = KnownToken(digest, *times_us)
                self.await_expiry(times_us[0])
            case TokenSet(name):
                self.tokens.pop(name, None)
            case _:
                pass
        if not isinstance(fact, Restored):
            self.age += 1

    def _bind(self, fact: SourceBound) -> None:
        before = self.callers.pop(fact.source, None)
        if before is not None:
            self.bound_to.add(before.name, -1)
        if fact.caller:
            self.callers[fact.source] = BoundCaller(fact.caller, fact.when_us)
            self.bound_to.add(fact.caller, 1)

    def snapshot(self) -> IdentitySnapshot:
        """Write it down."""
        peers = list(self.peers.items())
        key = self.key.private
        return IdentitySnapshot(
            list(self.incarnations),
            self.age,
            self.born,
            peers=peers,
            key=key,
            tokens=dict(self.tokens),
            callers=dict(self.callers),
            restored_us=self.restored_us,
        )

    def restore(self, snapshot: IdentitySnapshot) -> None:
        """Read what `snapshot` wrote."""
        self.incarnations, self.age, self.born = (
            list(snapshot.incarnations),
            snapshot.age,
            snapshot.born,
        )
        self.peers = dict(snapshot.peers)
        self.key = ManagerKey(snapshot.key)
        self.tokens = dict(snapshot.tokens)
        self.callers = dict(snapshot.callers)
        self.restored_us = snapshot.restored_us
        self.bound_to = Amounts(each.name for each in self.callers.values())
        self.await_expiry(0)
