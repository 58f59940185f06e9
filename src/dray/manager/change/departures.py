"""Consequences of messages leaving a queue: journals, dead letters, acknowledgments.

A caller that takes messages out of queues (a commit, an expiry, a purge) tells this module why, by
a message class; the module says what else the same fact must do:

    why (class)          the queue's journal   sent from here                sent from elsewhere
    received             keeps it, if it has   computer journal, if asked    confirmed
    anything negative    -                     dead letter (`ends.py`)       confirmed

A manager that forwards keeps what the next one refuses among its own dead letters, unless the
sender said yes (then its source has it still) or no. And an acknowledgment message goes to the
administration queue if the sender asked for one of that kind: sent from here it is made here, else
the confirmation carries the wish to the source (S2-8, S2-9, semantics 1.6 to 1.9, 2.6).

A message changes queues by moving its entry: its record may stay where it is, so that neither a
journal nor a dead-letter queue needs room. Where there is some, small ones are written to a journal
file at once, others in quiet moments (`compaction.py`). Only where both journals want it, its bytes
are there twice, and those of an express message are written where they last. A copy that a quota
has no room for is skipped and counted; what happened is not undone by it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from dray.errors import StoreCorrupt, StoreFull
from dray.large.split import label_of_whole
from dray.manager.change.acknowledgments import wanted_by
from dray.manager.change.ends import KEPT_THERE, is_kept, is_refusal, note_ends, warn_of_end
from dray.manager.change.express import lasting
from dray.manager.context import Context
from dray.manager.entries import (
    TAIL_BYTES,
    Entry,
    Wish,
    any_asks_in,
    copies_of,
    entries_in,
    extent_of,
    is_express,
    lookup_id_of,
    route_of,
    routes_in,
    tail_of,
    unpack,
    with_class,
    with_expiry,
    with_route,
    without_dead_letter,
)
from dray.manager.facts import Confirmation
from dray.manager.notices import NoticeKind
from dray.manager.queue import (
    COMPUTER_JOURNAL,
    DEAD_LETTERS,
    DEAD_TRANSACTIONAL,
    ArrivalRoute,
    StoredQueue,
    watch_arrivals,
)
from dray.model.classes import Acknowledge, MessageClass, Part, QueueKind
from dray.model.ids import ManagerId, join_id
from dray.store.kinds import Kind, kind_of
from dray.store.store import Store
from dray.wire.message_frames import MARK_SINGLE
from dray.wire.record import (
    COPY_DEAD_LETTER,
    COPY_JOURNAL,
    HEADER_BYTES,
    Properties,
    RecordHeader,
    read_header,
    read_properties,
)

RECEIVED = MessageClass.ACK_RECEIVE
_KEPT = COPY_DEAD_LETTER | COPY_JOURNAL
KEEPERS = (QueueKind.SYSTEM, QueueKind.JOURNAL)
"""Messages in these queues have already ended: taking them out tells no sender again."""


_NO_ROOM = (
    "a dead letter was lost, because the journal quota of this queue manager or the quota of this"
    " queue is full; retry or drop dead letters, or raise the quota"
)
REWRITTEN_BYTES_MAX = 64 << 10
"""So much of what one fact has to keep is written to journal files in its own turn: some dozens
of small messages, read from the page cache. Larger copies are moved there in quiet moments."""


class _Subject(NamedTuple):
    """The message of an acknowledgment, as its sender knows it."""

    message_id: str
    label: str


def may_follow(queue: StoredQueue, found: bytes, message_class: int) -> bool:
    """Whether a copy, an acknowledgment or a count may follow when packed entries leave a queue."""
    received = message_class == RECEIVED and queue.keeper is None
    return not received or any_asks_in(found)


class Departures:
    """Gathers what one fact has to do besides taking messages out of their queues."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._joining: dict[int, _Joining] = {}
        self._rewritten_bytes = 0
        self._confirmations: dict[tuple[str, int], list[Confirmation]] = {}
        self._ended: Counter[tuple[StoredQueue, int, int]] = Counter()
        """Messages of which their senders asked nothing, by queue, route and class."""
        self.wishes: list[Wish] = []

    def leave_all(self, queue: StoredQueue, found: bytes, message_class: int) -> None:
        """Messages leave `queue` for good, because of `message_class`; by their packed entries."""
        keeper = queue.keeper if message_class == RECEIVED else None
        refused = queue.outgoing and is_refusal(message_class)
        is_told = message_class != RECEIVED and queue.kind not in KEEPERS
        if refused or keeper is not None or any_asks_in(found):
            for packed in entries_in(found):
                if refused:
                    self._tell_of_refusal(queue, packed, message_class)
                elif keeper is not None or copies_of(packed):
                    self._leave(queue, packed, message_class, keeper)
                elif is_told:
                    self._ended[queue, route_of(tail_of(packed)), message_class] += 1
        elif is_told:
            for route, count in Counter(routes_in(found)).items():
                self._ended[queue, route, message_class] += count

    def _leave(
        self, queue: StoredQueue, packed: bytes, message_class: int, keeper: StoredQueue | None
    ) -> None:
        """One of them does, of which a copy or an acknowledgment follows."""
        # No time runs where it is kept.
        tail = with_expiry(tail_of(packed), 0)
        kept = keeper is not None and self._join(keeper, tail)
        if copies_of(packed) and queue.kind not in KEEPERS:
            self._tell(queue, unpack(packed), tail, message_class, kept=kept)

    def confirmed(self, packed: bytes | None, message_class: int) -> bool:
        """A message of this manager's leaves for good, by what its destination tells.

        Says whether it is kept here. None if nothing was kept until now.
        """
        if packed is None:
            return False
        copies, tail = copies_of(packed), with_expiry(with_route(tail_of(packed), 0), 0)
        if message_class == RECEIVED:
            return bool(copies & COPY_JOURNAL) and self.move(COMPUTER_JOURNAL, tail)
        if not copies & COPY_DEAD_LETTER:
            return False
        return self.move(DEAD_TRANSACTIONAL, with_class(tail, message_class))

    def refused(self, packed: bytes, message_class: int) -> bool:
        """A message leaves an outgoing queue, because its destination has refused it.

        Tells whether it is a dead letter here. It is if its sender did not say no; of what was
        forwarded its source keeps what its sender has said yes to.
        """
        entry = unpack(packed)
        header, _ = record_of(self._context.store, entry)
        if not is_kept(header):
            return False
        if entry.route and header.copies & COPY_DEAD_LETTER:
            return False
        tail = with_expiry(with_route(tail_of(packed), 0), 0)
        return self.move(DEAD_TRANSACTIONAL, with_class(tail, message_class))

    def joining(self) -> list[tuple[int, bytes]]:
        """Entries that join other queues, for the fact."""
        return [
            (each.queue.number, b"".join(each.tails))
            for each in self._joining.values()
            if each.tails
        ]

    def confirmations(self) -> list[tuple[str, int, list[Confirmation]]]:
        """Confirmations for the sources of streams, for the fact."""
        return [(*key, told) for key, told in self._confirmations.items()]

    def note_ends(self) -> None:
        """After the fact: note the ends of which no sender is told."""
        for (queue, route, message_class), count in self._ended.items():
            note_ends(self._context, queue, message_class, route=route, count=count)

    def watch(self) -> None:
        """After the fact: let those who watch the queues know what has joined them."""
        for each in self._joining.values():
            self._context.follow_up.touch(each.queue)
            watch_arrivals(self._context.store, each.queue, each.first)

    def move(self, queue_number: int, tail: bytes) -> bool:
        """Let a message join a system queue; tells whether its quota had room."""
        queue = self._context.state.queues.numbered(queue_number)
        joined = self._join(queue, tail)
        if not joined and queue_number != COMPUTER_JOURNAL:
            self._context.notices.add(NoticeKind.DEAD_LETTER_LOST, queue.name, _NO_ROOM)
        return joined

    def _tell_of_refusal(self, queue: StoredQueue, packed: bytes, message_class: int) -> None:
        """The destination of an outgoing queue takes none of its messages."""
        entry = unpack(packed)
        kept = self.refused(packed, message_class)
        header, properties = record_of(self._context.store, entry)
        route = self._context.state.arrival_routes.numbered(entry.route)
        told = message_class | KEPT_THERE if kept and route is not None else message_class
        self.tell(header, properties, told, route=route, kind=kind_of(entry.file))
        kept_in = DEAD_TRANSACTIONAL if kept else 0
        warn_of_end(self._context, queue.name, message_class, kept_in=kept_in)

    def _tell(
        self, queue: StoredQueue, entry: Entry, tail: bytes, message_class: int, *, kept: bool
    ) -> None:
        header, properties = record_of(self._context.store, entry)
        route = self._context.state.arrival_routes.numbered(entry.route)
        kept_here = (
            entry.route
            and message_class != RECEIVED
            and entry.copies & COPY_DEAD_LETTER
            and not queue.options.transactional
        )
        told = message_class | KEPT_THERE if kept_here else message_class
        is_told = self.tell(header, properties, told, route=route, kind=kind_of(entry.file))
        if entry.route and message_class != RECEIVED and not is_told:
            self._ended[queue, entry.route, message_class] += 1
        if not entry.route:
            kept_in = 0
            if message_class == RECEIVED and entry.copies & COPY_JOURNAL:
                self._join(self._context.state.queues.numbered(COMPUTER_JOURNAL), tail, copy=kept)
            elif message_class != RECEIVED and entry.copies & COPY_DEAD_LETTER:
                dead = DEAD_TRANSACTIONAL if queue.options.transactional else DEAD_LETTERS
                kept_in = dead if self.move(dead, with_class(tail, message_class)) else 0
            warn_of_end(self._context, queue.name, message_class, kept_in=kept_in)
        elif kept_here:
            # Not transactional: it stays where it could not be delivered (semantics 1.8).
            self.move(DEAD_LETTERS, with_class(tail, message_class))

    def tell(
        self,
        header: RecordHeader,
        properties: Properties,
        message_class: int,
        *,
        route: ArrivalRoute | None,
        final: bool = True,
        kind: Kind = Kind.RECOVERABLE,
    ) -> bool:
        """Note the acknowledgment message asked for, and what the source has to know.

        `route` is None for a message that was sent here; `final` says that it has left for good.
        Says whether the source is told.
        """
        administration_queue = properties.administration_queue or ""
        if not wanted_by(Acknowledge(header.acknowledge), message_class):
            administration_queue = ""
        if route is None:
            if administration_queue:
                subject = _subject(header, properties)
                self.wishes.append(Wish(administration_queue, message_class, *subject, kind))
            return False
        told = header.copies & _KEPT or is_refusal(message_class)
        is_told = bool(administration_queue or (final and told))
        if is_told:
            word = Confirmation(
                header.number,
                message_class,
                administration_queue,
                _subject(header, properties).label,
                route.told_origin,
                sequence=header.sequence,
            )
            self.pass_on(route, word)
        return is_told

    def pass_on(self, route: ArrivalRoute, told: Confirmation) -> None:
        """Tell the source of a route."""
        self._confirmations.setdefault((route.source, route.stream), []).append(told)

    def _join(self, queue: StoredQueue, tail: bytes, *, copy: bool = False) -> bool:
        joining = self._joining.get(queue.number)
        if joining is None:
            joining = self._joining[queue.number] = _Joining(queue)
        length = extent_of(tail).length
        # A queue's own journal is in the same account as the queue: there a move needs no room.
        moving = 0 if queue.parent is not None else joining.bytes + length
        ledger = self._context.state.ledger
        if not (
            ledger.has_account_room(queue, moving)
            and ledger.has_own_room(queue, joining.bytes + length)
        ):
            queue.copies_skipped += 1
            return False
        if copy or is_express(tail):
            # The copy is all there is of an express message: it is written where copies belong.
            kind = Kind.JOURNAL if is_express(tail) else Kind.RECOVERABLE
            try:
                tail = lasting(self._context.store, tail, kind)
            except (StoreFull, StoreCorrupt):
                queue.copies_skipped += 1
                return False
        elif self._is_rewritten(tail):
            # It could just as well stay in its place, until there is time or room.
            with suppress(StoreFull, StoreCorrupt):
                tail = lasting(self._context.store, tail, Kind.JOURNAL)
                self._rewritten_bytes += length
        joining.tails.append(tail)
        joining.bytes += length
        return True

    def _is_rewritten(self, tail: bytes) -> bool:
        """Whether a kept message goes to a journal file now, and not in a quiet moment."""
        extent = extent_of(tail)
        size = self._rewritten_bytes + extent.length
        return (
            size <= REWRITTEN_BYTES_MAX
            and kind_of(extent.file) is Kind.RECOVERABLE
            and self._context.room.has(size)
        )


