"""The one fact of everything that happens at once: what joins queues, what leaves, who is told.

Commits, expiries, purges and confirmations all come down to this: some messages join queues, some
leave them, and the departures (`departures.py`) add what follows from that. The fact is recorded
whole; then those who watch the queues are told.

Most facts are one message that joins, or one that leaves and whose sender asked for nothing. A part
that such a fact does not have is not built:

    built only                       if
    departures, and what they join   a copy, an acknowledgment or a confirmation follows
    entries that are told apart      something leaves; by kind, if the queue holds express messages
    messages that change queues      something moves
    express messages                 some join, move or leave
"""

from __future__ import annotations

from dray.delivery.incoming import StreamKey
from dray.errors import StoreFull
from dray.manager.change.acknowledgments import addressed, place
from dray.manager.change.departures import RECEIVED, Departures, entries_at, may_follow
from dray.manager.change.express import admit_express
from dray.manager.context import Context
from dray.manager.entries import (
    Staged,
    extent_of,
    is_express,
    is_express_entry,
    lookup_id_of,
    moved_tail,
    packed_tails,
    tail_of,
    unpack,
)
from dray.manager.facts import Committed, pack_lookups
from dray.manager.notices import NoticeKind
from dray.manager.queue import DEAD_LETTERS, StoredQueue, part_seen, watch_arrivals
from dray.model.classes import Part, QueueKind
from dray.wire.message_frames import MARK_SINGLE


