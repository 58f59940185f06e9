"""Events from the daemon to the manager, and effects that the manager wants done."""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from dray.machine import Tick
from dray.model.access import Access
from dray.model.access_info import ActInfo
from dray.model.callers import Caller
from dray.model.limits import (
    AHEAD_PIECE_BYTES_MIN,
    IDLE_TRANSACTION_S,
    LINK_WINDOW_BYTES,
    LINK_WINDOW_MESSAGES,
    LOW_WATER_BYTES,
    QUOTA_BYTES_DEFAULT,
    RECONNECT_DELAY_S,
    RESEND_SCHEDULE_S,
)
from dray.store.heap.heap import Extent
from dray.wire.head import Head
from dray.wire.stream import Frame

Body = tuple[bytes | Extent, ...]


class Peer(NamedTuple):
    """Another manager, by the address that queue names give."""

    host: str
    port: int
    secure: bool = False
    """Whether it is reached through TLS."""


class SessionOpened(NamedTuple):
    """A connection was accepted from `caller`; its Hello will say what it is."""

    session: int
    caller: Caller


class SessionClosed(NamedTuple):
    """An accepted connection ended."""

    session: int


class Request(NamedTuple):
    """A frame came on an accepted connection. Its body is valid during `handle` only."""

    session: int
    frame: Frame


class LinkUp(NamedTuple):
    """The connection that was dialled is there; our Hello has been sent."""

    peer: Peer
    caller: str = ""
    """The name in the certificate of the other end, `cert:NAME`; empty without TLS."""


class LinkDown(NamedTuple):
    """The connection could not be made, or ended."""

    peer: Peer
    reason: str
    jitter: float = 1.0
    """Drawn anew each time, 0.5 to 1: how much of the usual wait to wait."""


class LinkFrame(NamedTuple):
    """A frame came on a dialled connection."""

    peer: Peer
    frame: Frame


class Reachable(NamedTuple):
    """Under which addresses this manager itself can be reached."""

    addresses: frozenset[Peer]


class AccessChanged(NamedTuple):
    """Other rules of access hold from now on; with `peer_tokens` other tokens are shown, too."""

    access: Access
    peer_tokens: dict[Peer, str] | None = None


Event = (
    SessionOpened
    | SessionClosed
    | Request
    | LinkUp
    | LinkDown
    | LinkFrame
    | Reachable
    | AccessChanged
    | Tick
)


class Into(NamedTuple):
    """The place of an extent in a lent file: all of it but its first bytes, which are answered."""

    at: int
    before: int


class Answer(NamedTuple):
    """Send a frame on an accepted connection. `held` until all facts before it are durable.

    With `into` the one extent of the body goes into the file that came with the request, and what
    is said of it before that goes behind the head.
    """

    session: int
    request_id: int
    head: Head
    body: Body = ()
    held: bool = True
    into: Into | None = None


class CloseSession(NamedTuple):
    """End an accepted connection once what was answered before has gone out."""

    session: int


class CallerProven(NamedTuple):
    """The caller of an accepted connection has shown a token: it is this one from now on."""

    session: int
    caller: Caller


class Dial(NamedTuple):
    """Connect to a peer and say Hello; the outcome comes back as LinkUp or LinkDown."""

    peer: Peer


class HangUp(NamedTuple):
    """End the connection to a peer."""

    peer: Peer


class LinkSend(NamedTuple):
    """Send a frame on a dialled connection, once all facts before it are durable."""

    peer: Peer
    head: Head
    body: Body = ()


class ActKind(enum.StrEnum):
    """Acts of callers that an operator may want to trace."""

    REFUSED = "refused"
    """The caller has no right for it."""
    MANAGE = "manage"
    KEEP = "keep"
    """A backup was begun, or a journal or dead-letter queue read."""
    DELIVER = "deliver"
    """A queue manager opened a stream to a queue here."""


class CallerAct(NamedTuple):
    """Write to the access log what a caller did, once it is durable."""

    kind: ActKind
    caller: Caller
    session: int
    frame: str
    subject: str
    """The queue or the manager that it was done to; never a part of a message."""


Effect = Answer | CloseSession | CallerProven | Dial | HangUp | LinkSend | CallerAct


class ManagerConfig(msgspec.Struct, kw_only=True):
    """The options of a manager. Times in seconds, sizes in bytes; None is no limit.

    `key` is drawn at random, and `manager_id` the id that comes of it (`delivery/keys.py`); both
    and `name` are for a new store, an old one knows its own. `incarnation` is random, and
    another one at each start: no incarnation of the store begins where it is 0, to look at the
    store. With `rebuild_internal_files` a missing file of an internal queue is written anew, not
    refused. `routes` says of other managers over which one to send what is for them.
    Fragments of `ahead_bytes_min` and more travel ahead of their commit. `peer_tokens` are the
    tokens to show to other managers. `acts` are the last acts of callers before this start, the
    newest first.
    """

    manager_id: str
    key: bytes = b""
    incarnation: int = 0
    name: str = ""
    version: str = ""
    pid: int = 0
    quota: int | None = QUOTA_BYTES_DEFAULT
    journal_quota: int | None = QUOTA_BYTES_DEFAULT
    resend_schedule_s: tuple[float, ...] = RESEND_SCHEDULE_S
    reconnect_delay_s: float = RECONNECT_DELAY_S
    low_water_bytes: int = LOW_WATER_BYTES
    rebuild_internal_files: bool = False
    window_bytes: int = LINK_WINDOW_BYTES
    window_messages: int = LINK_WINDOW_MESSAGES
    ahead_bytes_min: int = AHEAD_PIECE_BYTES_MIN
    routes: dict[Peer, Peer] = {}
    idle_transaction_s: float | None = IDLE_TRANSACTION_S
    create_status_queue: bool = True
    access: Access = Access()
    peer_tokens: dict[Peer, str] = {}
    acts: tuple[ActInfo, ...] = ()
