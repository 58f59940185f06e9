"""The large messages of a queue that are in flight, whole or holed: kept as parts come and go.

Parts of one large message carry its *sequence* (the number of the header's message) and come in
order (S2-4), so each either continues its assembly or proves a hole. Nothing waits for a clock: a
slow sender is never a hole.

    state        what is there                                       what proves it
    in flight    header, fragments 1..k                              nothing later from that source
    whole        header, fragments 1..N, trailer with count N        the trailer
    holed        any other set                                       the trailer, or the end of the
                                                                     transaction

A source's transactions come one after another by one route. So a message of another transaction by
that route, or the last of the part's own, proves that nothing more will come. Parts that someone
takes by themselves (a raw reader) leave a hole behind. Source: S0-14, S0-15, semantics 4.3 to 4.5
and 11.5.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.model.classes import Part

Missing = list[int] | str
"""A range [first, last] of fragment numbers, or "header" or "trailer"."""


def missing_in_words(missing: Sequence[Missing]) -> str:
    """The missing parts as an error names them."""
    return ", ".join(each if isinstance(each, str) else _range(*each) for each in missing)


def _range(first: int, last: int) -> str:
    return f"fragment {first}" if first == last else f"fragments {first} to {last}"


class SequenceKey(NamedTuple):
    """A large message: the manager that numbered it (16 bytes), and its header's number."""

    source: bytes
    sequence: int


class PartSeen(NamedTuple):
    """One part, as its record tells it; `correlation_id` is a header's, `size` the body's."""

    lookup_id: int
    part: int
    key: SequenceKey
    fragment: int
    fragment_count: int
    transaction: int
    size: int
    correlation_id: str | None = None
    route: int = 0
    """The route by which it came; messages of other routes prove nothing about it."""

    @property
    def name(self) -> int | str:
        """Its name among the missing parts."""
        return {Part.HEADER: "header", Part.TRAILER: "trailer"}.get(Part(self.part), self.fragment)


class Assembly:
    """The parts of one large message that are in the queue."""

    __slots__ = (
        "_last_fragment",
        "closed",
        "correlation_id",
        "count",
        "duplicate",
        "fragments",
        "header",
        "held",
        "key",
        "numbers",
        "refused",
        "route",
        "size",
        "trailer",
        "transaction",
    )

    def __init__(self, key: SequenceKey, transaction: int, route: int = 0) -> None:
        self.key = key
        self.route = route
        self.transaction = transaction
        self.correlation_id: str | None = None
        self.header = 0
        self.trailer = 0
        self.count = 0
        self.numbers = array("I")
        self.fragments = array("Q")
        self.size = 0
        self._last_fragment = 0
        self.held = 0
        self.closed = False
        self.duplicate = False
        self.refused = ""
        """Why what is missing cannot be sent again; empty as long as it may be."""

    def __contains__(self, lookup_id: int) -> bool:
        """Whether the part at a position is one of it."""
        return lookup_id in (self.header, self.trailer) or lookup_id in self.fragments

    def add_fragment(self, seen: PartSeen) -> None:
        """Note a fragment: behind all others, or where it was missing."""
        number = seen.fragment & 0xFFFFFFFF
        at = bisect_left(self.numbers, number)
        self.duplicate |= at < len(self.numbers) and self.numbers[at] == number
        self.numbers.insert(at, number)
        self.fragments.insert(at, seen.lookup_id)
        self.size += seen.size
        self._last_fragment = max(self._last_fragment, seen.lookup_id)

    def lost_fragment(self, lookup_id: int) -> None:
        """The fragment at a position is noted no more."""
        if lookup_id == self._last_fragment:
            self._last_fragment = max(self.fragments, default=0)

    def parts(self) -> Iterator[tuple[int | str, int]]:
        """Name (number, "header" or "trailer") and position of each part that is there."""
        yield from zip(self.numbers, self.fragments, strict=True)
        ends = (("header", self.header), ("trailer", self.trailer))
        yield from (end for end in ends if end[1])

    @property
    def decided(self) -> bool:
        """Whether the message is whole or holed, rather than in flight.

        A gap alone does not decide: parts that still come would be taken for another message.
        """
        return self.closed

    @property
    def whole(self) -> bool:
        """Whether every part is there, once and in order."""
        return bool(self.trailer) and not self.missing()

    @property
    def first(self) -> int:
        """Position of the first part that is there: the header, if it is."""
        return self.header or (self.fragments[0] if self.fragments else self.trailer)

    @property
    def last(self) -> int:
        """Position of the last part that is there; not of the trailer if one was sent again."""
        return max(self.trailer, self.header, self._last_fragment)

    def lookup_ids(self) -> list[int]:
        """Positions of all parts that are there, in order."""
        ends = [lookup_id for lookup_id in (self.header, self.trailer) if lookup_id]
        return sorted([*ends, *self.fragments])

    def missing(self) -> list[Missing]:
        """The missing parts, as far as the present ones can tell."""
        found: list[Missing] = [] if self.header else ["header"]
        expected = 1
        for number in self.numbers:
            if number > expected:
                found.append([expected, number - 1])
            expected = max(expected, number + 1)
        if self.trailer:
            if expected <= self.count:
                found.append([expected, self.count])
            elif expected - 1 > self.count:
                found.append([self.count + 1, expected - 1])
        else:
            found.append("trailer")
        if self.duplicate and not found:
            found.append("duplicate")
        return found


