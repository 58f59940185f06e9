"""Repair: a hole in a large message is filled from what its source has kept.

    destination                                    source
    a receive with `repair` meets a hole
    RepairWanted, behind all confirmations   ->    looks for copies among its dead letters
                                                   moves them back into the outgoing queue (a fact)
    what it can no longer get it gives up   <-     RepairAnswer: what it does not have
    parts arrive by the stream, as any other <-    Data

The parts come by their stream, so exactly once and in order, whatever ends or is lost meanwhile.
Asking is volatile and may be repeated: what was moved is on its way, and a second request finds it
in the outgoing queue. It is repeated on each new connection while a receiver may want it. A source
keeps a part that did not reach its queue if its sender asked for dead letters; where no part that
is here was sent so, nobody is asked. It sends a part again only to the queue that it was sent to:
who knows the sequence id of another queue's message gets nothing by it.

The source reads the record of each part that it looks at, so it looks at some hundreds in one turn
and goes on with the next tick.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from operator import itemgetter
from typing import NamedTuple

from dray.delivery.incoming import StreamKey
from dray.errors import InvalidQueueName, QuotaExceeded
from dray.large.join import Assembly, Missing, SequenceKey
from dray.manager.change import CommitFact, entries_at, forget_parts, known_queue, record_of
from dray.manager.context import Context
from dray.manager.entries import (
    TAIL_BYTES,
    as_group,
    entries_in,
    part_count_in,
    tail_of,
    unpack,
)
from dray.manager.events import LinkSend, Peer
from dray.manager.notices import NoticeKind
from dray.manager.peers import possession
from dray.manager.peers.confirmations import Sources
from dray.manager.queue import DEAD_TRANSACTIONAL, StoredQueue, part_seen
from dray.manager.session import Session
from dray.manager.works import Works
from dray.model.classes import Part
from dray.model.limits import (
    FRAGMENTS_MAX,
    HOLES_NAMED_MAX,
    REPAIR_PARTS_A_TURN,
    REPAIRS_MAX,
    REPAIRS_SHARE,
)
from dray.wire.peer_frames import RepairAnswer, RepairWanted
from dray.wire.record import COPY_DEAD_LETTER, FLAG_NO_DEAD_LETTER

_NOT_KEPT = "its sender did not ask for that (use_dead_letter_queue), so there is no copy of it"
_GONE = "its source was asked and no longer has a copy"
_DELETED = "its source has deleted the outgoing queue from which it came"
_FORWARDED = "it came through another queue manager, which keeps no copies"
_TOO_MANY = "too many others from its source are being repaired already"


class WantedRepair(NamedTuple):
    """A hole that a receiver wants to be filled: whose stream, and which large message."""

    stream: StreamKey
    queue: int
    key: SequenceKey


class Holes:
    """Holes that receivers want to be filled."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.wanted: dict[WantedRepair, int | None] = {}
        """On which session the source of each was asked; None before it was."""

    def may_be_filled(self, queue: StoredQueue, assembly: Assembly, *, again: bool) -> bool:
        """Whether what a large message lacks may still come, because its source was asked for it.

        `again` asks anew. Sent here, it is filled at once or never. A forwarded part cannot be
        asked for: the manager that it came from keeps no copies.
        """
        context = self.context
        if assembly.refused:
            return False
        route = context.state.arrival_routes.numbered(assembly.route)
        if route is None:
            _send_again_here(context, queue, assembly.key, lacking(assembly))
            if not assembly.whole:
                assembly.refused = _NOT_KEPT if not _has_copies(context, queue, assembly) else _GONE
            return False
        wanted = WantedRepair(StreamKey(route.source, route.stream), queue.number, assembly.key)
        known = wanted in self.wanted
        if context.state.outbox.has_ended(wanted.stream):
            assembly.refused = _DELETED
        elif route.told_origin:
            assembly.refused = _FORWARDED
        elif not _has_copies(context, queue, assembly):
            assembly.refused = _NOT_KEPT
        elif not known and self._are_too_many(wanted.stream.source):
            assembly.refused = _TOO_MANY
        if assembly.refused:
            return False
        if again or not known:
            self.wanted[wanted] = None
        return True

    def _are_too_many(self, source: str) -> bool:
        """Whether a source, or all managers of its caller, have as many repairs as they may."""
        share = REPAIRS_MAX // REPAIRS_SHARE
        if len(self.wanted) < share or len(self.wanted) >= REPAIRS_MAX:
            return len(self.wanted) >= share
        own = frozenset(self.context.state.identity.of_same_caller(source))
        return sum(each.stream.source in own for each in self.wanted) >= share

    def ask(self, sources: Sources) -> None:
        """Ask sources for what was not asked for yet, over the connections that they have made."""
        context = self.context
        for wanted, asked_on in list(self.wanted.items()):
            assembly = self._assembly_of(wanted)
            if assembly is None or assembly.whole or assembly.refused:
                del self.wanted[wanted]
                continue
            session = sources.confirmed.get(wanted.stream)
            if session is None or session.number == asked_on:
                continue
            stream = wanted.stream.stream
            outbox = context.state.outbox
            told = max(session.told[stream], outbox.taken_upto(wanted.stream))
            if told < outbox.last(wanted.stream):
                # The source has not heard yet that these parts did not arrive.
                continue
            self.wanted[wanted] = session.number
            head = RepairWanted(stream, wanted.key.sequence, nameable(lacking(assembly)))
            context.answer(session, 0, head)

    def handle_answer(self, session: Session, _request_id: int, head: RepairAnswer) -> None:
        """The source says what it does not have: what is lacking of that is given up."""
        context = self.context
        if not possession.may_speak_of(context, session, head):
            return
        for wanted in list(self.wanted):
            if wanted.stream != StreamKey(session.peer_id, head.stream):
                continue
            assembly = self._assembly_of(wanted)
            if assembly is None or wanted.key.sequence != head.sequence:
                continue
            if _meet(lacking(assembly), head.gone):
                self._give_up(wanted, assembly, _GONE)

    def give_up_those_of(self, stream: StreamKey) -> None:
        """A stream has ended: nothing that is lacking comes by it any more."""
        for wanted in [each for each in self.wanted if each.stream == stream]:
            assembly = self._assembly_of(wanted)
            if assembly is not None:
                self._give_up(wanted, assembly, _DELETED)

    def _assembly_of(self, wanted: WantedRepair) -> Assembly | None:
        """The large message as far as it is here; None if it or its queue is gone."""
        queue = self.context.state.queues.get(wanted.queue)
        return queue.parts.get(wanted.key) if queue is not None else None

    def _give_up(self, wanted: WantedRepair, assembly: Assembly, why: str) -> None:
        """Have those that wait for the large message told that a part of it does not come."""
        assembly.refused = why
        self.context.follow_up.touch(self.context.state.queues.numbered(wanted.queue))


