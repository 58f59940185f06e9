"""Queues by name and number, and what one queue is made of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from dray.delivery.outgoing import OutgoingStream
from dray.errors import AccessDenied, QueueExists, QueueNotFound
from dray.large.join import LargeParts
from dray.manager.entries import (
    Entry,
    SentAhead,
    entries_in,
    express_in,
    is_express_entry,
    lengths_in,
    lookup_id_of,
    part_count_in,
    part_of,
    positions_in,
    unpack,
)
from dray.manager.events import Peer
from dray.manager.queue.accounts import account_of
from dray.manager.queue.queue_index import QueueIndex
from dray.manager.queue.truncated_transactions import TruncatedTransactions
from dray.manager.session import WaitingReceives
from dray.model.classes import Part, QueueKind
from dray.model.limits import (
    AHEAD_WEIGHT_BYTES,
    DELETED_QUEUES_REMEMBERED,
    LISTED_QUEUES_MAX,
)
from dray.model.names import queue_key
from dray.model.queue import QueueInfo, QueueOptions


class Route(NamedTuple):
    """The destination of an outgoing queue."""

    peer: Peer
    remote_queue: str


class StoredQueue:
    """One queue. Everything durable about it is changed by facts only (`state.py`)."""

    def __init__(self, number: int, name: str, kind: QueueKind, options: QueueOptions) -> None:
        self.number = number
        self.name = name
        self.kind = kind
        self.accepts_sends = kind in (QueueKind.PRIVATE, QueueKind.OUTGOING)
        """Whether programs and other queue managers may send to it."""
        self.options = options
        self.index = QueueIndex()
        self.next_lookup_id = 1
        self.born = 0
        """Its birth number: no other queue of this manager ever has the same."""
        self.gone_upto = self.gone_header_upto = 0
        """The last position that a message has left, and that a large message has left."""
        self.paused = False
        self.route: Route | None = None
        self.stream: OutgoingStream | None = None
        self.parent: StoredQueue | None = None
        """For a journal or a sub-queue: its queue."""
        self.sub_queues: list[StoredQueue] = []
        self.journal: StoredQueue | None = None
        self.purge_pending: set[int] = set()
        """Held entries that were purged: gone unless the transaction that holds them commits."""
        self.truncated_transactions = TruncatedTransactions()
        """For an outgoing queue: transactions whose end its destination has to be told."""
        # From here on volatile: forgotten in a crash, like the transactions it serves.
        self.parts = LargeParts()
        self.waiters = WaitingReceives()
        self.large_senders: set[int] = set()
        """Transactions that send a large message to it and have not ended."""
        self.opened = 0
        """For a sub-queue: how many sessions have opened it."""
        self.staged_bytes = 0
        self.destination_transactional = True
        """For an outgoing queue: the kind of the queue that it leads to, if known."""
        self.ahead: dict[int, SentAhead] = {}
        """For an outgoing queue, by transaction: records that were sent ahead of their commit."""
        self.express_positions = range(0)
        """Reserved for express messages and not taken yet; void once something joins by a fact."""
        self.copies_skipped = 0
        self.staged_dropped = 0
        """Copies that were not put into it, because a quota was used up."""
        self.account = account_of(number)

    @property
    def outgoing(self) -> bool:
        """Whether the queue waits for another manager."""
        return self.route is not None

    @property
    def carried(self) -> bool:
        """Whether anything ever went into it on its way to another manager."""
        return self.stream is not None and self.stream.last > 0

    @property
    def takes_express(self) -> bool:
        """Whether messages may be express in it: in none that is, or leads to, a transactional one.

        Another manager tells the kind of its queue with every order ack; until then nothing is
        risked on a guess.
        """
        if self.route is not None:
            return not self.destination_transactional
        return not self.options.transactional

    @property
    def express_room(self) -> int:
        """The number of positions behind the last message that are reserved for express ones."""
        block = self.express_positions
        return len(block) if block.stop == self.next_lookup_id else 0

    @property
    def journals_receives(self) -> bool:
        """Whether what is received from it is kept in its journal."""
        return self.options.journal and self.journal is not None

    @property
    def keeper(self) -> StoredQueue | None:
        """The journal that keeps what is received from it: for a sub-queue its parent's."""
        owner = self.counted
        return owner.journal if owner.journals_receives else None

    @property
    def counted(self) -> StoredQueue:
        """The queue against whose quota this one's messages count: a sub-queue's is its parent."""
        parent = self.parent
        return parent if parent is not None and self.kind is QueueKind.SUB else self

    @property
    def quota(self) -> int | None:
        """The bytes that it may hold."""
        parent = self.parent
        if parent is not None and self.kind is QueueKind.JOURNAL:
            return parent.options.journal_quota
        return self.options.quota

    @property
    def quota_name(self) -> str:
        """The name of that quota in errors."""
        return "journal" if self.kind is QueueKind.JOURNAL else "queue"

    @property
    def bytes_used(self) -> int:
        """Bytes that count against it."""
        used = self.index.byte_count
        for sub in self.sub_queues:
            used += sub.index.byte_count
        return used

    def refused_send(self) -> AccessDenied:
        """The refusal of a send to a queue that accepts none."""
        how = "only the queue manager itself puts messages there"
        if self.kind is QueueKind.SUB:
            how = "messages only move to a sub-queue; send to its queue, and move them"
        return AccessDenied(f"no program sends to {self.name!r}: {how}")

    def note_gone(self, entries: bytes) -> None:
        """Note that messages have left, by their packed entries; a large one by its header.

        Express messages do not count: no fact says that they left, and a restart loses them.
        """
        lasting = entries
        if express_in(entries):
            lasting = b"".join([e for e in entries_in(entries) if not is_express_entry(e)])
        self.gone_upto = max(self.gone_upto, max(positions_in(lasting), default=0))
        if part_count_in(entries):
            headers = [each for each in entries_in(entries) if part_of(each) == Part.HEADER]
            last = max(map(lookup_id_of, headers), default=0)
            self.gone_header_upto = max(self.gone_header_upto, last)

    def skip_position(self, when_us: int) -> int:
        """Use up a position of an outgoing queue for no message: its stream will pass it over."""
        skipped, self.next_lookup_id = self.next_lookup_id, self.next_lookup_id + 1
        if self.stream is not None:
            self.stream.admitted(skipped, skipped, when_us)
        return skipped

    def info(self) -> QueueInfo:
        """The queue as it stands."""
        journal, skipped = self.journal, self.copies_skipped
        journal_count = journal_bytes = 0
        if journal is not None:
            journal_count, journal_bytes = len(journal.index), journal.index.byte_count
            skipped += journal.copies_skipped
        return QueueInfo(
            name=self.name,
            kind=self.kind,
            transactional=self.options.transactional,
            message_count=len(self.index),
            large_count=len(self.parts),
            byte_count=self.index.byte_count,
            journal_count=journal_count,
            journal_bytes=journal_bytes,
            express_count=self.index.express_count,
            express_bytes=self.index.express_bytes,
            copies_skipped=skipped,
            staged_dropped=self.staged_dropped,
            quota=self.options.quota,
            journal_quota=self.options.journal_quota,
            state=self._state(),
            label=self.options.label,
            digest=self.options.digest,
            born=self.born,
            last_position=self.next_lookup_id - 1 - self.express_room,
            next_position=self.next_lookup_id,
            oldest_time=self.index.oldest_time(),
            unreadable_count=self.index.aside_count,
        )

    def _state(self) -> str:
        return "active" if self.stream is None else str(self.stream.condition)