class LargeParts:
    """All assemblies of one queue, in the order of their first parts."""

    def __init__(self) -> None:
        self._assemblies: dict[SequenceKey, Assembly] = {}
        self._open: dict[int, dict[SequenceKey, Assembly]] = {}

    def __len__(self) -> int:
        """The number of large messages."""
        return len(self._assemblies)

    def __iter__(self) -> Iterator[Assembly]:
        """All of them."""
        return iter(self._assemblies.values())

    def get(self, key: SequenceKey) -> Assembly | None:
        """The assembly of one large message."""
        return self._assemblies.get(key)

    def added(self, seen: PartSeen) -> None:
        """A part joined the queue."""
        assembly = self._assemblies.get(seen.key)
        first = seen.lookup_id if assembly is None else assembly.first
        if assembly is None:
            assembly = Assembly(seen.key, seen.transaction, seen.route)
            self._assemblies[seen.key] = assembly
            self._open.setdefault(seen.route, {})[seen.key] = assembly
        match seen.part:
            case Part.HEADER:
                assembly.duplicate |= bool(assembly.header)
                assembly.header = seen.lookup_id
                assembly.correlation_id = seen.correlation_id
            case Part.TRAILER:
                assembly.duplicate |= bool(assembly.trailer)
                assembly.trailer, assembly.count = seen.lookup_id, seen.fragment_count
                self._close(assembly)
            case _:
                assembly.add_fragment(seen)
        if assembly.first != first:
            self._sort()

    def source_went_on(self, route: int, transaction: int, *, ended: bool) -> None:
        """A message of `transaction` came by a route: what was in flight of others by it is over.

        With `ended` it was the last of its transaction, and what is in flight of that is over too.
        """
        under_way = self._open.get(route)
        if not under_way:
            return
        for assembly in list(under_way.values()):
            if ended or assembly.transaction != transaction:
                self._close(assembly)

    def removed(self, seen: PartSeen) -> None:
        """A part left the queue by itself."""
        assembly = self._assemblies.get(seen.key)
        if assembly is None:
            return
        first = assembly.first
        if seen.lookup_id == assembly.header:
            assembly.header = 0
        elif seen.lookup_id == assembly.trailer:
            assembly.trailer = 0
        elif seen.lookup_id in assembly.fragments:
            at = assembly.fragments.index(seen.lookup_id)
            del assembly.fragments[at], assembly.numbers[at]
            assembly.size -= seen.size
            assembly.lost_fragment(seen.lookup_id)
        if not (assembly.header or assembly.trailer or assembly.fragments):
            self.dropped(seen.key)
        elif assembly.first != first:
            self._sort()

    def dropped(self, key: SequenceKey) -> None:
        """All parts of a large message left the queue."""
        assembly = self._assemblies.pop(key, None)
        if assembly is not None:
            self._close(assembly)

    def ready(self) -> Iterator[Assembly]:
        """Large messages that are decided and wholly available, in order."""
        return (each for each in self._assemblies.values() if not each.held and each.decided)

    def _sort(self) -> None:
        """Keep the order of first parts when one has lost its first."""
        ordered = sorted(self._assemblies.items(), key=lambda item: item[1].first)
        self._assemblies = dict(ordered)

    def _close(self, assembly: Assembly) -> None:
        assembly.closed = True
        under_way = self._open.pop(assembly.route, {})
        under_way.pop(assembly.key, None)
        if under_way:
            self._open[assembly.route] = under_way
