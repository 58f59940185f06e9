"""`dray inspect`: what is in the log, in a heap file, in a queue of a manager that is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from dray.errors import Misuse
from dray.manager import facts
from dray.manager.entries import TAIL_BYTES, Entry, unpack
from dray.manager.facts import decode_fact
from dray.manager.state import State
from dray.model.classes import Part
from dray.model.ids import ManagerId, join_id
from dray.model.words import counted
from dray.offline.stopped import Offline
from dray.store.decisions import LOG_NAME
from dray.store.heap.heap import file_name, numbers_of
from dray.store.kinds import express_files
from dray.store.log.group import COPIES, OPENING, SEAL, facts_of, ranges_of
from dray.store.log.qmlog import LogReader

_MARKS = {0: "", OPENING: "opening", SEAL: "seal", COPIES: "copies"}
_BYTES_SHOWN_MAX = 16


class GroupSeen(msgspec.Struct, kw_only=True):
    """One group of the log: what one sync made true."""

    lsn: int
    epoch: int
    first_fact: int
    watermark: int
    mark: str
    dirty: list[str]
    facts: list[str]


class RecordSeen(msgspec.Struct, kw_only=True):
    """One live record: whose it is and where it lies."""

    message_id: str
    queue: str
    lookup_id: int
    file: str
    offset: int
    length: int
    part: str
    transaction: int
    arrived_us: int
    intact: bool


def look_at_log(path: str | Path, most: int) -> list[GroupSeen]:
    """The last `most` groups that the log still holds."""
    with Offline(path) as offline:
        state = offline.load()
        with closing(offline.disk.open(LOG_NAME)) as log:
            reader = LogReader(log, offline.capacity)
            groups: list[GroupSeen] = []
            lsn = offline.oldest.lsn
            while lsn < offline.chain.end and (found := reader.group_at(lsn)) is not None:
                group, image = found
                facts = [tell(decode_fact(fact), state) for fact in facts_of(group, image)]
                groups.append(
                    GroupSeen(
                        lsn=group.lsn,
                        epoch=group.epoch,
                        first_fact=group.first_fact,
                        watermark=group.watermark,
                        mark=_MARKS.get(group.flags, str(group.flags)),
                        dirty=[
                            f"{file_name(each.file)} {each.start}-{each.stop}"
                            for each in ranges_of(group, image)
                        ],
                        facts=facts,
                    )
                )
                del groups[:-most]
                lsn = group.end
            return groups


def look_at_heap(path: str | Path, name: str) -> list[RecordSeen]:
    """The live records of one heap file, in the order in which they lie."""
    numbers = numbers_of([name])
    if express_files([name]):
        raise Misuse(
            f"{name!r} holds express messages, which ended with their queue manager; its next"
            " start removes the file"
        )
    if not numbers:
        raise Misuse(f"{name!r} is not a heap file; heap files have names like p0000001.mq")
    with Offline(path) as offline:
        offline.load()
        found = [record for record, _ in records(offline, numbers[0])]
        return sorted(found, key=lambda record: record.offset)


def look_at_queue(path: str | Path, name: str, most: int) -> list[RecordSeen]:
    """The first `most` messages of a queue, in the order in which they would be received."""
    with Offline(path) as offline:
        queue = offline.load().queues.named(name)
        entries = [unpack(packed) for packed in queue.index.everything()[:most]]
        return [_seen(offline, queue.name, entry) for entry in entries]


def records(offline: Offline, file: int | None = None) -> Iterator[tuple[RecordSeen, Entry]]:
    """All live records, or those of one heap file, with what their queues say of them."""
    for queue in offline.state.queues:
        for packed in queue.index.everything():
            entry = unpack(packed)
            if file is None or entry.file == file:
                yield _seen(offline, queue.name, entry), entry


def _seen(offline: Offline, queue: str, entry: Entry) -> RecordSeen:
    source = offline.source_of(entry)
    return RecordSeen(
        message_id=join_id(ManagerId(source or "?" * 32), entry.number),
        queue=queue,
        lookup_id=entry.lookup_id,
        file=file_name(entry.file),
        offset=entry.offset,
        length=entry.length,
        part=Part(entry.part).name.lower(),
        transaction=entry.transaction,
        arrived_us=entry.arrived_us,
        intact=source is not None,
    )


def tell(fact: facts.Fact, state: State) -> str:
    """The fact as a sentence; queues by the names that they have in the end."""
    match fact:
        case facts.Committed():
            return _committed(fact, state)
        case facts.Accepted():
            return (
                f"accepted {_count(fact.tails)} of stream {fact.stream} of {fact.source}, up to"
                f" number {fact.upto} of sequence {fact.sequence_id:x}, into"
                f" {queue_name(state, fact.queue)}"
            )
        case facts.Delivered():
            return f"delivered {queue_name(state, fact.queue)} up to position {fact.upto}"
        case facts.PutBack():
            positions = facts.unpack_lookups(fact.lookups)
            return f"put back into {queue_name(state, fact.queue)}: positions {_some(positions)}"
        case facts.LargeMoved():
            positions = list(facts.positions_in(fact.runs))
            return (
                f"positions {_some(positions)} moved from {queue_name(state, fact.queue)} to"
                f" {queue_name(state, fact.target)}, a large message as a whole"
            )
        case _:
            fields = {
                name: value
                for name in fact.__struct_fields__
                if not isinstance(value := getattr(fact, name), bytes | list)
            }
            told = ", ".join(f"{name} {_value(value)}" for name, value in fields.items())
            return f"{_words(type(fact).__name__)}: {told}" if told else _words(type(fact).__name__)


def queue_name(state: State, number: int) -> str:
    """The name of a queue in the end, or its number if it has been deleted."""
    queue = state.queues.get(number)
    return f"queue {number}, deleted since" if queue is None else repr(queue.name)


def _committed(fact: facts.Committed, state: State) -> str:
    who = f"transaction {fact.transaction}" if fact.transaction else "outside transactions"
    acts = [f"{_count(tails)} joined {queue_name(state, q)}" for q, tails in fact.sends]
    acts += [
        f"positions {_some(facts.unpack_lookups(lookups))} left {queue_name(state, queue)}"
        for queue, lookups in fact.receives
    ]
    acts += [f"{_count(tails)} moved to {queue_name(state, q)}" for q, tails in fact.moved]
    return f"committed, {who}: {'; '.join(acts) or 'nothing'}"


def _count(tails: bytes) -> str:
    count = len(tails) // TAIL_BYTES
    return counted(count)


def _some(positions: list[int]) -> str:
    if len(positions) <= _BYTES_SHOWN_MAX:
        return ", ".join(map(str, positions))
    return f"{positions[0]} to {positions[-1]} ({len(positions)} of them)"


def _value(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value).decode()
    return repr(value)


def _words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