class IndexBacklog:
    """An outgoing queue's index as delivery sees it."""

    def __init__(self, queue: StoredQueue) -> None:
        """Look at the index of a queue, and at what of it was sent ahead."""
        self._index = queue.index
        self._ahead = queue.ahead

    def after(self, lookup_id: int) -> Iterator[tuple[int, int]]:
        """Position and record length of all messages above a position, in order.

        A message whose record was sent ahead counts with little more than its envelope.
        """
        for run in self._index.runs_after(lookup_id):
            if not self._ahead:
                yield from zip(positions_in(run), lengths_in(run), strict=True)
                continue
            for packed in entries_in(run):
                entry = unpack(packed)
                is_ahead = is_sent_ahead(self._ahead, entry)
                yield entry.lookup_id, AHEAD_WEIGHT_BYTES if is_ahead else entry.length


def is_sent_ahead(ahead: Mapping[int, SentAhead], entry: Entry) -> bool:
    """Whether the record of a message of an outgoing queue is at its destination."""
    pieces = ahead.get(entry.transaction) if not entry.route else None
    return pieces is not None and entry.ordinal in pieces.there


def taken_from_ahead(queue: StoredQueue, transaction: int, ordinal: int) -> None:
    """A message that names a piece is sent; if it has to be sent again, its record goes with it."""
    pieces = queue.ahead[transaction]
    pieces.there.discard(ordinal)
    if pieces.is_done:
        del queue.ahead[transaction]


