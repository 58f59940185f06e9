"""What can be known of queues and managers: what `queues()` and `info()` give."""

from __future__ import annotations

import msgspec

from dray.model.classes import QueueKind
from dray.model.ids import ManagerId


class QueueOptions(msgspec.Struct, frozen=True, array_like=True):
    """What a queue was created with. `transactional` never changes later."""

    transactional: bool = True
    quota: int | None = None
    journal: bool = False
    journal_quota: int | None = None
    label: str = ""
    digest: str | None = None
    """Which digest large messages and files have whose sender names none; None is the default."""


class LinkChange(msgspec.Struct, frozen=True):
    """A change of the connection to the next manager; one that repeats itself is counted.

    Times in seconds since the epoch: when it first and last came.
    """

    state: str
    reason: str
    since: float
    until: float
    times: int = 1


class Refusal(msgspec.Struct, frozen=True):
    """Why a destination takes nothing, or not everything, and since when.

    `code` is that of the error, such as "queue-not-found" or "quota-exceeded". `count` is how many
    messages it has refused since then, `since` in seconds since the epoch.
    """

    code: str
    sentence: str
    since: float
    count: int = 0


class DeliveryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How the delivery of an outgoing queue stands, since this manager was started.

    `link` is "disconnected", "dialling", "connected" or "welcomed"; `history` its last changes, the
    latest last. Numbers are those of messages in the stream's sequence. Times in seconds since the
    epoch, None for never.
    """

    next_hop: str
    remote_queue: str
    link: str
    next_attempt: float | None = None
    history: list[LinkChange] = []
    sequence_id: int = 0
    next_number: int = 1
    unacknowledged: int = 0
    in_flight: int = 0
    in_flight_bytes: int = 0
    last_ack: int = 0
    last_ack_time: float | None = None
    resends: int = 0
    next_resend: float | None = None
    refusals: int = 0
    refusal: Refusal | None = None
    """While the destination refuses."""
    ignored_acks: int = 0


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it stands. Sizes in bytes; a quota of None is no limit."""

    name: str
    kind: QueueKind
    transactional: bool
    message_count: int = 0
    byte_count: int = 0
    journal_count: int = 0
    journal_bytes: int = 0
    copies_skipped: int = 0
    """Copies that a quota had no room for since the manager started, of what its journal should
    keep, or of a journal or dead-letter queue itself."""
    quota: int | None = None
    journal_quota: int | None = None
    state: str = "active"
    label: str = ""
    digest: str | None = None
    """Which digest the queue chose for large messages and files; None is the default."""
    express_count: int = 0
    """How many of its messages are express: gone after a restart."""
    express_bytes: int = 0
    delivery: DeliveryInfo | None = None
    """Of an outgoing queue that was asked about by itself, or whose destination refuses."""
    born: int = 0
    """Its birth number: a queue of the same name that is made later has a higher one."""


class PeerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The queue manager that is known at an address; `since` in seconds since the epoch.

    `state` is "known", or "need-validation" while another queue manager answers there, whose id is
    `found`. `caller` is empty until callers are authenticated.
    """

    address: str
    manager_id: str
    caller: str = ""
    since: float
    state: str = "known"
    found: str = ""


class ManagerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue manager as it stands. Sizes in bytes, uptime in seconds."""

    id: ManagerId
    name: str
    version: str
    quota: int | None
    bytes_used: int
    journal_quota: int | None
    journal_bytes_used: int
    outgoing_queues: list[QueueInfo] = []
    uptime: float = 0.0
    syncs: int = 0
    groups: int = 0
    heap_files: int = 0
    checkpoints: int = 0
    pid: int = 0
    express_memory: int = 0
    """How many bytes of express messages stay in memory before they are written to r files."""
    express_in_memory: int = 0
    disk_free: int = 0
    """What messages find free on the disk of the data directory: with heap files that can be
    written again, without what was promised to large messages that have begun."""
    low_water: int = 0
    """How much of that they must leave."""
