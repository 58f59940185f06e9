"""The most bytes that something that happens to a message takes in a fact.

A fact must fit one group of the log, and the log may be of 16 KiB. So whatever gathers many
messages for one fact counts what it will write of them: little for a plain message, some hundred
bytes where a source is to be told of it with label and administration queue. The time of a turn is
counted here too, in messages of which nobody is told.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dray.manager.entries import (
    KEY_BYTES,
    TAIL_BYTES,
    Staged,
    any_asks_in,
    copies_of,
    place_in,
    route_of,
)
from dray.manager.queue.part_records import Records
from dray.manager.queue.queues import StoredQueue
from dray.model.limits import TOLD_WEIGHT
from dray.wire.record import HEADER_BYTES, WANTS_ACKNOWLEDGMENTS, RecordHeader, read_header

POSITION_BYTES: Final = 8
KEPT_BYTES: Final = 2 * TAIL_BYTES + 80
"""It may become a dead letter and be told of by number."""
TOLD_BYTES: Final = 2_048
"""It may be told of with a label of 249 characters and the name of an administration queue, or by
a message of the manager's own."""
MOVED_BYTES: Final = POSITION_BYTES + TAIL_BYTES
REJECTED_BYTES: Final = 24
"""Queue and position once more, if the transaction is prepared."""
_OWN_BYTES: Final = TAIL_BYTES + 48
"""A message of the manager's own, to a queue of its own, and the numbers that it may lease."""
_TOLD_BESIDE_BYTES: Final = 128
"""Bytes of a confirmation without label and administration queue: stream, number, origin."""


REFUSED_BYTES: Final = TAIL_BYTES + _OWN_BYTES
"""It becomes a dead letter, and its sender is told by a message of the manager's own."""


def cost_of_leaving(packed: bytes, *, always_told: bool = False) -> int:
    """Cost of a packed entry that leaves its queue, for any sender and label.

    `always_told` if something follows from its end although its sender wanted nothing.
    """
    copies = copies_of(packed)
    if copies & WANTS_ACKNOWLEDGMENTS or (always_told and route_of(packed[KEY_BYTES:])):
        return TOLD_BYTES
    return POSITION_BYTES + KEPT_BYTES * bool(copies or always_told)


def weight_of_leaving(packed: bytes, *, always_told: bool = False) -> int:
    """The time that it takes when a packed entry leaves its queue, in plain messages."""
    return TOLD_WEIGHT if always_told or copies_of(packed) else 1


def cost_of_sending(headers: Collection[RecordHeader], *, outgoing: bool) -> int:
    """Cost of messages sent to one queue, and of the word of their arrival."""
    cost = len(headers) * TAIL_BYTES
    if not outgoing:
        for header in headers:
            if header.acknowledge:
                cost += _OWN_BYTES
    return cost


def cost_of_staged(staged: Staged) -> int:
    """Cost of one message that was sent before and joins its queue now."""
    return TAIL_BYTES + _OWN_BYTES * (staged.wish is not None)


def cost_of_accepting(header: RecordHeader, *, refused: bool) -> int:
    """Cost of a message from another manager, accepted or refused."""
    told = header.properties_bytes + _TOLD_BESIDE_BYTES if header.copies or refused else 0
    return TAIL_BYTES + told


def cost_of_receiving(store: Records, queue: StoredQueue, found: Collection[bytes]) -> int:
    """Cost of packed entries that a transaction takes out of their queue."""
    cost = len(found) * (POSITION_BYTES + TAIL_BYTES * (queue.keeper is not None))
    if not any_asks_in(b"".join(found)):
        return cost
    for packed in found:
        copies = copies_of(packed)
        if copies:
            cost += KEPT_BYTES
        if copies & WANTS_ACKNOWLEDGMENTS:
            cost += _told_bytes(store, packed) if route_of(packed[KEY_BYTES:]) else _OWN_BYTES
    return cost


def _told_bytes(store: Records, packed: bytes) -> int:
    header = read_header(store.read(place_in(packed)[0], length=HEADER_BYTES))
    return header.properties_bytes + _TOLD_BESIDE_BYTES
