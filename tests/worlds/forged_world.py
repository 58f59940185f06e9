"""Seeded worlds with a forger: the worlds of `world.py`, and one that speaks under any id.

The forger knows all that is public, and more: ids, public keys, incarnations, numbers of streams
and their sequences. It has connections of its own, also by the callers that managers are. It holds
a key that nobody knows, and from stolen backups the keys of all managers: with one of those it
comes by a caller of its own. As a caller it says that it is one of the managers, and then that
messages do not come, that streams have ended, and that confirmations were taken. At the address of
a manager that is down it says that it is that manager, and acknowledges all that it is sent.

    python -m tests.worlds.forged_world SEED
"""

from __future__ import annotations

import sys
from random import Random

from dray.delivery.keys import KEY_BYTES, ONCE_BYTES, ManagerKey
from dray.manager.events import Peer
from dray.manager.notices import Notice, NoticeKind
from dray.manager.peers import with_proof
from dray.model.callers import Caller
from dray.model.ids import Incarnation
from dray.wire import frames, peer_frames
from dray.wire.head import Head
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.worlds.network import NO_FAULTS, Link
from tests.worlds.simulated_daemon import SimDaemon
from tests.worlds.world import MANAGERS, World

ATTACK_S = 0.3
"""How long the forger waits between two calls, on average."""
AHEAD_MAX = 50
"""How many messages that are still to come it says do not come."""
OWN_NAME = 0.2
"""Share of calls in which it shows a key of its own, and speaks of the streams of others."""
STOLEN = 0.2
"""Share of calls in which it has the key of the manager that it names."""


THIEF = Caller("cert:thief", owner=True)
OF_FORGER = (NoticeKind.KEY_NOT_SHOWN, NoticeKind.OTHER_CALLER)


class Forger:
    """One process that speaks under the ids of others."""

    def __init__(self, world: ForgedWorld) -> None:
        """Draw from a source of its own, so that the rest of the world stays as it is."""
        self.world = world
        self.rng = Random(world.seed ^ 0xF0E6ED)
        self.own = ManagerKey(self.rng.randbytes(KEY_BYTES))
        self._calls: dict[Link, tuple[SimDaemon, bytes, ManagerKey]] = {}
        """Connections that it made: the manager that it named, their numbers, and its keys."""
        self._taken: dict[Link, SimDaemon] = {}
        """Connections that it answered in the place of a manager."""
        self._later()

    def answer(self, caller: SimDaemon, missing: SimDaemon, peer: Peer) -> Link:
        """Take the connection that a manager makes to another one that is down."""
        link = self.world.connect(caller, self, NO_FAULTS)
        self._taken[link] = missing
        self.world.struck_by_forger("answered for " + peer.host)
        return link

    def arrived(self, link: Link, frame: Frame) -> None:
        """Go on with the lie."""
        if link in self._calls:
            if isinstance(frame.head, frames.Welcome):
                self._speak(link, frame.head)
        elif link in self._taken:
            self._take(link, frame.head)

    def broken(self, link: Link) -> None:
        """Nobody listens any more."""
        self._calls.pop(link, None)
        self._taken.pop(link, None)

    def _later(self) -> None:
        self.world.schedule.after(self.rng.expovariate(1 / ATTACK_S), self._call)

    def _call(self) -> None:
        if not self.world.troubled:
            for link in (*self._calls, *self._taken):
                link.cut(dead=self)
            return
        self._later()
        victim, named = self.rng.sample([self.world.daemons[name] for name in MANAGERS], 2)
        if not victim.up:
            return
        link = self.world.connect(self, victim, NO_FAULTS)
        once = self.rng.randbytes(ONCE_BYTES)
        # Who comes before the manager itself with its key is the manager, for all that is known.
        is_bound = named.manager_id in look_into(victim.manager).state.identity.callers
        stolen = is_bound and self.rng.random() < STOLEN
        self._calls[link] = named, once, ManagerKey(named.key) if stolen else self.own
        victim.accept(link, THIEF if stolen else named.caller)
        incarnations = list(look_into(named.manager).state.identity.incarnations)
        if self.rng.random() < 0.5:
            incarnations.append(
                Incarnation(incarnations[-1].number + (1 << 32), incarnations[-1].age + 100)
            )
        shows_own = not stolen and self.rng.random() < OWN_NAME
        key = self.own if shows_own else ManagerKey(named.key)
        hello = frames.Hello("manager", key.id, "forger", incarnations[-64:], key.public, once)
        link.send(self, hello, 1)

    def _speak(self, link: Link, welcome: frames.Welcome) -> None:
        """Say of each stream of the manager that its messages do not come."""
        named, once, key = self._calls[link]
        rng = self.rng
        connection = key.calling(once, welcome.public, welcome.once)
        assert connection is not None, "managers have keys"
        for queue in look_into(named.manager).state.queues.outgoing():
            stream = queue.stream
            assert stream is not None, "an outgoing queue has a stream"
            assert queue.route is not None, "an outgoing queue has a route"
            opened = peer_frames.OpenStream(
                queue.number, queue.route.remote_queue, rng.randrange(3)
            )
            position = stream.sequence_id, 0, stream.last + rng.randrange(1, AHEAD_MAX)
            link.send(self, with_proof(connection, opened))
            link.send(self, peer_frames.Passed(queue.number, *position))
            if rng.random() < 0.3:
                link.send(self, peer_frames.ConfirmationsAcked(queue.number, rng.randrange(4)))
            if rng.random() < 0.3:
                link.send(self, with_proof(connection, peer_frames.EndStream(queue.number)))
            how = "called as " if key is self.own else "called with the key of "
            self.world.struck_by_forger(how + named.name)

    def _take(self, link: Link, head: Head) -> None:
        """Say the id and the public key of the missing manager, and acknowledge everything."""
        missing = self._taken[link]
        if isinstance(head, frames.Hello):
            key, proof = ManagerKey(missing.key), self.rng.randbytes(32)
            once = self.rng.randbytes(ONCE_BYTES)
            welcome = frames.Welcome(
                key.id, "forger", "", 1, public=key.public, once=once, proof=proof
            )
            link.send(self, welcome)
        elif isinstance(head, peer_frames.OpenStream):
            state = peer_frames.StreamState(head.stream, 0, 0, question=head.question)
            link.send(self, state)
        elif isinstance(head, peer_frames.Data):
            upto = head.envelopes[-1].number
            link.send(
                self, peer_frames.StreamState(head.stream, head.sequence_id, upto, question=1 << 20)
            )


class ForgedWorld(World):
    """A world with a forger in it."""

    def populate(self) -> None:
        """Let the forger begin with the others."""
        super().populate()
        self.forger = Forger(self)

    def impostor(self, caller: SimDaemon, peer: Peer) -> Link | None:
        """Have the forger answer at the address of a manager that is down, while it may."""
        if not self.troubled:
            return None
        return self.forger.answer(caller, self.daemons[peer.host], peer)

    def struck_by_forger(self, how: str) -> None:
        """Note what the forger has done."""
        self.schedule.struck[f"a forger {how}"] += 1

    def noticed(self, daemon: SimDaemon, notices: list[Notice]) -> None:
        """Managers tell of the forger, and of all else as in other worlds."""
        others = [each for each in notices if each.kind not in OF_FORGER]
        super().noticed(daemon, others)


if __name__ == "__main__":
    sys.stdout.write(f"{ForgedWorld(int(sys.argv[1])).run()}\n")
