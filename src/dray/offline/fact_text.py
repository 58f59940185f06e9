"""A fact of the log as a sentence for people."""

from __future__ import annotations

import msgspec

from dray.manager import facts
from dray.manager.entries import TAIL_BYTES
from dray.manager.state import State
from dray.model.words import counted

_BYTES_SHOWN_MAX = 16


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
