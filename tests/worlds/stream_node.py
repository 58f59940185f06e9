"""One node of a world of bare cores: queues in dictionaries, facts on a disk that forgets.

What a node knows comes from facts, so that a kill can take what was not synced. Its turn is that of
every manager: decide, append, sync once, and only then speak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec

from dray.delivery.backoff import Backoff
from dray.delivery.events import (
    DeliverySettings,
    Diverged,
    Effect,
    Event,
    Grown,
    LinkLost,
    LinkReady,
    Open,
    OrderAcked,
    PassOver,
    PeerState,
    Refused,
    Renewed,
    StreamSnapshot,
    Transmit,
)
from dray.delivery.incoming import IncomingSnapshot, IncomingStreams, StreamKey
from dray.delivery.lineage import Past, lineage_of, met_with, next_incarnation
from dray.delivery.outgoing import OutgoingStream
from dray.model.ids import Incarnation
from dray.testing.promises import BrokenPromiseError
from dray.wire.head import Head
from dray.wire.message_frames import Envelope
from dray.wire.peer_frames import Data, OpenStream, Passed, StreamRefused, StreamState
from dray.wire.stream import Frame
from tests.worlds.network import Endpoint, Faults, Link, Schedule

STREAMS = (("a", "c"), ("b", "c"), ("c", "a"), ("a", "b"))
SETTINGS = DeliverySettings(
    window_bytes=200,
    window_messages=12,
    frame_bytes=60,
    frame_messages=4,
    frame_bytes_untried=25,
    resend_schedule_s=(0.5, 0.5, 2.0),
)


class Canary(NamedTuple):
    """Defences that can be taken out, to see that the worlds would notice."""

    speak_first: bool = False
    sends_to_strangers: bool = False
    """Whether a node sends to whichever manager answers where it knew another one."""
    takes_from_every_copy: bool = False
    """Whether a node takes a stream on every link, whichever copy of its source has called last."""
    incoming: type[IncomingStreams] = IncomingStreams
    outgoing: type[OutgoingStream] = OutgoingStream


class _Queue:
    """An outgoing queue: bodies by lookup id, in order."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.last = 0

    def after(self, lookup_id: int, /) -> Iterator[tuple[int, int]]:
        return ((each, len(body)) for each, body in self.bodies.items() if each > lookup_id)


class _Stored(msgspec.Struct, array_like=True):
    """A node's checkpoint, through bytes, as a manager's would be."""

    incarnations: list[Incarnation]
    age: int
    sent_in: dict[str, int]
    met: dict[str, list[list[Incarnation]]]
    known: dict[str, str]
    outgoing: list[StreamSnapshot]
    queues: list[tuple[dict[int, bytes], int]]
    incoming: list[IncomingSnapshot]
    inbox: dict[str, list[bytes]]


def inbox_of(snapshot: bytes) -> dict[str, list[bytes]]:
    """What a node had received when a snapshot of it was taken, by source."""
    return msgspec.msgpack.decode(snapshot, type=_Stored).inbox


