"""Events and effects of an outgoing stream, as plain values."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from dray.delivery.judgement import NOWHERE, IncarnationMark, PeerPosition
from dray.delivery.lineage import Past
from dray.machine import Tick
from dray.model.ids import Incarnation
from dray.model.limits import (
    BATCH_MESSAGES_MAX,
    FRAME_BODY_BYTES_MAX,
    FRAME_BYTES_UNTRIED,
    LINK_WINDOW_BYTES,
    LINK_WINDOW_MESSAGES,
    RESEND_SCHEDULE_S,
)

FRAME_MESSAGES_MAX = min(256, BATCH_MESSAGES_MAX)


class Backlog(Protocol):
    """The outgoing queue as delivery sees it."""

    def after(self, lookup_id: int, /) -> Iterator[tuple[int, int]]:
        """Lookup id and record length of each message still there above a position, in order."""
        ...


class DeliverySettings(NamedTuple):
    """Bounds of what is in flight, of one frame, and how long to wait for an order ack."""

    window_bytes: int = LINK_WINDOW_BYTES
    window_messages: int = LINK_WINDOW_MESSAGES
    frame_bytes: int = FRAME_BODY_BYTES_MAX
    frame_messages: int = FRAME_MESSAGES_MAX
    frame_bytes_untried: int = FRAME_BYTES_UNTRIED
    """The bytes that a frame holds before the line has shown that it is fast."""
    resend_schedule_s: tuple[float, ...] = RESEND_SCHEDULE_S


class LinkReady(NamedTuple):
    """The peer has welcomed this manager; `past` tells the incarnations of our store."""

    past: Past = Past()
    answerer: str = ""
    """The id of the manager that has welcomed this one."""


class LinkLost(NamedTuple):
    """It is gone, and with it whatever was in flight."""


class PeerState(NamedTuple):
    """A StreamState frame: what the peer has accepted of this stream, durably.

    `question` is that of the last Open that the peer had heard. `incarnation` is the incarnation of
    this store in which the peer accepted the last message; 0 if it never accepted one. `met` are
    all incarnations of the copy that sent it, if that is another one. `receipt` is the peer's
    (`receipts.py`).
    """

    sequence_id: int
    upto: int
    question: int = 0
    incarnation: int = 0
    met: Sequence[Incarnation] = ()
    receipt: bytes = b""


class Refused(NamedTuple):
    """A StreamRefused frame: the peer cannot take this stream now, but has it up to a position.

    `final` if what waits is not kept for later: it is asked again as soon as more is to be sent.
    `Links._refused` of the manager decides that.
    """

    reason: str
    sequence_id: int = 0
    upto: int = 0
    question: int = 0
    code: str = ""
    final: bool = False
    incarnation: int = 0
    met: Sequence[Incarnation] = ()
    receipt: bytes = b""


class Invited(NamedTuple):
    """The peer has room again for what it had left out or refused for want of it."""


class Grown(NamedTuple):
    """Something was admitted."""


class Paused(NamedTuple):
    """Send nothing until resumed."""


class Unpaused(NamedTuple):
    """Go on."""


Event = LinkReady | LinkLost | PeerState | Refused | Invited | Grown | Paused | Unpaused | Tick


class Open(NamedTuple):
    """Send OpenStream, with the number of the question."""

    question: int = 0


class Transmit(NamedTuple):
    """Send one Data frame; the number of each message is its lookup id less `base`."""

    sequence_id: int
    previous: int
    lookup_ids: list[int]
    base: int


class PassOver(NamedTuple):
    """Send one Passed frame: nothing up to a number comes any more that was not sent."""

    sequence_id: int
    previous: int
    upto: int


class OrderAcked(NamedTuple):
    """The peer has all up to a lookup id: append the fact, remove them, call `acknowledged`."""

    upto: int
    receipt: bytes = b""
    """The one that came with the order ack."""


class Diverged(NamedTuple):
    """The peer took messages from a copy of this store: append the fact, then call `diverge`."""

    sequence_id: int
    upto: int


class OlderCopy(NamedTuple):
    """The peer has messages that this store lost: the store is an older copy, or lost its end.

    All that the store held is certain to be delivered, so the stream goes on by itself.
    """

    sequence_id: int
    upto: int


class PeerForgot(NamedTuple):
    """The peer has less than it acknowledged before: its store is an old copy, or new."""

    sequence_id: int
    upto: int


class Renewed(NamedTuple):
    """The stream goes on in a new sequence: append the fact, then call `renewed`.

    `judged` is the peer's position that led to it.
    """

    sequence_id: int
    judged: PeerPosition


class Resolved(NamedTuple):
    """A person has decided what becomes of a stream that had diverged."""


Effect = Open | Transmit | PassOver | OrderAcked | Diverged | OlderCopy | PeerForgot | Renewed
Happened = Event | Diverged | Resolved
"""All that moves a stream: events, and the facts that change its conversation."""


class StreamCondition(enum.StrEnum):
    """The state of a stream, in the original's words."""

    INACTIVE = "inactive"
    WAITING = "waiting"
    CONNECTED = "connected"
    ON_HOLD = "on hold"
    NEED_VALIDATION = "need-validation"
    """Another queue manager answers at the peer's address, or the peer knows this one by another
    caller; nothing is sent."""
    REFUSED = "refused"
    DIVERGED = "diverged"
    """The peer took messages from a copy of this store; nothing is sent until a person decides."""


class StreamSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """The durable part, for a checkpoint. `last` and `acknowledged` are lookup ids.

    `heard` is the highest position that a peer has acknowledged: sequence id and number.
    `marks` has an entry for each incarnation in which the stream had come further than in the one
    before. `judged` is the peer's position after which the sequence was begun anew, `divergence`
    the one that did not fit. `anew` tells that a person has decided and the next sequence is to
    begin. `receipt` is the last one of the manager that has acknowledged or confirmed messages;
    `heard_by` is the id of the one that has acknowledged `heard`.
    """

    stream: int
    queue: str
    sequence_id: int = 0
    base: int = 0
    last: int = 0
    acknowledged: int = 0
    heard: tuple[int, int] = (0, 0)
    marks: list[IncarnationMark] = []
    judged: PeerPosition = NOWHERE
    divergence: tuple[int, int] | None = None
    anew: bool = False
    receipt: bytes = b""
    heard_by: str = ""


class StreamCounters(NamedTuple):
    """For those who look; nothing is decided by it. Times in seconds since the epoch."""

    last_ack: int = 0
    last_ack_time: float | None = None
    resends: int = 0
    refusals: int = 0
    ignored_acks: int = 0
