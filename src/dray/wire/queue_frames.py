"""Frames about queues and the manager itself (codes 10 to 22)."""

from __future__ import annotations

from dray.model.queue import ManagerInfo, PeerInfo, QueueInfo, QueueOptions
from dray.wire.head import Head


class CreateQueue(Head, frozen=True):
    """Answered by QueueState."""

    code = 10
    name: str
    options: QueueOptions
    exist_ok: bool = False


class OpenQueue(Head, frozen=True):
    """Resolve a name to a number. A remote name makes its outgoing queue. Answered by Opened.

    With `for_status` a missing status queue is made, unless the manager is configured otherwise.
    """

    code = 11
    name: str
    for_status: bool = False


class Opened(Head, frozen=True):
    """A queue by number; numbers are never used again."""

    code = 12
    number: int
    name: str
    kind: str
    transactional: bool
    digest: str | None = None


class DescribeQueue(Head, frozen=True):
    """Answered by QueueState."""

    code = 13
    name: str


class QueueState(Head, frozen=True):
    """One queue as it stands."""

    code = 14
    info: QueueInfo


class ListQueues(Head, frozen=True):
    """Answered by QueueList, a page of it; `after` is the `next` of the page before, 0 at first."""

    code = 15
    after: int = 0


class QueueList(Head, frozen=True):
    """The queues that the caller may see, a page of them; `next` is 0 in the last page."""

    code = 16
    pages = True
    queues: list[QueueInfo]
    next: int = 0


class DeleteQueue(Head, frozen=True):
    """Answered by Done. `born` is the birth number of the queue that is meant; 0 means any."""

    code = 17
    name: str
    born: int = 0


class PurgeQueue(Head, frozen=True):
    """Answered by Done with the number of messages removed.

    With `message_id` only that message goes: the one at position `first`, or the parts of a large
    message that stand there and behind. `born` is that of `DeleteQueue`. With `before`, the
    messages at that position and behind it stay; 0 is no limit.
    """

    code = 18
    queue: int
    message_id: str = ""
    first: int = 0
    born: int = 0
    before: int = 0


class Describe(Head, frozen=True):
    """Answered by ManagerState."""

    code = 19


class ManagerState(Head, frozen=True):
    """The manager as it stands."""

    code = 20
    info: ManagerInfo


class PauseQueue(Head, frozen=True):
    """Stop the delivery of an outgoing queue, or let it go on. Answered by Done."""

    code = 21
    name: str
    paused: bool


class SetQuota(Head, frozen=True):
    """Set quotas of a queue or, with an empty name, of the manager. Answered by Done.

    In bytes; None is no limit, and `KEPT` leaves one as it is.
    """

    KEPT = -1
    code = 22
    name: str
    quota: int | None
    journal_quota: int | None


class ListPeers(Head, frozen=True):
    """Answered by PeerList."""

    code = 27


class PeerList(Head, frozen=True):
    """The managers that are known at addresses."""

    code = 28
    pages = True
    peers: list[PeerInfo]


class AcceptPeer(Head, frozen=True):
    """Deliver to another manager at an address; without an id, to the one that answered there.

    With the id of a manager as the address, take its streams from the caller that came last.
    Answered by Done.
    """

    code = 29
    address: str
    manager_id: str = ""


class ForgetPeer(Head, frozen=True):
    """Deliver to whichever manager answers at an address next. Answered by Done.

    With the id of a manager as the address, take its streams from whichever caller comes next.
    """

    code = 47
    address: str


class ResolveOutgoing(Head, frozen=True):
    """Deliver what a diverged outgoing queue holds, or make it dead letters (`discard`).

    Answered by Done with the number of messages that the queue held.
    """

    code = 48
    name: str
    discard: bool
