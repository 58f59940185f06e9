"""Properties of queues and managers: the values of `queues()` and `info()`."""

from __future__ import annotations

import msgspec

from dray.model.classes import QueueKind
from dray.model.ids import ManagerId, TransactionId


class QueueOptions(msgspec.Struct, frozen=True, array_like=True):
    """Options with which a queue was created. `transactional` never changes later."""

    transactional: bool = True
    quota: int | None = None
    journal: bool = False
    journal_quota: int | None = None
    label: str = ""
    digest: str | None = None
    """Digest of large messages and files whose sender names none; None is the default."""


class LinkChange(msgspec.Struct, frozen=True):
    """A change of the connection to the next manager; equal changes in a row are counted.

    Times of the first and the last of them in seconds since the epoch.
    """

    state: str
    reason: str
    since: float
    until: float
    times: int = 1


class Refusal(msgspec.Struct, frozen=True):
    """Why a destination refuses messages, and since when.

    `code` is the code of the error, such as "queue-not-found" or "quota-exceeded". `count` is the
    number of messages refused since `since` (seconds since the epoch).
    """

    code: str
    sentence: str
    since: float
    count: int = 0


class DeliveryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """State of the delivery of an outgoing queue since this manager started.

    `link` is "disconnected", "dialling", "connected" or "welcomed"; `history` has its last changes,
    the latest last. Message numbers are those in the sequence of the stream: they and the sequence
    id are 0 for a caller without the right `manage` at the queue. Times in seconds since the epoch,
    None for never.
    """

    next_hop: str
    remote_queue: str
    link: str
    routed_now: str = ""
    """The destination in `routes`, if the queue was made with another route, which it keeps."""
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
    silent_since: float | None = None
    """Since when the destination owes an answer; None while it owes none."""


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """State of a queue. Sizes in bytes; a quota of None is no limit."""

    name: str
    kind: QueueKind
    transactional: bool
    message_count: int = 0
    large_count: int = 0
    """Large messages whose parts are among the messages; 0 for an outgoing queue."""
    byte_count: int = 0
    journal_count: int = 0
    journal_bytes: int = 0
    copies_skipped: int = 0
    """Copies that were not kept since the manager started, because a quota had no room: in its
    journal, or in this queue if it is a journal or dead-letter queue."""
    staged_count: int = 0
    """Messages staged for batches of Spark queries; they join the queue when these commit."""
    staged_dropped: int = 0
    """Staged messages dropped by age since the manager started."""
    quota: int | None = None
    journal_quota: int | None = None
    state: str = "active"
    label: str = ""
    digest: str | None = None
    """Digest that the queue chose for large messages and files; None is the default."""
    express_count: int = 0
    """Number of express messages in the queue; a restart loses them."""
    express_bytes: int = 0
    delivery: DeliveryInfo | None = None
    """Set for an outgoing queue that was asked for by name, or that its destination refuses."""
    born: int = 0
    """Birth number; a queue created later under the same name has a higher one."""
    last_position: int = 0
    """The last position that a message took: one more for each message that joined the queue."""
    next_position: int = 0
    """The position of the next message that is not express; `Queue.purge` may spare it."""
    oldest_time: float | None = None
    """When the oldest message arrived, in seconds since the epoch; None for an empty queue."""
    unreadable_count: int = 0
    """Messages that nobody receives, because a start did not find their bytes: a message file is
    missing or was cut off."""


class OpenTransactionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction: who began it, for how many seconds nothing has happened in it.

    `held` has the number of messages that it has taken, by queue; `sent` is how many it sends.
    """

    id: TransactionId
    caller: str
    idle: float
    held: dict[str, int] = {}
    sent: int = 0


class PeerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The queue manager that is known at an address, or one that calls; `since` since the epoch.

    `caller` is the name in its certificate, `cert:NAME`, empty without TLS. `state` is "known", or
    "need-validation" while another queue manager answers there, or the known one with another
    certificate: `found` and `found_caller` are those that answer. If a queue manager
    calls this one, `address` is its id, `caller` the caller that it is bound to, and `found_caller`
    another one that has shown its key.
    """

    address: str
    manager_id: str
    caller: str = ""
    since: float
    state: str = "known"
    found: str = ""
    found_caller: str = ""


class ManagerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """State of a queue manager. Sizes in bytes, uptime in seconds."""

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
    """Bytes of express messages that stay in memory; the oldest beyond it go to r files."""
    express_in_memory: int = 0
    ahead_bytes: int = 0
    """Bytes of large messages that other managers have sent ahead of their commits: in no queue
    yet, but counted against the quotas."""
    disk_free: int = 0
    """Free bytes for messages on the disk of the data directory: with reusable heap files,
    without the room promised to large messages that have begun."""
    low_water: int = 0
    """Bytes of the disk that messages must leave free."""
    now: float = 0.0
    """The queue manager's time, in seconds since the epoch."""