class Repairs:
    """The source's part: repairs that destinations have asked for, and were not answered yet."""

    def __init__(self, works: Works) -> None:
        self._works = works
        self._asked: dict[tuple[int, int], RepairWanted] = {}
        """The last request for each large message, by its stream and its sequence id."""

    def begin(self, queue: StoredQueue, peer: Peer, head: RepairWanted) -> bool:
        """Send again what is here, and say what is not; False if too much is asked for at once."""
        name = queue.number, head.sequence
        goes_on = name in self._asked
        if not goes_on and sum(stream == queue.number for stream, _ in self._asked) >= REPAIRS_MAX:
            return False
        self._asked[name] = head
        if not goes_on:
            self._works.carry_on(self._answer(queue, peer, name))
        return True

    def _answer(self, queue: StoredQueue, peer: Peer, name: tuple[int, int]) -> Iterator[bool]:
        """By the portion; what was asked for again meanwhile is looked for again.

        The queue stays until then: its deletion is a work behind this one.
        """
        context = self._works.context
        answered: RepairWanted | None = None
        try:
            while answered is not self._asked[name]:
                answered = self._asked[name]
                gone = yield from _send_again(context, queue, answered)
                told = RepairAnswer(answered.stream, answered.sequence, nameable(gone))
                context.effects.append(LinkSend(peer, told))
        finally:
            del self._asked[name]


