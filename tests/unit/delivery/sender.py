"""An outgoing stream with its queue, as its tests drive it."""

from __future__ import annotations

import msgspec

from dray.delivery.events import (
    DeliverySettings,
    Diverged,
    Grown,
    LinkReady,
    Open,
    OrderAcked,
    PeerState,
    Refused,
    Renewed,
    StreamSnapshot,
    Transmit,
)
from dray.delivery.lineage import Past, next_incarnation
from dray.delivery.outgoing import OutgoingStream

SETTINGS = DeliverySettings(
    window_bytes=100,
    window_messages=6,
    frame_bytes=30,
    frame_messages=3,
    resend_schedule_s=(30.0, 30.0, 300.0),
)
NOON_S = 1_700_000_000
NOON_US = NOON_S * 1_000_000
NOON_ID = NOON_S << 32


class Queue:
    """Record lengths by lookup id."""

    def __init__(self):
        self.lengths = {}

    def after(self, lookup_id, /):
        return ((each, self.lengths[each]) for each in sorted(self.lengths) if each > lookup_id)


class Sender:
    """A stream whose facts are applied as a manager applies them."""

    def __init__(self, settings=SETTINGS, kind=OutgoingStream):
        self.queue = Queue()
        self.settings = settings
        self.kind = kind
        self.stream = kind(1, "orders", self.queue, settings)
        self.now = 0.0
        self.last = 0
        self.incarnations = []
        self.sent_in = 0
        self.asked = []
        """The numbers of the questions, which are left out of the effects."""

    def admit(self, count, length=10, when_us=NOON_US):
        first, self.last = self.last + 1, self.last + count
        self.queue.lengths.update(dict.fromkeys(range(first, self.last + 1), length))
        self.stream.admitted(first, self.last, when_us)
        return self.give(Grown())

    def give(self, event, at=None):
        """Let something happen; what a peer says is said to the last question, unless it tells."""
        self.now = self.now if at is None else at
        if isinstance(event, (PeerState, Refused)) and not event.question:
            event = event._replace(question=self.stream._question)
        effects = self.stream.handle(event, self.now)
        self.asked += [each.question for each in effects if isinstance(each, Open)]
        effects = [Open() if isinstance(each, Open) else each for each in effects]
        for effect in effects:
            if isinstance(effect, OrderAcked):
                for each in [each for each in self.queue.lengths if each <= effect.upto]:
                    del self.queue.lengths[each]
                self.stream.acknowledged(effect.upto)
            elif isinstance(effect, Diverged):
                self.stream.diverge(*effect)
            elif isinstance(effect, Renewed):
                self.stream.renewed(*effect)
        return effects

    def begin_incarnation(self, drawn=1):
        """A start of the store: only what is durable survives, and an incarnation begins."""
        self.restart()
        self.incarnations.append(next_incarnation(self.incarnations, drawn, len(self.incarnations)))
        self.stream.incarnation_began(self.incarnations[-1].number)

    def meet(self, claim, met=()):
        """A new connection: the peer says what it has, and from which incarnation of ours."""
        self.give(LinkReady(Past(tuple(self.incarnations), self.sent_in)))
        question = self.stream._question
        return self.give(PeerState(claim[0], claim[1], question, claim[2], met))

    def connect(self, sequence_id=0, upto=0):
        """A new connection on which the peer says what it has."""
        self.give(LinkReady())
        return self.give(PeerState(sequence_id, upto))

    def connect_silently(self):
        """A new connection on which the peer was asked and has not answered."""
        self.give(LinkReady(Past(tuple(self.incarnations), self.sent_in)))

    def ack(self, number):
        return self.give(PeerState(self.stream.sequence_id, number))

    def expire(self, *lookup_ids):
        for each in lookup_ids:
            del self.queue.lengths[each]

    def restart(self):
        """Only what is durable survives."""
        data = msgspec.msgpack.encode(self.stream.state())
        state = msgspec.msgpack.decode(data, type=StreamSnapshot)
        self.stream = self.kind.from_state(state, self.queue, self.settings)


def sent(effects):
    """(previous, numbers) of each Data frame."""
    return [
        (each.previous, [lookup_id - each.base for lookup_id in each.lookup_ids])
        for each in effects
        if isinstance(each, Transmit)
    ]
