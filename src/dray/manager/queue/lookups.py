"""Positions of a queue's messages by message id or correlation id, while somebody asks for one.

    made        by the first receive that names an id; it reads every message of the queue once
    read on     by the next receives and arrivals: only what has come since
    made anew   when most of what it knows has left the queue
    dropped     when nobody has asked for a minute, or its caller has asked for too many others

It keeps a hash of each id and a position, about 100 bytes a message; whoever finds a position by it
looks at the message itself. A queue is read some thousand messages at a time, so that a long one
holds up nobody: a receive that comes meanwhile is answered when all is read.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from dray.manager.entries import lookup_id_of, number_of, place_in
from dray.manager.queue.queue_index import QueueIndex
from dray.manager.queue.queues import StoredQueue
from dray.manager.session import IdKind, Waiter
from dray.model.ids import split_id
from dray.model.limits import LOOKUP_READ_AT_ONCE, LOOKUP_UNUSED_S, LOOKUPS_MAX
from dray.store.store import Store
from dray.wire.record import HEADER_BYTES, read_header, read_properties
from dray.wire.selections import SelectByCorrelation, SelectById

_MOST_RECORDS_BYTES = 512
"""Header and properties of most records, in one read."""
_KeyOf = Callable[["Store", bytes], int | None]


class Lookup:
    """Positions of one queue's messages by one kind of id."""

    def __init__(self, store: Store, queue: StoredQueue, kind: IdKind, place: str = "") -> None:
        """Begin with nothing read, for the caller that asks first."""
        self.queue = queue
        self.kind, self.place = kind, place
        self._store = store
        self._key_of: _KeyOf = _correlation_key if kind is IdKind.CORRELATION else _number_key
        self._index: QueueIndex = queue.index
        self._begin()

    def _begin(self) -> None:
        self._positions: dict[int, int | list[int]] = {}
        self.known = 0
        """The number of positions that it holds, also of messages that have left."""
        self._upto = 0
        self._returned: list[int] = []
        self._index.put_back_too.append(self._returned)
        self.arrived: set[int] | None = None
        """Keys of what has come since they were taken; None stands for every key."""

    def end(self) -> None:
        """Hear no more of messages that are put back."""
        kept = [each for each in self._index.put_back_too if each is not self._returned]
        self._index.put_back_too[:] = kept

    def read_on(self) -> bool:
        """Read messages that have come, up to a bounded number; whether these were all.

        Raises `StoreCorrupt` for a message that cannot be read.
        """
        if self.known > 2 * len(self._index) + LOOKUP_READ_AT_ONCE:
            self.end()
            self._begin()
        room = LOOKUP_READ_AT_ONCE
        while self._returned and room:
            entry = self._index.find(self._returned[-1])
            if entry is not None:
                self._note(entry)
            del self._returned[-1]
            room -= 1
        for entry in islice(self._index.in_position_order(self._upto), room):
            self._note(entry)
            self._upto = lookup_id_of(entry)
            room -= 1
        return room > 0

    def positions(self, key: int) -> Iterator[bytes]:
        """Available entries that may have an id, in receiving order."""
        known = self._positions.get(key)
        if known is None:
            return
        positions = [known] if isinstance(known, int) else known
        entries = self._entries(key, positions)
        yield from entries if self._index.is_of_one_priority() else sorted(entries)

    def _entries(self, key: int, positions: list[int]) -> Iterator[bytes]:
        at = 0
        while at < len(positions):
            entry = self._index.find(positions[at])
            if entry is not None:
                at += 1
                yield entry
            elif self._index.held(positions[at]) is not None:
                at += 1
            else:
                del positions[at]
                self.known -= 1
        if not positions:
            self._positions.pop(key, None)

    def _note(self, entry: bytes) -> None:
        key = self._key_of(self._store, entry)
        if key is None:
            return
        if self.arrived is not None:
            self.arrived.add(key)
            if len(self.arrived) > LOOKUP_READ_AT_ONCE:
                self.arrived = None
        position, known = lookup_id_of(entry), self._positions.get(key)
        if known is None:
            self._positions[key] = position
        elif isinstance(known, int):
            if known == position:
                return
            self._positions[key] = sorted((known, position))
        else:
            at = bisect_left(known, position)
            if at < len(known) and known[at] == position:
                return
            insort(known, position)
        self.known += 1


class Sought(NamedTuple):
    """The lookup and the key by which a receive searches."""

    lookup: Lookup
    key: int


class Lookups:
    """All lookups of a manager."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.used: dict[tuple[int, IdKind], tuple[Lookup, float]] = {}
        """Longest unused first."""
        self.unread: dict[Lookup, list[Waiter]] = {}
        """Receives that came before their queue was read, in the order in which they came."""

    def __len__(self) -> int:
        """The number of lookups."""
        return len(self.used)

    def sought(
        self, queue: StoredQueue, select: object, now: float, *, place: str = ""
    ) -> Sought | None:
        """Tell where to look for a message that a selection names by an id, if it does.

        `place` is the caller that asks. Raises `Misuse` for a message id that cannot be one.
        """
        match select:
            case SelectByCorrelation(correlation_id):
                return Sought(self.by(IdKind.CORRELATION, queue, now, place), _hash(correlation_id))
            case SelectById(message_id):
                _, number = split_id(message_id)
                return Sought(self.by(IdKind.MESSAGE, queue, now, place), number)
        return None

    def by(self, kind: IdKind, queue: StoredQueue, now: float, place: str = "") -> Lookup:
        """The lookup of a queue's messages by a kind of id; it is made if there is none.

        If there are too many, the caller that has made the most loses the one unused longest.
        """
        name = queue.number, kind
        known = self.used.pop(name, None)
        lookup = known[0] if known is not None else Lookup(self._store, queue, kind, place)
        self.used[name] = lookup, now
        if len(self.used) > LOOKUPS_MAX:
            most = Counter(each.place for each, _ in self.used.values()).most_common(1)[0][0]
            spare = (
                each
                for each, (old, _) in self.used.items()
                if old.place == most and old not in self.unread
            )
            self._drop(next(spare, name))
        return lookup

    def deadline(self) -> float | None:
        """When one will have been unused for too long."""
        if not self.used:
            return None
        _, used = next(iter(self.used.values()))
        return used + LOOKUP_UNUSED_S

    def drop_unused(self, now: float) -> None:
        """Forget those for which nobody has asked for a while."""
        for name, (lookup, used) in list(self.used.items()):
            if used + LOOKUP_UNUSED_S > now:
                return
            if lookup.kind in lookup.queue.waiters.kinds:
                del self.used[name]
                self.used[name] = lookup, now
            else:
                self._drop(name)

    def _drop(self, name: tuple[int, IdKind]) -> None:
        lookup, _ = self.used.pop(name)
        lookup.end()


def _number_key(_store: Store, entry: bytes) -> int:
    return number_of(entry)


def _correlation_key(store: Store, entry: bytes) -> int | None:
    extent, _ = place_in(entry)
    record = store.read(extent, length=min(extent.length, _MOST_RECORDS_BYTES))
    header = read_header(record)
    if not header.properties_bytes:
        return None
    whole = HEADER_BYTES + header.properties_bytes
    if whole > len(record):
        record = store.read(extent, length=whole)
    correlation_id = read_properties(record, header).correlation_id
    return None if correlation_id is None else _hash(correlation_id)


def _hash(correlation_id: str) -> int:
    """Case does not count (semantics 1.2)."""
    return hash(correlation_id.casefold())