def _send_again(
    context: Context, queue: StoredQueue, head: RepairWanted
) -> Generator[bool, None, list[Missing]]:
    """Send again what is here; gives what is not.

    It looks first for what is on its way. A part that leaves the outgoing queue meanwhile has
    arrived, or it is among the dead letters by the time they are looked at.
    """
    key = SequenceKey(context.own_messages.source, head.sequence)
    missing = _Parts(head.missing)
    there = yield from _on_their_way(context, queue, key)
    try:
        count = yield from _move_copies(context, queue, key, missing=missing, there=there)
    except QuotaExceeded as error:
        _tell_of_quota(context, queue, error)
        return []
    return _without(missing.all(), there, count)


def _send_again_here(
    context: Context, queue: StoredQueue, key: SequenceKey, missing: list[Missing]
) -> None:
    """Move copies of missing parts back into the queue of this manager that they were sent to."""
    try:
        for _ in _move_copies(context, queue, key, missing=_Parts(missing), there=set()):
            pass
    except QuotaExceeded as error:
        _tell_of_quota(context, queue, error)


def _tell_of_quota(context: Context, queue: StoredQueue, error: QuotaExceeded) -> None:
    sentence = f"missing parts of a large message cannot be sent again yet: {error}"
    context.notices.add(NoticeKind.REPAIR_WAITS, queue.name, sentence)