class CommitFact:
    """Gathers one fact."""

    def __init__(self, context: Context, transaction: int = 0) -> None:
        """Begin with nothing; transaction 0 is nobody's."""
        self._context = context
        self._transaction = transaction
        self._departures: Departures | None = None
        self._sends: list[tuple[StoredQueue, list[Staged], bytes]] = []
        self._leaving: list[tuple[StoredQueue, list[int]]] = []
        self._moving: list[tuple[StoredQueue, int, list[bytes]]] = []
        # The fact has nothing of express messages.
        self._express_sends: list[tuple[StoredQueue, list[Staged], bytes]] = []
        self._express_moving: list[tuple[StoredQueue, list[bytes]]] = []

    @property
    def departures(self) -> Departures:
        """Copies and words to senders that follow from messages that leave or join."""
        if self._departures is None:
            self._departures = Departures(self._context)
        return self._departures

    def join(self, queue: StoredQueue, staged: list[Staged], marks: int = 0) -> None:
        """Staged records of one kind join a queue, as one group of the transaction.

        `marks` are for all of them. A queue that is not transactional knows of no groups.
        """
        transaction = self._transaction if queue.options.transactional else 0
        tails = packed_tails(staged, transaction, self._context.now_us, marks)
        if staged and staged[0].express:
            self._express_sends.append((queue, staged, tails))
        else:
            self._sends.append((queue, staged, tails))
        for each in staged:
            if each.wish is not None:
                self.departures.wishes.append(each.wish)

    def join_own(self, queue: StoredQueue, staged: Staged) -> None:
        """A message of the manager's own joins a queue, as a transaction by itself."""
        context = self._context
        context.state.ledger.stage(queue, staged.extent.length)
        in_group = queue.options.transactional and not staged.express
        transaction = staged.number if in_group else 0
        # The queue may lead to one of another manager, of either kind.
        marks = MARK_SINGLE if queue.options.transactional else 0
        tails = packed_tails([staged], transaction, context.now_us, marks)
        sends = self._express_sends if staged.express else self._sends
        sends.append((queue, [staged], tails))

    def leave(self, queue: StoredQueue, lookup_ids: list[int], why: int = RECEIVED) -> None:
        """Messages leave a queue for good, because of a message class."""
        found = queue.index.packed_at(lookup_ids)
        if may_follow(queue, found, why):
            self.departures.leave_all(queue, found, why)
        self._leaving.append((queue, lookup_ids))

    def drop(self, queue: StoredQueue, lookup_ids: list[int]) -> None:
        """Messages leave an internal queue, and nothing follows from it."""
        self._leaving.append((queue, lookup_ids))

    def move(self, queue: StoredQueue, lookup_ids: list[int], target: StoredQueue) -> None:
        """Messages change to another queue as they are."""
        tails = [moved_tail(tail_of(packed)) for packed in entries_at(queue, lookup_ids)]
        self.move_as(queue, lookup_ids, target, tails)

    def move_as(
        self, queue: StoredQueue, lookup_ids: list[int], target: StoredQueue, tails: list[bytes]
    ) -> None:
        """Messages change to another queue, with other tails."""
        self._leaving.append((queue, lookup_ids))
        lasting = [tail for tail in tails if not is_express(tail)]
        self._moving.append((target, target.next_lookup_id, lasting))
        self._express_moving.append((target, [tail for tail in tails if is_express(tail)]))

    def join_again(self, queue: StoredQueue, tails: list[bytes]) -> None:
        """Messages that were kept somewhere join a queue with the records that they have."""
        self._moving.append((queue, queue.next_lookup_id, tails))

    def record(self, heard: tuple[int, int] = (0, 0), receipt: bytes = b"") -> None:
        """Make it true."""
        context = self._context
        departures = self._departures
        if departures is not None:
            self._acknowledge(departures)
        leaving, vanishing = self._parted() if self._leaving else ([], [])
        moving = self._moved() if self._moving else []
        sends, firsts = [], []
        for queue, _, tails in self._sends:
            sends.append((queue.number, tails))
            firsts.append(queue.next_lookup_id)
        fact = Committed(
            self._transaction,
            context.now_us,
            sends,
            [(queue.number, pack_lookups(each)) for queue, each in leaving] if leaving else [],
            moving if departures is None else [*departures.joining(), *moving],
            [] if departures is None else departures.confirmations(),
            heard,
            receipt,
        )
        if self._transaction or self._says_something(fact):
            context.record(fact)
        for source, stream, _ in fact.confirmations:
            context.follow_up.to_tell[StreamKey(source, stream)] = None
        for queue, _ in self._leaving:
            if queue.kind is QueueKind.SUB:
                context.follow_up.perhaps_unused[queue.number] = None
            # Streams pass over what left, and who waits for a whole transaction may have it now.
            if queue.stream is not None or queue.waiters:
                context.follow_up.touch(queue)
        for (queue, staged, _), first in zip(self._sends, firsts, strict=True):
            self._watch(queue, staged, first)
        for target, first, _ in self._moving:
            context.follow_up.touch(target)
            watch_arrivals(context.store, target, first)
        if departures is not None:
            departures.watch()
            departures.note_ends()
        if vanishing or self._express_moving or self._express_sends:
            self._pass(vanishing)

    def _moved(self) -> list[tuple[int, bytes]]:
        """Messages that last and change queues, by the queue that they join."""
        return [(target.number, b"".join(tails)) for target, _, tails in self._moving if tails]

    def _parted(
        self,
    ) -> tuple[list[tuple[StoredQueue, list[int]]], list[tuple[StoredQueue, list[int]]]]:
        """Entries that leave by the fact, and entries that leave without being in any."""
        by_fact, by_none = [], []
        for queue, lookup_ids in self._leaving:
            express: list[int] = []
            if queue.index.express_count:
                found = filter(is_express_entry, entries_at(queue, lookup_ids))
                express = [lookup_id_of(packed) for packed in found]
                by_none.append((queue, express))
            gone = frozenset(express)
            rest = [each for each in lookup_ids if each not in gone] if gone else lookup_ids
            if rest:
                by_fact.append((queue, rest))
        return by_fact, by_none

    def _says_something(self, fact: Committed) -> bool:
        """Whether anything of it has to last; express messages alone are no reason for a fact."""
        happened = fact.sends or fact.receives or fact.moved or fact.confirmations
        return bool(fact.transaction or happened or fact.heard != (0, 0))

    def _pass(self, vanishing: list[tuple[StoredQueue, list[int]]]) -> None:
        """Let express messages leave, change queues and join."""
        context = self._context
        kept = frozenset(extent_of(tail) for _, tails in self._express_moving for tail in tails)
        for queue, lookup_ids in vanishing:
            context.state.drop_express(queue, lookup_ids, kept)
        for target, tails in self._express_moving:
            if tails:
                admit_express(context, target, b"".join(tails))
        for queue, staged, packed in self._express_sends:
            context.state.ledger.stage(queue, -sum(each.extent.length for each in staged))
            admit_express(context, queue, packed)

    def _acknowledge(self, departures: Departures) -> None:
        """Turn wishes into acknowledgment messages of this fact."""
        context = self._context
        for queue, wish in addressed(context, departures.wishes):
            try:
                extent, crc, number = place(context, queue, wish)
            except StoreFull as error:
                sentence = f"an acknowledgment message was not made: {error}"
                context.notices.add(NoticeKind.ACKNOWLEDGMENT_LOST, queue.name, sentence)
                continue
            staged = Staged(
                extent, crc, number, Part.PLAIN, 0, context.now_us, message_class=wish.message_class
            )
            self.join_own(queue, staged)

    def _watch(self, queue: StoredQueue, staged: list[Staged], first: int) -> None:
        context = self._context
        placed = 0
        for each in staged:
            placed += each.extent.length
        context.state.ledger.stage(queue, -placed)
        context.follow_up.touch(queue)
        if not queue.index.part_count or queue.outgoing:
            return
        for lookup_id, each in enumerate(staged, first):
            if each.seen is not None:
                transaction = self._transaction
                queue.parts.added(each.seen._replace(lookup_id=lookup_id, transaction=transaction))
        queue.parts.source_went_on(0, self._transaction, ended=True)


def bury(context: Context, tails: list[bytes]) -> None:
    """Let messages that never were in a queue join the dead letters, in a fact of their own.

    Their records are in journal files already. Dead letters for which the quota has no room are
    dropped (semantics 1.8).
    """
    fact = CommitFact(context)
    for tail in tails:
        if not fact.departures.move(DEAD_LETTERS, tail):
            context.store.discard(extent_of(tail))
    fact.record()


def forget_parts(
    context: Context, queue: StoredQueue, lookup_ids: list[int], *, held: int = 0
) -> None:
    """Tell the large messages of a queue that single parts leave it, while they can be read.

    `held` is how often each was counted as held by a reader of single parts.
    """
    if not queue.index.part_count:
        return
    for packed in entries_at(queue, lookup_ids):
        entry = unpack(packed)
        if entry.part == Part.PLAIN:
            continue
        seen = part_seen(context.store, entry)
        assembly = queue.parts.get(seen.key)
        if assembly is not None:
            assembly.held -= held
        queue.parts.removed(seen)
    # The rest of those may be a hole by now, and a receiver may wait for it.
    context.follow_up.touch(queue)
