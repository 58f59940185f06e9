"""Entries drawn by chance, for tests of all that reads them."""

from __future__ import annotations

from random import Random

from dray.manager.entries import Staged, pack_tail
from dray.model.classes import Part
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind, heap_file_number
from dray.wire.record import COPY_DEAD_LETTER, COPY_JOURNAL, WANTS_ACKNOWLEDGMENTS


def tail(rng: Random, *, priority: int | None = None) -> bytes:
    """The tail of a message, of a priority or of any."""
    kind = rng.choice([Kind.RECOVERABLE, Kind.RECOVERABLE, Kind.EXPRESS])
    record = Staged(
        Extent(heap_file_number(kind, rng.randrange(1, 4)), rng.randrange(9) * 100, 100),
        crc=rng.getrandbits(32),
        number=rng.getrandbits(60),
        part=rng.choice([Part.PLAIN, Part.PLAIN, Part.FRAGMENT]),
        priority=rng.randrange(8) if priority is None else priority,
        sent_us=rng.getrandbits(50),
        expires_us=rng.choice([0, 0, 77]),
        copies=rng.choice([0, 0, COPY_DEAD_LETTER, COPY_JOURNAL, WANTS_ACKNOWLEDGMENTS]),
    )
    return pack_tail(
        record,
        rng.choice([0, 5]),
        rng.getrandbits(50),
        ordinal=3,
        marks=1,
        following=rng.choice([0, 2000]),
    )
