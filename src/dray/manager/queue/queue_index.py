"""One queue's messages in receiving order: available, held by transactions, or put aside.

Available entries lie in pages (`entry_pages.py`), in which whole runs come and go. Held ones are
out of the order until their transaction ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice, repeat, takewhile
from operator import eq

from dray.manager.entries import (
    ENTRY_BYTES,
    KEY_BYTES,
    at_place,
    entries_in,
    express_in,
    is_express_entry,
    lengths_in,
    lookup_id_of,
    part_count_in,
    part_of,
    place_in,
    positions_in,
    unpack,
    with_aborts,
    with_keys,
)
from dray.manager.queue.entry_pages import PAGE_ENTRIES, EntryPages
from dray.model.limits import PRIORITY_MAX
from dray.store.heap.heap import Extent

_KEY = struct.Struct(">BQ")
_MICROSECONDS = 1e6


class QueueIndex:
    """The entries of one queue, available and held."""

    def __init__(self) -> None:
        self._available = EntryPages(ENTRY_BYTES, KEY_BYTES)
        self._held: dict[int, tuple[bytes, int]] = {}
        self.ever_held = 0
        """The number of times that an entry was held; the latest come last in `_held`."""
        self._aside: dict[int, bytes] = {}
        self.put_back_too: list[list[int]] = []
        """Each of these lists gets the positions that are put back (`lookups.py`)."""
        self.byte_count = 0
        """Bytes of all records, available, held or put aside."""
        self.express_count = self.express_bytes = 0
        """The number of express messages among all these, and their bytes."""
        self.part_count = 0
        """Parts of large messages, available or held. Parts put aside do not count."""

    def __len__(self) -> int:
        """Messages available, held or put aside."""
        return len(self._available) + len(self._held) + len(self._aside)

    @property
    def available_count(self) -> int:
        """Messages that a receive could take now."""
        return len(self._available)

    def add_run(self, tails: bytes, first: int) -> bytes:
        """Put new messages at positions from one on; gives their entries, packed."""
        entries = with_keys(tails, first)
        of_one_priority = len(set(entries[::ENTRY_BYTES])) == 1
        self._available.add(entries if of_one_priority else b"".join(sorted(entries_in(entries))))
        self._count(entries, 1)
        return entries

    def load(self, entries: bytes) -> None:
        """Fill an empty index from a checkpoint."""
        self._available.append(entries)
        self._count(entries, 1)

    def first(self) -> bytes | None:
        """The entry that the next receive takes."""
        return self._available.first()

    def oldest_time(self) -> float | None:
        """When the oldest message arrived, in seconds since the epoch; None without messages.

        Looked at are the first of each priority and the one that is held longest.
        """
        first, priorities = self._available.first(), self._available.leads()
        if first is not None and len(priorities) == 1 and not self._held:
            # Most queues have one priority, and a list asks all of them.
            return unpack(first).arrived_us / _MICROSECONDS
        found = [self._first_behind(each) for each in priorities]
        found.append(next(self.held_entries(), None))
        times = [unpack(each).arrived_us for each in found if each is not None]
        return min(times) / _MICROSECONDS if times else None

    def _first_behind(self, priority_byte: int) -> bytes | None:
        """The first available entry from a priority on, in receiving order."""
        return next(self._available.behind(_KEY.pack(priority_byte, 0)), None)

    def available(self) -> Iterator[bytes]:
        """All available entries in receiving order."""
        return iter(self._available)

    def available_runs(self) -> Iterator[bytes]:
        """The same, packed, many in one piece."""
        return self._available.runs_behind(b"")

    def after(self, lookup_id: int) -> Iterator[bytes]:
        """Available entries of a queue of one priority above a position, in order."""
        first = self.first()
        if first is None:
            return iter(())
        # In queues without priorities every key begins with the same byte.
        return self._available.behind(_KEY.pack(first[0], max(0, lookup_id)))

    def runs_after(self, lookup_id: int) -> Iterator[bytes]:
        """The same, packed, many in one piece."""
        first = self.first()
        if first is None:
            return iter(())
        return self._available.runs_behind(_KEY.pack(first[0], max(0, lookup_id)))

    def between(self, after: int, upto: int) -> bytes:
        """Available entries of a queue of one priority behind a position, up to another, packed."""
        first = self.first()
        if first is None:
            return b""
        low, high = _KEY.pack(first[0], max(0, after)), _KEY.pack(first[0], upto)
        return self._available.between(low, high)

    def take_upto(self, lookup_id: int) -> bytes:
        """Take all of these away for good that are at or below a position; give them, packed."""
        first = self.first()
        if first is None:
            return b""
        taken = self._available.take_upto(_KEY.pack(first[0], lookup_id))
        self._count(taken, -1)
        return taken

    def from_entry(self, packed: bytes) -> Iterator[bytes]:
        """Available entries behind a packed one, which need not be there any more."""
        return self._available.behind(packed[:KEY_BYTES])

    def relocate(self, lookup_id: int, extent: Extent) -> Extent | None:
        """Give an available entry's record another place; the old one, None if it is not there."""
        entry = self.find(lookup_id)
        if entry is None:
            return None
        self._available.replace(entry[:KEY_BYTES] + at_place(entry[KEY_BYTES:], extent))
        return place_in(entry)[0]

    def in_position_order(self, after: int = 0) -> Iterator[bytes]:
        """Available entries above a position, by position whatever their priority."""
        if self.is_of_one_priority():
            return self.after(after)
        return self._merged(after)

    def runs_in_position_order(self, after: int = 0) -> Iterator[bytes]:
        """The same, packed, many in one piece where the queue has one priority."""
        return self.runs_after(after) if self.is_of_one_priority() else self._merged(after)

    def _merged(self, after: int) -> Iterator[bytes]:
        each = (self.of_priority(priority, after) for priority in range(PRIORITY_MAX + 1))
        return merge(*each, key=lookup_id_of)

    def is_of_one_priority(self) -> bool:
        """Whether positions and receiving order are one."""
        return len(self._available.leads()) <= 1

    def of_priority(self, priority: int, after: int = 0) -> Iterator[bytes]:
        """Available entries of one priority above a position, in order."""
        priority_byte = PRIORITY_MAX - priority
        behind = self._available.behind(_KEY.pack(priority_byte, max(0, after)))
        return takewhile(lambda entry: entry[0] == priority_byte, behind)

    def find(self, lookup_id: int) -> bytes | None:
        """The available entry at a position; there are none below 1."""
        if lookup_id < 1:
            return None
        for priority_byte in self._available.leads():
            entry = self._available.find(_KEY.pack(priority_byte, lookup_id))
            if entry is not None:
                return entry
        return None

    def held(self, lookup_id: int) -> tuple[bytes, int] | None:
        """The held entry at a position, and the transaction that holds it."""
        return self._held.get(lookup_id)

    def held_positions(self) -> list[int]:
        """Positions of all held entries."""
        return list(self._held)

    def held_since(self, ever_held: int) -> list[int]:
        """Positions of those held entries that were taken when so many had been held before."""
        latest = islice(reversed(self._held), self.ever_held - ever_held)
        return list(latest)[::-1]

    def held_entries(self) -> Iterator[bytes]:
        """All held entries."""
        return (entry for entry, _ in self._held.values())

    def at(self, lookup_ids: list[int]) -> list[bytes]:
        """The entries at positions, held or available; those that have left are left out."""
        return entries_in(self.packed_at(lookup_ids))

    def packed_at(self, lookup_ids: list[int]) -> bytes:
        """The same, one behind the other."""
        runs: list[bytes] = []
        held = self._held.get
        at, end = 0, len(lookup_ids)
        while at < end:
            taken = held(lookup_ids[at])
            if taken is not None:
                runs.append(taken[0])
                at += 1
                continue
            run = self._run_from(lookup_ids, at)
            runs.append(run)
            at += len(run) // ENTRY_BYTES or 1
        return b"".join(runs)

    def _run_from(self, lookup_ids: list[int], at: int) -> bytes:
        """The available entries at positions from the one at an offset on, if they lie so."""
        if at + 1 == len(lookup_ids) or lookup_ids[at] < 1:
            return self.find(lookup_ids[at]) or b""
        for priority_byte in self._available.leads():
            key = _KEY.pack(priority_byte, lookup_ids[at])
            run = self._available.run_from(key, _KEY.pack(priority_byte, lookup_ids[at + 1]))
            if len(run) > ENTRY_BYTES:
                same = map(eq, positions_in(run), lookup_ids[at : at + PAGE_ENTRIES])
                return run[: sum(takewhile(bool, same)) * ENTRY_BYTES]
            if run:
                return run
        return b""

    def hold(self, entries: bytes, transaction: int) -> None:
        """Take available entries, one or many, out of sight for a transaction."""
        self._available.take(entries)
        held = zip(entries_in(entries), repeat(transaction), strict=False)
        self._held.update(zip(positions_in(entries), held, strict=False))
        self.ever_held += len(entries) // ENTRY_BYTES

    def put_aside(self, entry: bytes) -> None:
        """Keep an available entry, out of everyone's way until the next start."""
        self._available.take(entry)
        self._aside[lookup_id_of(entry)] = entry
        self.part_count -= bool(part_of(entry))

    def aside_between(self, after: int, upto: int) -> list[int]:
        """Positions of messages put aside, above one and up to another, rising."""
        return sorted(lookup_id for lookup_id in self._aside if after < lookup_id <= upto)

    def aside_entries(self) -> Iterable[bytes]:
        """The entries of messages put aside, in no order."""
        return self._aside.values()

    @property
    def aside_count(self) -> int:
        """Messages put aside."""
        return len(self._aside)

    def put_back(self, lookup_ids: Iterable[int]) -> bytes:
        """Return held entries to their old places; give them, packed, in receiving order."""
        entries = b"".join(sorted([self._held.pop(each)[0] for each in lookup_ids]))
        self._available.add(entries)
        for each in self.put_back_too:
            each.extend(positions_in(entries))
        return entries

    def count_aborts(self, lookup_ids: list[int]) -> None:
        """Note that a transaction that had taken the available entries was aborted."""
        at = 0
        while at < len(lookup_ids):
            run = self._run_from(lookup_ids, at)
            if run:
                self._available.replace(with_aborts(run))
            at += len(run) // ENTRY_BYTES or 1

    def remove(self, lookup_ids: Iterable[int]) -> bytes:
        """Take entries away for good, held or available; give those that were there, packed."""
        positions = list(dict.fromkeys(lookup_ids))
        removed: list[bytes] = []
        available: list[bytes] = []
        held = self._held.pop
        at, end = 0, len(positions)
        while at < end:
            taken = held(positions[at], None)
            if taken is not None:
                removed.append(taken[0])
                at += 1
                continue
            run = self._aside.pop(positions[at], b"")
            if run:
                # It was counted out when it was put aside.
                self.part_count += bool(part_of(run))
            else:
                run = self._run_from(positions, at)
                available.append(run)
            removed.append(run)
            at += len(run) // ENTRY_BYTES or 1
        self._available.take(b"".join(available))
        entries = b"".join(removed)
        self._count(entries, -1)
        return entries

    def durable(self) -> bytes:
        """All entries but those of express messages, packed: what checkpoints keep."""
        if not (self._held or self._aside or self.express_count):
            return self._available.packed()
        return b"".join([each for each in self.everything() if not is_express_entry(each)])

    def everything(self) -> list[bytes]:
        """All entries, held ones in their old place."""
        if not (self._held or self._aside):
            return list(self._available)
        held = (entry for entry, _ in self._held.values())
        return sorted([*self._available, *held, *self._aside.values()])

    def runs(self) -> Iterator[bytes]:
        """All entries, packed, many in one piece; those that are not available come last."""
        pages, others = self.copied()
        yield from pages
        yield b"".join(others)

    def copied(self) -> tuple[list[bytes], list[bytes]]:
        """All entries as they are now, for who reads on later: pages in order, others in none.

        Nobody changes a page, so this costs four thousand references for a million messages.
        """
        held = (entry for entry, _ in self._held.values())
        return list(self.available_runs()), [*held, *self._aside.values()]

    def _count(self, entries: bytes, sign: int) -> None:
        self.byte_count += sign * sum(lengths_in(entries))
        self.part_count += sign * part_count_in(entries)
        express = express_in(entries)
        if express:
            self.express_count += sign * (len(express) // ENTRY_BYTES)
            self.express_bytes += sign * sum(lengths_in(express))
