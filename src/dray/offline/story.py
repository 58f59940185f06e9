"""The story of one message: what the log tells of it, fact by fact, and where it is in the end.

The state as the older checkpoint knew it is taken through the facts again, and before each fact is
applied it is asked whether it speaks of the message: by its number among what joins, by the
positions that it has had among what leaves. The log no longer has the facts before the older
checkpoint; the story then begins with the place of the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from dray.delivery.events import DeliverySettings
from dray.manager import facts
from dray.manager.entries import lookup_id_of, split_tails, tail_of, unpack, with_key
from dray.manager.queue import ORDER_QUEUE
from dray.manager.state import State, read_state
from dray.model.ids import split_id
from dray.offline.inspecting import RecordSeen, queue_name, records
from dray.offline.stopped import Offline
from dray.store.decisions import LOG_NAME
from dray.store.heap.heap import file_name
from dray.store.log.qmlog import LogReader


class Happened(msgspec.Struct, kw_only=True):
    """One thing that happened to a message. Microseconds since the epoch, 0 if nobody noted it."""

    fact: int
    when_us: int
    what: str


class Story(msgspec.Struct, kw_only=True):
    """The history of one message, and its present place."""

    message_id: str
    happened: list[Happened]
    now: list[RecordSeen]


def tell_story(path: str | Path, message_id: str) -> Story:
    """Follow a message through the log of a stopped manager."""
    source, number = split_id(message_id)
    with Offline(path) as offline:
        offline.load()
        with closing(offline.disk.open(LOG_NAME)) as log:
            teller = _Teller(offline, source, number)
            happened = list(teller.follow(LogReader(log, offline.capacity)))
        now = [seen for seen, _ in records(offline) if seen.message_id == message_id]
        return Story(message_id=message_id, happened=happened, now=now)


class _Teller:
    """Follows one message, by its number and the positions that it has had."""

    def __init__(self, offline: Offline, source: str, number: int) -> None:
        self._offline = offline
        self._source = source
        self._number = number
        self._state = State(DeliverySettings())
        self._at: set[tuple[int, int]] = set()

    def follow(self, reader: LogReader) -> Iterator[Happened]:
        """Tell everything, in order."""
        offline, state = self._offline, self._state
        snapshot = offline.oldest_snapshot()
        if snapshot is not None:
            read_state(state, snapshot)
        first = offline.oldest.facts
        for queue in state.queues:
            for packed in queue.index.everything():
                if self._is_it(packed):
                    self._at.add((queue.number, lookup_id_of(packed)))
                    what = f"was in {queue.name!r} at position {lookup_id_of(packed)}"
                    yield Happened(fact=first, when_us=unpack(packed).arrived_us, what=what)
        chain = reader.chain(offline.oldest.lsn, first, offline.oldest.epoch)
        chain = chain._replace(end=offline.chain.end)
        for at, encoded in enumerate(reader.facts(chain, first), first):
            fact = facts.decode_fact(encoded)
            for what in self._told(fact):
                yield Happened(fact=at, when_us=getattr(fact, "when_us", 0), what=what)
            state.apply_without_sequences(fact)

    def _told(self, fact: facts.Fact) -> Iterator[str]:
        match fact:
            case facts.Committed():
                return self._committed(fact)
            case facts.Accepted():
                come = f"was accepted of stream {fact.stream} of {fact.source}: joined"
                return self._joined(fact.queue, fact.tails, come)
            case facts.Delivered():
                return self._delivered(fact)
            case facts.Prepared():
                return self._prepared(fact)
            case facts.PutBack():
                return self._put_back(fact)
            case facts.LargeMoved():
                return self._moved_aside(fact)
            case facts.QueueDeleted():
                gone = [lookup_id for queue, lookup_id in sorted(self._at) if queue == fact.number]
                return self._left_all(fact.number, gone, "went with its queue:")
            case _:
                return iter(())

    def _committed(self, fact: facts.Committed) -> Iterator[str]:
        who = f"transaction {fact.transaction}" if fact.transaction else "no transaction"
        for queue, tails in fact.sends:
            yield from self._joined(queue, tails, f"was committed by {who}: joined")
        for queue, lookups in fact.receives:
            yield from self._left_all(queue, facts.unpack_lookups(lookups), f"left by {who}:")
        for queue, tails in fact.moved:
            yield from self._joined(queue, tails, "was moved to")

    def _delivered(self, fact: facts.Delivered) -> Iterator[str]:
        upto = [at for queue, at in sorted(self._at) if queue == fact.queue and at <= fact.upto]
        yield from self._left_all(fact.queue, upto, "the peer has it, durably: left")
        yield from self._joined(ORDER_QUEUE, fact.awaiting, "waits to be confirmed in")

    def _prepared(self, fact: facts.Prepared) -> Iterator[str]:
        for _, tails in fact.sends:
            if any(self._is_it(with_key(tail, 0)) for tail in split_tails(tails)):
                yield f"was prepared by transaction {fact.transaction}"

    def _put_back(self, fact: facts.PutBack) -> Iterator[str]:
        for lookup_id in facts.unpack_lookups(fact.lookups):
            if (fact.queue, lookup_id) in self._at:
                yield f"was put back into {queue_name(self._state, fact.queue)}"

    def _moved_aside(self, fact: facts.LargeMoved) -> Iterator[str]:
        positions = list(facts.positions_in(fact.runs))
        found = filter(None, map(self._state.queues.numbered(fact.queue).index.find, positions))
        tails = b"".join(map(tail_of, found))
        yield from self._left_all(fact.queue, positions, "its receiver moved it: left")
        yield from self._joined(fact.target, tails, "was moved to")

    def _joined(self, number: int, tails: bytes, how: str) -> Iterator[str]:
        queue = self._state.queues.get(number)
        if queue is None:
            return
        for lookup_id, tail in enumerate(split_tails(tails), queue.next_lookup_id):
            entry = with_key(tail, lookup_id)
            if self._is_it(entry):
                self._at.add((number, lookup_id))
                place = unpack(entry)
                yield (
                    f"{how} {queue.name!r} at position {lookup_id}; its {place.length} bytes lie"
                    f" in {file_name(place.file)} at {place.offset}"
                )

    def _left_all(self, queue: int, lookup_ids: list[int], how: str) -> Iterator[str]:
        for lookup_id in lookup_ids:
            if (queue, lookup_id) in self._at:
                self._at.discard((queue, lookup_id))
                yield f"{how} {queue_name(self._state, queue)}, position {lookup_id}"

    def _is_it(self, packed: bytes) -> bool:
        """Whether an entry is the message: by number, and by source as far as that can be read."""
        entry = unpack(packed)
        if entry.number != self._number:
            return False
        source = self._offline.source_of(entry)
        return source is None or source == self._source