class _Joining:
    """Entries about to join one queue, and the position of the first."""

    def __init__(self, queue: StoredQueue) -> None:
        self.queue = queue
        self.first = queue.next_lookup_id
        self.tails: list[bytes] = []
        self.bytes = 0


def arrival_wish(
    header: RecordHeader, properties: Properties, kind: Kind = Kind.RECOVERABLE
) -> Wish | None:
    """The acknowledgment for the arrival of a message in a queue of its own manager."""
    arrived = MessageClass.ACK_REACH_QUEUE
    queue = properties.administration_queue
    if queue is None or not wanted_by(Acknowledge(header.acknowledge), arrived):
        return None
    return Wish(queue, arrived, *_subject(header, properties), kind)


def _subject(header: RecordHeader, properties: Properties) -> _Subject:
    """The id and label that the sender knows; for a part those of the large message."""
    label, number = properties.label, header.sequence or header.number
    if header.part in {Part.FRAGMENT, Part.TRAILER}:
        label = label_of_whole(label)
    return _Subject(join_id(ManagerId(header.source.hex()), number), label)


def record_of(store: Store, entry: Entry) -> tuple[RecordHeader, Properties]:
    """Read what a message says of itself, without its body."""
    header = read_header(store.read(entry.extent, length=HEADER_BYTES))
    record = store.read(entry.extent, length=HEADER_BYTES + header.properties_bytes)
    return header, read_properties(record, header)