class _NodeRun:
    """What a node knows between two kills; all of it comes from facts."""

    def __init__(self, peers: list[str], canary: Canary, stored: _Stored | None) -> None:
        self.incarnations: list[Incarnation] = stored.incarnations if stored else []
        self.age = stored.age if stored else 0
        self.sent_in: dict[str, int] = stored.sent_in if stored else {}
        self.met: dict[str, list[list[Incarnation]]] = stored.met if stored else {}
        self.known: dict[str, str] = stored.known if stored else {}
        """The id of the manager that was met at each address."""
        self.incoming = canary.incoming(stored.incoming if stored else ())
        self.inbox: dict[str, list[bytes]] = stored.inbox if stored else {}
        self.queues = {peer: _Queue() for peer in peers}
        self.streams: dict[str, OutgoingStream] = {}
        for number, peer in enumerate(peers, 1):
            queue = self.queues[peer]
            state = StreamSnapshot(number, "q")
            if stored:
                state = stored.outgoing[number - 1]
                queue.bodies, queue.last = stored.queues[number - 1]
            self.streams[peer] = canary.outgoing.from_state(state, queue, SETTINGS)

    def apply(self, fact: tuple[Any, ...]) -> None:
        """Make a fact true, now or again."""
        self.age += fact[0] != "restored"
        match fact:
            case ("admitted", peer, first, when_us, bodies):
                queue = self.queues[peer]
                queue.last = first + len(bodies) - 1
                queue.bodies.update(zip(range(first, queue.last + 1), bodies, strict=True))
                self.streams[peer].admitted(first, queue.last, when_us)
            case ("confirmed", peer, upto):
                for lookup_id, _ in [*self.queues[peer].after(0)]:
                    if lookup_id <= upto:
                        del self.queues[peer].bodies[lookup_id]
                self.streams[peer].acknowledged(upto)
            case ("expired", peer, lookup_id):
                del self.queues[peer].bodies[lookup_id]
            case ("renewed", peer, sequence_id, judged):
                self.streams[peer].renewed(sequence_id, judged)
            case ("restored", when_us):
                for queue in self.queues.values():
                    queue.last = max(queue.last, when_us)
            case ("accepted", key, sequence_id, number, incarnation, bodies):
                self.incoming.accepted(key, sequence_id, number, incarnation)
                self.inbox.setdefault(key.source, []).extend(bodies)
            case _:
                self.apply_to_identity(fact)

    def apply_to_identity(self, fact: tuple[Any, ...]) -> None:
        """Make a fact true that is about incarnations and copies."""
        match fact:
            case ("began", number, age):
                self.incarnations.append(Incarnation(number, age))
                for stream in self.streams.values():
                    stream.incarnation_began(number)
            case ("sends", peer, incarnation):
                self.sent_in[peer] = incarnation
            case ("met", source, incarnations):
                self.met[source] = met_with(self.met.get(source, ()), incarnations)
            case ("found", peer, manager_id):
                self.known[peer] = manager_id
            case ("diverged", peer, sequence_id, upto):
                self.streams[peer].diverge(sequence_id, upto)
            case ("resolved", peer):
                self.streams[peer].resolved()

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(
            _Stored(
                self.incarnations,
                self.age,
                self.sent_in,
                self.met,
                self.known,
                [stream.state() for stream in self.streams.values()],
                [(queue.bodies, queue.last) for queue in self.queues.values()],
                self.incoming.state(),
                self.inbox,
            )
        )


class NodeDisk(NamedTuple):
    """What a node finds when it starts."""

    checkpoint: bytes | None
    synced: tuple[tuple[Any, ...], ...]


EMPTY = NodeDisk(None, ())


class NodeChances(NamedTuple):
    """What may go wrong, drawn once for each world."""

    kill: float
    expire: float
    refuse: float
    pause: float


class NodeWorld(Protocol):
    """The world around a node, as far as a node sees it."""

    rng: Random
    schedule: Schedule
    canary: Canary
    chances: NodeChances
    nodes: dict[str, Node]

    @property
    def faults(self) -> Faults:
        """The faults of a new link."""
        ...

    def unlucky(self, chance: float) -> bool:
        """Whether a trouble strikes now."""
        ...

    def remind(self, node: Node, peer: str, stream: OutgoingStream) -> None:
        """See to it that a stream gets a Tick at its deadline."""
        ...

    def diverged(self, node: Node, peer: str) -> None:
        """A node's stream met a peer that took messages from a copy."""
        ...