def _move_copies(
    context: Context,
    queue: StoredQueue,
    key: SequenceKey,
    *,
    missing: _Parts,
    there: set[int | str],
) -> Generator[bool, None, int]:
    """Move copies of missing parts from the dead letters to a queue, and note them in `there`.

    Only of parts that were sent to that very queue. Gives how many fragments there are, if a copy
    of the trailer says so. Each portion is a fact of its own, which any log has room for.
    """
    dead = context.state.queues.numbered(DEAD_TRANSACTIONAL)
    assembly = dead.parts.get(key)
    if assembly is None:
        return 0
    count, count_of_all = 0, assembly.count
    kept = sorted(
        ((at, name) for name, at in assembly.parts() if missing.have(name)), key=itemgetter(0)
    )
    most = max(1, min(REPAIR_PARTS_A_TURN, context.room.portion_bytes // TAIL_BYTES))
    for start in range(0, len(kept), most):
        found: dict[int, int | str] = {}
        for at, name in kept[start : start + most]:
            packed = dead.index.find(at)
            if packed is not None and _was_sent_to(context, queue, packed):
                found[at] = name
        if found:
            _move(context, dead, [*found], queue)
            there.update(found.values())
        if "trailer" in found.values():
            count = count_of_all
        if start + most < len(kept):
            yield True
    return count


def _was_sent_to(context: Context, queue: StoredQueue, packed: bytes) -> bool:
    """Whether a dead letter was sent to `queue`, as its sender has noted (R51)."""
    _, properties = record_of(context.store, unpack(packed))
    if properties.destination is None:
        return False
    try:
        return known_queue(context, properties.destination) is queue
    except InvalidQueueName:
        return False


def _has_copies(context: Context, queue: StoredQueue, assembly: Assembly) -> bool:
    """Whether the source of a part that is here keeps what is missing; parts share one fate.

    From another manager that is what was refused here, unless the sender said no.
    """
    entries = (queue.index.find(at) for _, at in assembly.parts())
    first = next((unpack(each) for each in entries if each is not None), None)
    if first is None:
        return False
    header, _ = record_of(context.store, first)
    if not first.route:
        return bool(header.copies & COPY_DEAD_LETTER)
    return not header.flags & FLAG_NO_DEAD_LETTER


def lacking(assembly: Assembly) -> list[Missing]:
    """The missing parts, including those that only the trailer can tell of."""
    missing = [each for each in assembly.missing() if each != "duplicate"]
    if "trailer" in missing:
        last = assembly.numbers[-1] if assembly.numbers else 0
        missing.append([last + 1, FRAGMENTS_MAX])
    return missing


def nameable(missing: list[Missing]) -> list[Missing]:
    """As many missing parts as a frame may name; beyond that one range covers all that are left.

    A source that cannot send all of that range again says so, and the large message is given up.
    """
    ranges = [each for each in missing if not isinstance(each, str)]
    if len(missing) <= HOLES_NAMED_MAX:
        return missing
    names: list[Missing] = [each for each in missing if isinstance(each, str)]
    kept = HOLES_NAMED_MAX - len(names) - 1
    rest = [ranges[kept][0], max(last for _, last in ranges[kept:])]
    return [*names, *ranges[:kept], rest]


def _move(context: Context, dead: StoredQueue, lookup_ids: list[int], queue: StoredQueue) -> None:
    entries = entries_at(dead, lookup_ids)
    context.state.ledger.check(queue, sum(unpack(packed).length for packed in entries))
    tails = [as_group(tail_of(packed)) for packed in entries]
    forget_parts(context, dead, lookup_ids)
    fact = CommitFact(context)
    fact.drop(dead, lookup_ids)
    fact.join_again(queue, tails)
    fact.record()


def _on_their_way(
    context: Context, queue: StoredQueue, key: SequenceKey
) -> Generator[bool, None, set[int | str]]:
    """The names of the parts of a large message that wait in an outgoing queue."""
    found: set[int | str] = set()
    if not (queue.outgoing and queue.index.part_count):
        return found
    looked_at = 0
    for run in queue.index.runs_after(0):
        if looked_at >= REPAIR_PARTS_A_TURN:
            # Only between two pages: an entry may have left the queue by the next turn.
            looked_at = 0
            yield True
        looked_at += 1 + part_count_in(run)
        for packed in entries_in(run) if part_count_in(run) else ():
            entry = unpack(packed)
            if entry.part != Part.PLAIN:
                seen = part_seen(context.store, entry)
                if seen.key == key:
                    found.add(seen.name)
    return found


class _Parts:
    """Parts by name, to look one up among many thousand ranges that a peer names."""

    def __init__(self, parts: list[Missing]) -> None:
        self._names = {each for each in parts if isinstance(each, str)}
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(each for each in parts if not isinstance(each, str)):
            if self._lasts and first <= self._lasts[-1]:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def all(self) -> list[Missing]:
        """Each once, and ranges that do not overlap."""
        ranges = map(list, zip(self._firsts, self._lasts, strict=True))
        header = self._names & {"header"}
        return [*header, *ranges, *sorted(self._names - header)]

    def have(self, name: int | str) -> bool:
        return name in self._names if isinstance(name, str) else self.meet(name, name)

    def meet(self, first: int, last: int) -> bool:
        """Whether any fragment of a range is among them."""
        at = bisect_right(self._firsts, last)
        return bool(at) and self._lasts[at - 1] >= first


def _without(missing: list[Missing], there: set[int | str], count: int) -> list[Missing]:
    """The entries of `missing` that are not here; `count` is the number of fragments, if known."""
    numbers = sorted(n for n in there if isinstance(n, int))
    rest: list[Missing] = []
    for each in missing:
        if isinstance(each, str):
            rest += [each] if each not in there else []
            continue
        first, end = each
        for number in numbers[bisect_left(numbers, first) : bisect_right(numbers, end)]:
            if number > first:
                rest.append([first, number - 1])
            first = number + 1
        # Without a count nobody knows how many are lacking behind the last one that is there.
        end = end if end < FRAGMENTS_MAX else count
        if first <= end:
            rest.append([first, end])
    return rest


def _meet(lacking: list[Missing], gone: list[Missing]) -> bool:
    """Whether something lacking is gone."""
    parts = _Parts(lacking)
    return any(
        parts.have(each) if isinstance(each, str) else parts.meet(each[0], each[1]) for each in gone
    )