def entries_at(queue: StoredQueue, lookup_ids: list[int]) -> list[bytes]:
    """The entries at positions of a queue, held or available; what is gone is left out."""
    return queue.index.at(lookup_ids)


def delivered_tails(context: Context, queue: StoredQueue, upto: int) -> tuple[int, bytes]:
    """Delivered messages of an outgoing queue that wait for their confirmation, as tails.

    And up to which position that is: one fact may not be able to tell of all.

    A message sent outside transactions to a non-transactional queue has its dead letter there
    (semantics 1.8), so it waits only if a journal wants it.
    """
    going = queue.index.between(0, upto)
    if not any_asks_in(going):
        return upto, b""
    waiting: list[bytes] = []
    most = context.room.portion_bytes // TAIL_BYTES
    reached = 0
    for packed in entries_in(going):
        if len(waiting) == most:
            return reached, b"".join(waiting)
        reached = lookup_id_of(packed)
        entry, tail = unpack(packed), with_route(tail_of(packed), queue.number)
        kept = entry.copies & _KEPT
        if not queue.destination_transactional and entry.marks & MARK_SINGLE:
            kept, tail = entry.copies & COPY_JOURNAL, without_dead_letter(tail)
        if kept and not entry.route:
            ends_us = _ends_us(context, entry) if entry.expires_us else 0
            if is_express(tail):
                try:
                    tail = lasting(context.store, tail, Kind.RECOVERABLE)
                except (StoreFull, StoreCorrupt) as error:
                    sentence = (
                        "a delivered express message could not be kept until its destination"
                        f" confirms it, so it cannot become a dead letter: {error}"
                    )
                    context.notices.add(NoticeKind.NOT_KEPT, queue.name, sentence)
                    continue
            waiting.append(with_expiry(tail, ends_us))
    return upto, b"".join(waiting)


def _ends_us(context: Context, entry: Entry) -> int:
    """When a message, wherever it is, can no longer be received; 0 is never."""
    _, properties = record_of(context.store, entry)
    if properties.time_to_be_received is None:
        return 0
    return entry.sent_us + int(properties.time_to_be_received * 1_000_000)