class Node:
    """One machine: a disk, an incarnation, links."""

    def __init__(self, name: str, world: NodeWorld, disk: NodeDisk | None = None) -> None:
        """Begin with a disk; without one it is empty."""
        self.name = name
        self.manager_id = name
        self.world = world
        self.gone = False
        """Whether it never starts again."""
        self.peers = [to for source, to in STREAMS if source == name]
        self.disk = disk or EMPTY
        self.dirty: list[tuple[Any, ...]] = []
        self.up = False
        self.start()

    @property
    def disk(self) -> NodeDisk:
        """The checkpoint and the facts that were synced since; a copy of a store is this."""
        return NodeDisk(self.checkpoint, tuple(self.synced))

    @disk.setter
    def disk(self, disk: NodeDisk) -> None:
        self.checkpoint, self.synced = disk.checkpoint, list(disk.synced)

    @property
    def is_itself(self) -> bool:
        """Whether it runs over its own disk; over an empty one it is another manager."""
        return self.manager_id == self.name

    def start(self) -> None:
        """Recover from the disk, dial every peer. A node that is up already goes on."""
        if self.gone or self.up:
            return
        stored = msgspec.msgpack.decode(self.checkpoint, type=_Stored) if self.checkpoint else None
        self.run = _NodeRun(self.peers, self.world.canary, stored)
        for fact in self.synced:
            self.run.apply(fact)
        drawn = self.world.rng.getrandbits(32) | 1
        self.append("began", *next_incarnation(self.run.incarnations, drawn, self.run.age))
        self.synced += self.dirty
        self.dirty.clear()
        self.up = True
        self.dialled: dict[str, Link] = {}
        self.links: list[Link] = []
        self.callers: dict[Link, list[Incarnation]] = {}
        self.questions: dict[tuple[Link, StreamKey], int] = {}
        """The last question heard of each stream."""
        """The incarnations that the source at the other end of a link has said."""
        self.newest: dict[str, Link] = {}
        """The link on which each source has opened its stream last."""
        self.backoffs = {peer: Backoff(1.0) for peer in self.peers}
        for peer in self.peers:
            self.dial(peer)

    def kill(self) -> None:
        """Lose the power: of what was not synced, any first part may have reached the disk."""
        rng, schedule = self.world.rng, self.world.schedule
        schedule.happened("kill", self.name)
        self.synced += self.dirty[: rng.randint(0, len(self.dirty))]
        self.dirty.clear()
        self.up = False
        for link in self.links:
            link.cut(dead=self)
        schedule.after(rng.uniform(0.01, 1.0), self.start)

    def dial(self, peer: str) -> None:
        """Try to connect to a peer; again later if it is down."""
        if not self.up or not self.is_itself:
            return
        world, listener = self.world, self.world.nodes.get(peer)
        if listener is None or not listener.up:
            self.dial_later(peer)
            return
        if self.is_stranger(peer, listener):
            self.dial_later(peer)
            return
        self.backoffs[peer].succeeded()
        ends: tuple[Endpoint, Endpoint] = (self, listener)
        link = Link(ends, world.schedule, world.rng, world.faults)
        self.dialled[peer] = link
        self.links.append(link)
        listener.links.append(link)
        listener.callers[link] = list(self.run.incarnations)
        past = Past(tuple(self.run.incarnations), self.run.sent_in.get(peer, 0))
        met = listener.manager_id

        def decide() -> list[tuple[Link, Head, bytes]]:
            if self.run.known.get(peer) != met:
                self.append("found", peer, met)
            return self.outgoing(peer, LinkReady(past))

        self.turn(decide)

    def dial_later(self, peer: str) -> None:
        """Try again after a pause, unless this incarnation has ended by then."""
        now, run = self.world.schedule.now, self.run
        at = self.backoffs[peer].failed(now)
        self.world.schedule.after(at - now, lambda: self.dial(peer) if self.run is run else None)

    def is_stranger(self, peer: str, listener: Node) -> bool:
        """Whether another manager answers where this one has met one; it is sent nothing."""
        known = self.run.known.get(peer, listener.manager_id)
        return known != listener.manager_id and not self.world.canary.sends_to_strangers

    def broken(self, link: Link) -> None:
        """Dial again if the link was ours."""
        for peer, ours in [*self.dialled.items()]:
            if ours is link and self.up:
                del self.dialled[peer]
                self.turn(lambda peer=peer: self.outgoing(peer, LinkLost()))  # type: ignore[misc]
                self.dial(peer)
        if link in self.links:
            self.links.remove(link)

    def arrived(self, link: Link, frame: Frame) -> None:
        """Take a frame in a turn of its own."""
        self.turn(lambda: self.frame(link, frame))

    def turn(self, decide: Callable[[], list[tuple[Link, Head, bytes]]]) -> None:
        """Decide, append, sync once, and only then speak; a kill may come at any point."""
        world = self.world
        sayings = decide()
        if world.canary.speak_first:
            self.speak(sayings)
        if self.dirty:
            if world.unlucky(world.chances.kill):
                self.kill()
                return
            self.synced += self.dirty
            self.dirty.clear()
            if world.unlucky(0.05):
                self.checkpoint, self.synced = self.run.snapshot(), []
            if world.unlucky(world.chances.kill):
                self.kill()
                return
        if not world.canary.speak_first:
            self.speak(sayings)
        for peer, stream in self.run.streams.items():
            world.remind(self, peer, stream)

    def speak(self, sayings: list[tuple[Link, Head, bytes]]) -> None:
        """Release what a turn has to say."""
        for link, head, body in sayings:
            link.send(self, head, body=body)

    def append(self, *fact: Any) -> None:
        """Decide a fact: true at once in memory, durable by the next sync."""
        self.dirty.append(fact)
        self.run.apply(fact)

    def expire(self, peer: str, lookup_id: int) -> list[tuple[Link, Head, bytes]]:
        """Let the time of one message run out."""
        self.append("expired", peer, lookup_id)
        return []

    def outgoing(self, peer: str, event: Event) -> list[tuple[Link, Head, bytes]]:
        """Give an event to one outgoing stream and carry out its effects."""
        stream = self.run.streams[peer]
        sayings = []
        for effect in stream.handle(event, self.world.schedule.now):
            saying = self.effect(peer, stream, effect)
            if saying and peer in self.dialled:
                sayings.append((self.dialled[peer], *saying))
            if isinstance(effect, Renewed):
                sayings += self.outgoing(peer, Grown())
        return sayings

    def effect(
        self, peer: str, stream: OutgoingStream, effect: Effect
    ) -> tuple[Head, bytes] | None:
        """Turn one effect into a frame or a fact."""
        match effect:
            case Open(question):
                return OpenStream(stream.stream, stream.queue, question), b""
            case OrderAcked(upto):
                self.append("confirmed", peer, upto)
            case Renewed(sequence_id, judged):
                self.append("renewed", peer, sequence_id, judged)
            case Transmit(sequence_id, previous, lookup_ids, base):
                self.sends_to(peer)
                bodies = [self.run.queues[peer].bodies[each] for each in lookup_ids]
                envelopes = [
                    Envelope(each, len(body), 0, 0, 0, 0, 0, number=each - base)
                    for each, body in zip(lookup_ids, bodies, strict=True)
                ]
                return Data(stream.stream, sequence_id, previous, envelopes), b"".join(bodies)
            case PassOver():
                self.sends_to(peer)
                return Passed(stream.stream, *effect), b""
            case Diverged(sequence_id, upto):
                self.world.diverged(self, peer)
                self.append("diverged", peer, sequence_id, upto)
        return None

    def sends_to(self, peer: str) -> None:
        """Note that this incarnation sends to a peer."""
        incarnation = self.run.incarnations[-1].number
        if self.run.sent_in.get(peer) != incarnation:
            self.append("sends", peer, incarnation)

    def frame(self, link: Link, frame: Frame) -> list[tuple[Link, Head, bytes]]:
        """Answer one frame of a peer."""
        head = frame.head
        other = next(each for each in link.ends if each is not self)
        assert isinstance(other, Node)
        match head:
            case OpenStream(stream, _, question):
                if self.world.unlucky(self.world.chances.refuse):
                    return [(link, StreamRefused(stream, "full", "no", question=question), b"")]
                if not self.is_newest(other.name, link):
                    if not self.is_other_copy(other.name, link):
                        return []
                    why = "another copy has called later"
                    return [
                        (link, StreamRefused(stream, "other-copy", why, question=question), b"")
                    ]
                key = StreamKey(other.name, stream)
                self.questions[link, key] = question
                return [(link, self.position(link, key), b"")]
            case Data():
                if not self.takes(other.name, link):
                    return self.not_open(link, StreamKey(other.name, head.stream))
                return [
                    (link, self.data(link, StreamKey(other.name, head.stream), head, frame), b"")
                ]
            case Passed():
                if not self.takes(other.name, link):
                    return self.not_open(link, StreamKey(other.name, head.stream))
                return [(link, self.passed(link, StreamKey(other.name, head.stream), head), b"")]
            case StreamState():
                said = PeerState(
                    head.sequence_id, head.upto, head.question, head.incarnation, head.met
                )
                return self.outgoing(other.name, said)
            case StreamRefused():
                return self.outgoing(other.name, Refused(head.sentence, question=head.question))
        raise BrokenPromiseError(f"unexpected frame {head}")

    def is_newest(self, source: str, link: Link) -> bool:
        """Let a source's stream come on this link only, unless a newer one has it already."""
        newest = self.newest.get(source)
        later = newest in self.links and self.links.index(newest) > self.links.index(link)
        if later and not self.world.canary.takes_from_every_copy:
            return False
        self.newest[source] = link
        return True

    def is_other_copy(self, source: str, link: Link) -> bool:
        """Whether the copy of a source that has opened its stream last is not the one here."""
        newest = self.callers[self.newest[source]]
        return self.callers[link][-1] not in newest

    def takes(self, source: str, link: Link) -> bool:
        """Whether messages of a source are taken on this link."""
        return self.newest.get(source) is link or self.world.canary.takes_from_every_copy

    def not_open(self, link: Link, key: StreamKey) -> list[tuple[Link, Head, bytes]]:
        """Tell a source that its stream is not open on this link, so that it asks again."""
        question = self.questions.get((link, key), 0)
        return [(link, StreamRefused(key.stream, "not-open", "not open", question=question), b"")]

    def data(self, link: Link, key: StreamKey, head: Data, frame: Frame) -> StreamState:
        """Let in what the predicate lets in, in one fact with the position; say where we are."""
        numbers = [each.number for each in head.envelopes]
        start = self.run.incoming.admissible(key, head.sequence_id, head.previous, numbers)
        bodies, at = [], 0
        for each in head.envelopes:
            bodies.append(bytes(frame.body[at : at + each.length]))
            at += each.length
        self.run.incoming.visited(key, start, self.world.schedule.now)
        if start < len(numbers):
            incarnation = self.meet(key, link)
            self.append("accepted", key, head.sequence_id, numbers[-1], incarnation, bodies[start:])
        return self.position(link, key)

    def passed(self, link: Link, key: StreamKey, head: Passed) -> StreamState:
        """Let the position go on over what has gone."""
        if not self.run.incoming.admissible(key, head.sequence_id, head.previous, [head.upto]):
            self.append("accepted", key, head.sequence_id, head.upto, self.meet(key, link), [])
        return self.position(link, key)

    def meet(self, key: StreamKey, link: Link) -> int:
        """Note the incarnation of the source that sends."""
        incarnations = self.callers[link]
        if incarnations not in self.run.met.get(key.source, ()):
            self.append("met", key.source, incarnations)
        return incarnations[-1].number

    def position(self, link: Link, key: StreamKey) -> StreamState:
        """The order ack of a stream."""
        incoming = self.run.incoming
        position, incarnation = incoming.position(key), incoming.incarnation(key)
        # A frame of a link that was cut may come late: its answer reaches nobody.
        ours = self.callers.get(link, [])
        incarnations = () if any(each.number == incarnation for each in ours) else ours
        met = lineage_of(self.run.met.get(key.source, ()), incarnation, incarnations)
        question = self.questions.get((link, key), 0)
        return StreamState(
            key.stream, *position, question=question, incarnation=incarnation, met=met
        )
