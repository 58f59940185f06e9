"""A queue manager in simulated time: the real Manager over the real Store on a `SimDisk`.

It keeps the turn of the real daemon (`daemon/turns.py`): events are decided as they come, one sync
at a time makes them durable while the next turn gathers, and effects are released when the sync
they wait for has ended. Syncs take simulated time, so whatever can happen meanwhile does. Power
fails and processes die before, during and after a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

from dray.delivery.keys import KEY_BYTES, ManagerKey
from dray.errors import StoreFull, StorePoisoned
from dray.machine import Tick
from dray.manager.events import (
    Answer,
    Body,
    CloseSession,
    Dial,
    Effect,
    Event,
    HangUp,
    LinkDown,
    LinkFrame,
    LinkSend,
    LinkUp,
    ManagerConfig,
    Peer,
    Reachable,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.manager.notices import Notice
from dray.manager.turn import QueueManager
from dray.model.callers import OWNER, Caller
from dray.model.names import DEFAULT_PORT
from dray.model.queue import QueueOptions
from dray.store.heap.heap import Extent
from dray.store.store import Store
from dray.store.syncing import Checkpoint, Sync
from dray.testing.disk import SimDisk
from dray.wire.frames import Hello
from dray.wire.peer_frames import EndCount, EndCounts
from dray.wire.queue_frames import CreateQueue
from dray.wire.stream import Frame
from tests.worlds.network import Endpoint, Faults, Link, Schedule

HEAP_FILE_BYTES = 64 << 10
LOG_BYTES = 48 << 10
SYNC_S = 0.001
TICK_S_MIN = 0.001
QUOTA_BYTES = 256 << 10
"""The computer quota of managers in tight worlds: it makes sources wait, and nothing is lost."""
_CREATOR = 1 << 30
_WITH_BODY = (Answer, LinkSend)


class Canary(NamedTuple):
    """Defences that can be taken out, to see that the worlds would notice."""

    speak_first: bool = False


class Chances(NamedTuple):
    """What may go wrong with machines, per point of a turn; `power` is the share of power cuts."""

    kill: float
    power: float
    bad_sync: float


class Surroundings(Protocol):
    """The world around a machine and its clients, as far as these see it."""

    rng: Random
    schedule: Schedule
    canary: Canary
    chances: Chances
    tight: bool
    troubled: bool
    interrupted: bool
    queue_files: bool
    queues: dict[str, QueueOptions]
    daemons: dict[str, SimDaemon]

    @property
    def link_faults(self) -> Faults:
        """The faults of a new link between managers."""
        ...

    @property
    def client_faults(self) -> Faults:
        """The faults of a new link of a client."""
        ...

    def connect(self, dialler: Endpoint, listener: Endpoint, faults: Faults) -> Link:
        """Make a connection."""
        ...

    def impostor(self, caller: SimDaemon, peer: Peer) -> Link | None:
        """A connection to one that answers in the place of a manager that is down."""
        ...

    def routes_of(self, name: str) -> dict[Peer, Peer]:
        """Over which managers one sends what is for others."""
        ...

    def noticed(self, daemon: SimDaemon, notices: list[Notice]) -> None:
        """Judge what a manager tells its operator."""
        ...

    def told_of_ends(self, daemon: SimDaemon, counts: list[EndCount]) -> None:
        """Hear how many messages a destination says have ended."""
        ...

    def unlucky(self, chance: float) -> bool:
        """Whether a trouble strikes now."""
        ...


class SimDaemon:
    """One machine of a world."""

    def __init__(self, name: str, world: Surroundings) -> None:
        """Begin with an empty disk, up."""
        self.name = name
        self.world = world
        self.key = world.rng.randbytes(KEY_BYTES)
        self.manager_id = ManagerKey(self.key).id
        self.disk = SimDisk(world.rng)
        self.run = 0
        self.up = False
        self.restarts = -1
        self.skew_s = 0.0
        """How far this machine's clock is from the world's time."""
        self.start()
        self._create_queues(world.queues)

    # ------------------------------------------------------------------------- life and death

    def start(self) -> None:
        """Recover from the disk."""
        self.restarts += 1
        self._latest, self._looked_at = 0.0, self.world.schedule.now
        self.store = opened_store(self.disk, self.world)
        self.manager = QueueManager.load(self.store, self._config(), self.now)
        self.manager.handle(Reachable(frozenset({Peer(self.name, DEFAULT_PORT)})), self.now)
        self.store.sync()
        self.up = True
        self._sessions: dict[int, Link] = {}
        self._session_of: dict[Link, int] = {}
        self._peers: dict[Peer, Link] = {}
        self._last_session = 0
        self._gathered: list[Effect] = []
        self._syncing: list[Effect] | None = None
        self._pass_ends = False
        self._tick_at: float | None = None
        self._remind()

    @property
    def now(self) -> float:
        """What the daemon's timekeeper says: a clock that is set back is not followed."""
        present = self.world.schedule.now
        went_on = self._latest + present - self._looked_at
        self._latest, self._looked_at = max(went_on, present + self.skew_s), present
        return self._latest

    def _create_queues(self, queues: Mapping[str, QueueOptions]) -> None:
        """Begin with queues: what is sent to one that does not exist is dead, by design."""
        now = self.now
        self.manager.handle(SessionOpened(_CREATOR, OWNER), now)
        for head in (Hello("client"), *(CreateQueue(*each) for each in queues.items())):
            frame = Frame(head, 1, memoryview(b""))
            self.manager.handle(Request(_CREATOR, frame), now)
        self.manager.handle(SessionClosed(_CREATOR), now)
        self.store.sync()

    def fail(self, *, power: bool) -> None:
        """Fail the power, or kill the process alone; start again a little later."""
        if not self.up:
            return
        world = self.world
        world.schedule.happened("kill", self.name, power)
        world.schedule.struck["power cut" if power else "kill"] += 1
        self.up = False
        self.run += 1
        self.disk = self.disk.crash() if power else self.disk.kill()
        for link in (*self._sessions.values(), *self._peers.values()):
            link.cut(dead=self)
        world.schedule.after(world.rng.uniform(0.01, 0.5), self.start)

    def _unlucky(self) -> bool:
        """Whether the machine fails at this point of its turn."""
        world, chance = self.world, self.world.chances.kill
        if not (chance and world.troubled and world.rng.random() < chance):
            return False
        self.fail(power=world.rng.random() < world.chances.power)
        return True

    def _config(self) -> ManagerConfig:
        return ManagerConfig(
            manager_id=self.manager_id,
            key=self.key,
            incarnation=self.world.rng.getrandbits(32) | 1,
            name=self.name,
            quota=QUOTA_BYTES if self.world.tight else None,
            resend_schedule_s=(0.3, 0.3, 1.0),
            reconnect_delay_s=0.5,
            window_bytes=24 << 10,
            window_messages=12,
            # Fragments of a world are small.
            ahead_bytes_min=1,
            routes=self.world.routes_of(self.name),
            # Consumers wait in their transactions for ever, and the world must come to rest.
            idle_transaction_s=None,
        )

    # ---------------------------------------------------------------------------- connections

    @property
    def caller(self) -> Caller:
        """How this manager names itself to others; it has all rights there."""
        return Caller(f"cert:{self.name}", owner=True)

    def accept(self, link: Link, caller: Caller = OWNER) -> None:
        """Take a connection from a client or another manager."""
        self._last_session += 1
        self._sessions[self._last_session] = link
        self._session_of[link] = self._last_session
        self.deliver(SessionOpened(self._last_session, caller))

    def arrived(self, link: Link, frame: Frame) -> None:
        """Give a frame to the manager."""
        session = self._session_of.get(link)
        if session is not None:
            self.deliver(Request(session, frame))
            return
        for peer, dialled in self._peers.items():
            if dialled is link:
                if isinstance(frame.head, EndCounts):
                    self.world.told_of_ends(self, frame.head.counts)
                self.deliver(LinkFrame(peer, frame))
                return

    def broken(self, link: Link) -> None:
        """Tell the manager that a connection is gone."""
        session = self._session_of.pop(link, None)
        if session is not None:
            del self._sessions[session]
            self.deliver(SessionClosed(session))
        for peer, dialled in [*self._peers.items()]:
            if dialled is link:
                del self._peers[peer]
                self.deliver(LinkDown(peer, "the connection was reset"))

    def _dial(self, peer: Peer) -> None:
        listener = self.world.daemons[peer.host]
        if listener.up:
            link = self.world.connect(self, listener, self.world.link_faults)
            listener.accept(link, self.caller)
        else:
            answered = self.world.impostor(self, peer)
            if answered is None:
                self.deliver(LinkDown(peer, "connection refused"))
                return
            link = answered
        self._peers[peer] = link
        link.send(self, self.manager.hello(peer), 1)
        self.deliver(LinkUp(peer))

    # ------------------------------------------------------------------------------- the turn

    def deliver(self, event: Event) -> None:
        """Let the manager decide about an event, and gather what it decided."""
        effects = self.manager.handle(event, self.now)
        for effect in effects:
            self._gather(effect)
        notices = self.manager.notices()
        if notices:
            self.world.noticed(self, notices)
        if not self._pass_ends:
            self._pass_ends = True
            self._later(0.0, self._end_pass)

    def _gather(self, effect: Effect) -> None:
        at_once = self.world.canary.speak_first
        if isinstance(effect, _WITH_BODY):
            for part in effect.body:
                if isinstance(part, Extent):
                    self.store.pin(part.file)
            at_once = at_once or (isinstance(effect, Answer) and not effect.held)
        if at_once:
            self._perform(effect)
        else:
            self._gathered.append(effect)

    def _end_pass(self) -> None:
        self._pass_ends = False
        if self._syncing is None:
            self._begin()
        self._remind()

    def _begin(self) -> None:
        if self._unlucky():
            return
        try:
            if self.store.checkpoint_due:
                self._begin_checkpoint()
            sync = self.store.begin_sync()
        except StoreFull:
            # There is room again when the checkpoint has ended.
            return
        effects, self._gathered = self._gathered, []
        if sync is None:
            self._release(effects)
            return
        self._syncing = effects
        self._later(self.world.rng.expovariate(1 / SYNC_S), self._run, sync)

    def _run(self, sync: Sync) -> None:
        if self._unlucky():
            return
        if self.world.unlucky(self.world.chances.bad_sync):
            self.disk.fail_sync()
            self.world.schedule.struck["failed sync"] += 1
        try:
            sync.run()
        except StorePoisoned:
            # What the page cache still holds of a failed sync is anyone's guess.
            self.fail(power=True)
            return
        self._later(0.0, self._ended, sync)

    def _ended(self, sync: Sync) -> None:
        if self._unlucky():
            return
        self.store.end_sync(sync)
        assert self._syncing is not None, "one sync at a time"
        effects, self._syncing = self._syncing, None
        self._release(effects)
        if self._gathered:
            self._begin()

    def _begin_checkpoint(self) -> None:
        checkpoint = self.store.begin_checkpoint(self.manager.snapshot())
        if checkpoint is not None:
            delay = self.world.rng.expovariate(1 / SYNC_S)
            self._later(delay, self._end_checkpoint, checkpoint)

    def _end_checkpoint(self, checkpoint: Checkpoint) -> None:
        if self._unlucky():
            return
        checkpoint.run()
        self.store.end_checkpoint(checkpoint)
        if self._syncing is None:
            self._begin()

    def _release(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Answer():
                data = self._read(effect.body)
                link = self._sessions.get(effect.session)
                if link is not None:
                    link.send(self, effect.head, effect.request_id, data)
            case LinkSend(peer, head, body):
                data = self._read(body)
                if peer in self._peers:
                    self._peers[peer].send(self, head, body=data)
            case CloseSession(session):
                self._drop(self._sessions.get(session))
            case Dial(peer):
                self._later(self.world.rng.uniform(0.0, 0.01), self._dial, peer)
            case HangUp(peer):
                self._drop(self._peers.pop(peer, None))

    def _drop(self, link: Link | None) -> None:
        if link is not None:
            link.cut()

    def _read(self, body: Body) -> bytes:
        """Read what an answer refers to, and let go of it."""
        if not body:
            return b""
        store, pieces = self.store, list[bytes]()
        for part in body:
            if isinstance(part, Extent):
                pieces.append(store.read(part))
                store.unpin(part.file)
            else:
                pieces.append(part)
        return b"".join(pieces)

    # ----------------------------------------------------------------------------------- time

    def _remind(self) -> None:
        """See to it that the manager gets a Tick at its deadline."""
        at = self.manager.deadline()
        if at is None or at == self._tick_at:
            return
        self._tick_at = at
        self._later(max(at - self.now, TICK_S_MIN), self._tick, at)

    def _tick(self, at: float) -> None:
        if self._tick_at == at:
            self._tick_at = None
            self.deliver(Tick())

    def _later(self, delay_s: float, action: Callable[..., None], *what: object) -> None:
        """Do something later, unless this run has ended by then."""
        self.world.schedule.after(delay_s, partial(self._in_run, self.run, action, *what))

    def _in_run(self, run: int, action: Callable[..., None], *what: object) -> None:
        if self.up and self.run == run:
            action(*what)


def opened_store(disk: SimDisk, world: Surroundings) -> Store:
    """The store on a disk, not recovered yet."""
    return Store(
        disk,
        heap_file_bytes=HEAP_FILE_BYTES,
        log_bytes=LOG_BYTES,
        queue_files=world.queue_files,
    )
