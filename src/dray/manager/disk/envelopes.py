"""The parts of packed entries that travel: envelopes, and the records beside them."""

from __future__ import annotations

from collections.abc import Callable

from dray.manager.entries import ENTRY_BYTES, ORDINAL_BITS, ORDINAL_MAX, fields_in, runs_in
from dray.manager.events import Body
from dray.manager.queue import Records
from dray.model.limits import KIB
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind, kind_of
from dray.wire.message_frames import Envelope

_READ_AT_ONCE_BYTES = 64 * KIB
"""Shorter runs are read while the turn lasts; longer ones go from the heap file to the socket."""


def envelopes_in(packed: bytes) -> list[Envelope]:
    """The envelope of messages for a client."""
    return [
        Envelope(
            lookup_id, length, crc, transaction, sent_us, arrived_us, marks, message_class,
            aborts, moves, ordinal & ORDINAL_MAX, following=ordinal >> ORDINAL_BITS,
        )
        for lookup_id, (
            _, _, length, crc, _, transaction, sent_us, arrived_us, _, _, ordinal, marks,
            message_class, _, aborts, moves,
        ) in fields_in(packed)
    ]  # fmt: skip


def stream_envelopes_in(
    packed: bytes, base: int, left_us: Callable[[bytes], tuple[int, int]]
) -> list[Envelope]:
    """The envelope for another manager: also the number in its stream, its position less `base`.

    For a packed entry that expires `left_us` says how long it has to reach its queue, and there.
    """
    envelopes = []
    for at, (lookup_id, fields) in enumerate(fields_in(packed)):
        (
            _, _, length, crc, _, transaction, sent_us, arrived_us, expires_us, _, ordinal, marks,
            message_class, _, aborts, moves,
        ) = fields  # fmt: skip
        reaching_us = remaining_us = -1
        if expires_us:
            reaching_us, remaining_us = left_us(packed[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES])
        envelopes.append(
            Envelope(
                lookup_id, length, crc, transaction, sent_us, arrived_us, marks, message_class,
                aborts, moves, ordinal & ORDINAL_MAX, lookup_id - base, remaining_us, reaching_us,
                ordinal >> ORDINAL_BITS,
            )
        )  # fmt: skip
    return envelopes


def bodies_in(store: Records, packed: bytes) -> Body:
    """The records for a client, neighbours joined; short runs and express messages are read now."""
    return tuple([records_of_answer(store, run) for run in runs_in(packed)])


def stream_bodies_in(store: Records, packed: bytes) -> Body:
    """The records for another manager, neighbours joined; only express messages are read now.

    A whole window may wait for a slow line: that must not be memory, also if all runs are short.
    """
    return tuple([records_of_answer(store, run, read_bytes=0) for run in runs_in(packed)])


def records_of_answer(
    store: Records, run: Extent, *, read_bytes: int = _READ_AT_ONCE_BYTES
) -> bytes | Extent:
    """The records of an answer: their bytes, or their extents while the answer is in flight.

    An express message is in memory anyway, and its place is free as soon as it leaves its queue.
    """
    if run.length > read_bytes and kind_of(run.file) is not Kind.EXPRESS:
        return run
    return store.read(run)
