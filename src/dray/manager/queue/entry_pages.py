"""Packed entries of one length, in the order of their keys, in pages that never change.

    pages   | e e e e e e | e e e | e e e e e e e |     each a bytes object, at most PAGE_ENTRIES
    lasts   |           e |     e |             e |     the key of the last entry of each

The first `key_bytes` of an entry are its key; keys are unique and sort as bytes do. A change makes
a new page, one copy of some kilobytes, which costs less than what else is done for a message; so
whoever goes through the pages sees each as it was when he came to it, whatever happens meanwhile.
Entries that join at the end, as most do, and entries that leave or come back side by side, are put
in and taken out by the run: no work for each entry. Keys that are numbers in a row are found
without a search.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain, pairwise
from struct import Struct

PAGE_ENTRIES = 256
"""A page of 79-byte entries has 20 KB: copied in a microsecond, and a million entries in four
thousand pages."""


class EntryPages:
    """A sorted set of entries by key."""

    def __init__(self, entry_bytes: int, key_bytes: int) -> None:
        """Begin empty; of each entry's `entry_bytes` the first `key_bytes` are its key."""
        self._entry = entry_bytes
        self._apart = Struct(f"{entry_bytes}s")
        self._key = key_bytes
        self._page = PAGE_ENTRIES * entry_bytes
        self._pages: list[bytes] = []
        self._lasts: list[bytes] = []
        self._count = 0

    def __len__(self) -> int:
        """The number of entries."""
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        """All entries in order."""
        return self.behind(b"")

    def first(self) -> bytes | None:
        """The lowest entry."""
        return self._pages[0][: self._entry] if self._pages else None

    def last(self) -> bytes | None:
        """The highest entry."""
        return self._pages[-1][-self._entry :] if self._pages else None

    def leads(self) -> range:
        """The first bytes of all keys, and those between; most pages have one."""
        return range(self._pages[0][0], self._lasts[-1][0] + 1) if self._pages else range(0)

    def packed(self) -> bytes:
        """All entries in order, one behind the other."""
        return b"".join(self._pages)

    def run_from(self, key: bytes, following: bytes) -> bytes:
        """The entry of a key, and all behind it in its page if the next has the key `following`."""
        at = bisect_left(self._lasts, key)
        if at == len(self._lasts):
            return b""
        page = self._pages[at]
        slot = self._slot(page, key)
        if not page.startswith(key, slot):
            return b""
        behind = slot + self._entry
        return page[slot:] if page[behind : behind + self._key] == following else page[slot:behind]

    def find(self, key: bytes) -> bytes | None:
        """The entry of a key."""
        at = bisect_left(self._lasts, key)
        if at == len(self._lasts):
            return None
        page = self._pages[at]
        slot = self._slot(page, key)
        return page[slot : slot + self._entry] if page.startswith(key, slot) else None

    def behind(self, key: bytes) -> Iterator[bytes]:
        """Entries above a key, which need not be there, in order; no call for each."""
        apart = map(self._apart.iter_unpack, self.runs_behind(key))
        return chain.from_iterable(chain.from_iterable(apart))

    def runs_behind(self, key: bytes) -> Iterator[bytes]:
        """The same, as many in one piece as lie in one page."""
        while (at := bisect_right(self._lasts, key)) < len(self._lasts):
            page = self._pages[at]
            start = self._slot_behind(page, key)
            key = self._lasts[at]
            yield page[start:]

    def between(self, low: bytes, high: bytes) -> bytes:
        """The same up to another key, all in one piece."""
        pieces = []
        for run in self.runs_behind(low):
            stop = self._slot_behind(run, high)
            pieces.append(run[:stop])
            if stop < len(run):
                break
        return b"".join(pieces)

    def take_upto(self, key: bytes) -> bytes:
        """Take out all entries at or below a key; give them one behind the other."""
        at = bisect_right(self._lasts, key)
        taken = self._pages[:at]
        del self._pages[:at], self._lasts[:at]
        if self._pages:
            page = self._pages[0]
            stop = self._slot_behind(page, key)
            if stop:
                taken.append(page[:stop])
                self._pages[0] = page[stop:]
        packed = b"".join(taken)
        self._count -= len(packed) // self._entry
        return packed

    def add(self, entries: bytes) -> None:
        """Put entries that are in order at their places; their keys are not there yet.

        Those between two that are there, or behind all, go in by the run.
        """
        start = 0
        while start < len(entries):
            key = entries[start : start + self._key]
            if not self._lasts or key > self._lasts[-1]:
                self._append(entries[start:])
                return
            at = bisect_left(self._lasts, key)
            page = self._pages[at]
            slot = self._slot(page, key)
            assert not page.startswith(key, slot), "an entry with this key is there already"
            stop = self._slot(entries, page[slot : slot + self._key])
            self._put(at, page[:slot] + entries[start:stop] + page[slot:])
            self._count += (stop - start) // self._entry
            start = stop

    def append(self, entries: bytes) -> None:
        """Add entries that are in order, one behind the other, and above all that are there."""
        if entries:
            assert not self._lasts or entries[: self._key] > self._lasts[-1], "they are not above"
            self._append(entries)

    def replace(self, run: bytes) -> None:
        """Put entries in the place of those that have their keys, side by side in one page."""
        at, slot = self._at(run[: self._key])
        page = self._pages[at]
        self._pages[at] = page[:slot] + run + page[slot + len(run) :]

    def take(self, entries: bytes) -> None:
        """Take out entries that are there, given one behind the other; by the run, if they lie so.

        Entries that go one by one are right as well, and cost more.
        """
        start = 0
        while start < len(entries):
            at, slot = self._at(entries[start : start + self._key])
            page = self._pages[at]
            together = min(len(page) - slot, len(entries) - start)
            if not page.startswith(entries[start : start + together], slot):
                together = self._entry
            self._cut(at, slot, slot + together)
            start += together

    def _cut(self, at: int, slot: int, stop: int) -> None:
        """Take a piece out of a page."""
        page = self._pages[at]
        self._count -= (stop - slot) // self._entry
        if stop - slot == len(page):
            del self._pages[at], self._lasts[at]
            return
        self._pages[at] = rest = page[:slot] + page[stop:]
        if stop == len(page):
            self._lasts[at] = self._last_key(rest)

    def _at(self, key: bytes) -> tuple[int, int]:
        """The page of an entry that is there, and where in it the entry begins."""
        at = bisect_left(self._lasts, key)
        slot = self._slot(self._pages[at], key)
        assert self._pages[at].startswith(key, slot), "there is no entry with this key"
        return at, slot

    def _append(self, entries: bytes) -> None:
        self._count += len(entries) // self._entry
        if self._pages and len(self._pages[-1]) < self._page:
            entries = self._pages[-1] + entries
            if len(entries) <= self._page:
                self._pages[-1] = entries
                self._lasts[-1] = self._last_key(entries)
                return
            del self._pages[-1], self._lasts[-1]
        for start in range(0, len(entries), self._page):
            page = entries[start : start + self._page]
            last = len(page) - self._entry
            self._pages.append(page)
            self._lasts.append(page[last : last + self._key])

    def _put(self, at: int, page: bytes) -> None:
        """Let a page be another one with the same last key, in equal pieces if it is too long."""
        if len(page) <= self._page:
            self._pages[at] = page
            return
        count, parts = len(page) // self._entry, -(-len(page) // self._page)
        cuts = [count * part // parts * self._entry for part in range(parts + 1)]
        pieces = [page[start:stop] for start, stop in pairwise(cuts)]
        self._pages[at : at + 1] = pieces
        self._lasts[at : at + 1] = map(self._last_key, pieces)

    def _last_key(self, page: bytes) -> bytes:
        start = len(page) - self._entry
        return page[start : start + self._key]

    def _slot_behind(self, page: bytes, key: bytes) -> int:
        """The offset in a page of the first entry above a key."""
        if page[: self._key] > key:
            return 0
        slot = self._slot(page, key)
        return slot + self._entry if page.startswith(key, slot) else slot

    def _slot(self, page: bytes, key: bytes) -> int:
        """The offset in a page of the first entry that is not below a key."""
        first = int.from_bytes(page[: self._key], "big")
        guess = (int.from_bytes(key, "big") - first) * self._entry
        if 0 <= guess < len(page) and page.startswith(key, guess):
            return guess
        low, high = 0, len(page) // self._entry
        while low < high:
            middle = (low + high) // 2
            start = middle * self._entry
            if page[start : start + self._key] < key:
                low = middle + 1
            else:
                high = middle
        return low * self._entry