class QueueTable:
    """All queues of a manager."""

    def __init__(self) -> None:
        self._by_number: dict[int, StoredQueue] = {}
        self.get: Callable[[int], StoredQueue | None] = self._by_number.get
        """The queue of a number, if it is still there."""
        self._by_key: dict[str, StoredQueue] = {}
        self._outgoing: dict[int, StoredQueue] = {}
        self.made = 0
        """The number of messages that ever entered in this incarnation."""
        self._deleted: dict[int, str] = {}
        """Names of queues that were deleted last."""

    def __iter__(self) -> Iterator[StoredQueue]:
        """All queues in the order of their creation."""
        return iter(self._by_number.values())

    def __len__(self) -> int:
        """The number of queues."""
        return len(self._by_number)

    def page(self, after: int) -> tuple[list[StoredQueue], int]:
        """Queues with numbers above one, and the number to continue after; 0 at the end."""
        numbers = sorted(self._by_number)
        begin = bisect_right(numbers, after)
        chosen = numbers[begin : begin + LISTED_QUEUES_MAX]
        following = chosen[-1] if begin + len(chosen) < len(numbers) else 0
        return [self._by_number[each] for each in chosen], following

    def add(self, queue: StoredQueue) -> None:
        """Enter a queue; numbers and names are unique."""
        key = queue_key(queue.name)
        if key in self._by_key:
            raise QueueExists(f"there is already a queue {queue.name!r}", queue=queue.name)
        self._by_key[key] = self._by_number[queue.number] = queue
        self.made += 1
        if queue.outgoing:
            self._outgoing[queue.number] = queue

    def discard(self, number: int) -> StoredQueue | None:
        """Take a queue out."""
        queue = self._by_number.pop(number, None)
        if queue is not None:
            del self._by_key[queue_key(queue.name)]
            self._outgoing.pop(number, None)
            self._deleted[number] = queue.name
            if len(self._deleted) > DELETED_QUEUES_REMEMBERED:
                del self._deleted[next(iter(self._deleted))]
        return queue

    def deleted_name(self, number: int) -> str:
        """The name of a queue that was deleted, empty if it is not known any more."""
        return self._deleted.get(number, "")

    def outgoing(self) -> list[StoredQueue]:
        """The queues whose messages go to other managers."""
        return list(self._outgoing.values())

    def numbered(self, number: int) -> StoredQueue:
        """The queue of a number; raises `QueueNotFound` if it was deleted."""
        queue = self._by_number.get(number)
        if queue is None:
            raise QueueNotFound("the queue has been deleted; open it again by name", queue="")
        return queue

    def is_drained(self, number: int) -> bool:
        """Whether a queue holds nothing, and nobody is still to tell what became of its messages.

        Express messages do not count: no fact names them.
        """
        queue = self.get(number)
        if queue is None or queue.outgoing:
            return False
        family = (queue, *queue.sub_queues)
        return all(len(each.index) == each.index.express_count for each in family)

    def find(self, name: str) -> StoredQueue | None:
        """The queue of a canonical name."""
        return self._by_key.get(queue_key(name))

    def named(self, name: str) -> StoredQueue:
        """The queue of a canonical name; raises `QueueNotFound`."""
        queue = self.find(name)
        if queue is None:
            hint = "connect to its own" if "://" in name else "create it first"
            raise QueueNotFound(
                f"there is no queue {name!r} on this queue manager; {hint}", queue=name
            )
        return queue
