"""One file of a simulated disk: what a process reads, what is durable, what a crash makes of it.

A file is two pictures of its bytes, and the writes and changes of size between them: those that no
sync covered yet. A crash loses, keeps or tears each of them. Tearing is by any subset of sectors of
512 bytes, or at any single byte: stricter than any disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from random import Random
from typing import Final, Generic, NamedTuple, TypeVar

SECTOR: Final = 512
_LOST, _KEPT, _TORN = range(3)
Named = TypeVar("Named")


class CrashEffect(Enum):
    """The effect of a crash on bytes that were not synced."""

    LOST = "all of it is gone"
    KEPT = "all of it is there"
    CHANCE = "each write is lost, kept or torn"
    TORN_LAST = "all of it is there, but the last write is torn"


class Change(NamedTuple):
    """A write of `data` at `offset` of a file; without `data` a new size, `offset`."""

    offset: int
    data: bytes | None


class Image:
    """The bytes of a file. Those beyond `data` are zeros, so allocation costs nothing."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes | bytearray = b"", size: int = 0) -> None:
        """Copy the bytes."""
        self.data = bytearray(data)
        self.size = size

    def copy(self) -> Image:
        """The same, to be changed apart."""
        return Image(self.data, self.size)

    def apply(self, change: Change) -> None:
        """Make a change."""
        offset, data = change
        if data is None:
            del self.data[offset:]
            self.size = offset
            return
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        stop = offset + len(data)
        self.data[offset:stop] = data
        self.size = max(self.size, stop)


class Inode:
    """A file without its name."""

    __slots__ = ("cached", "durable", "unsynced")

    def __init__(self) -> None:
        self.cached, self.durable = Image(), Image()
        self.unsynced: list[Change] = []

    def make(self, change: Change) -> None:
        """Make a change that no sync covers yet."""
        self.cached.apply(change)
        self.unsynced.append(change)

    def sync(self) -> None:
        """Make everything durable."""
        for change in self.unsynced:
            self.durable.apply(change)
        self.unsynced.clear()

    def after_crash(self, fate: CrashEffect, rng: Random) -> Inode:
        """Say what is found after a power failure; this one stays as it is."""
        survivor = Inode()
        survivor.durable = self.durable.copy()
        for change in _survivors(self.unsynced, fate, rng):
            survivor.durable.apply(change)
        survivor.cached = survivor.durable.copy()
        return survivor

    def after_kill(self) -> Inode:
        """Give the same file to the next process."""
        survivor = Inode()
        survivor.cached, survivor.durable = self.cached, self.durable
        survivor.unsynced = self.unsynced
        return survivor


def _survivors(changes: list[Change], fate: CrashEffect, rng: Random) -> Iterator[Change]:
    if fate is CrashEffect.LOST:
        return
    for number, change in enumerate(changes, 1):
        torn = fate is CrashEffect.TORN_LAST and number == len(changes)
        chance = rng.randrange(3) if fate is CrashEffect.CHANCE else _KEPT
        if change.data is not None and (torn or chance == _TORN):
            yield from _torn(change.offset, change.data, rng)
        elif chance != _LOST:
            yield change


def _torn(offset: int, data: bytes, rng: Random) -> Iterator[Change]:
    if rng.randrange(2):
        yield Change(offset, data[: rng.randrange(len(data) + 1)])
        return
    for start, stop in some_sectors(offset, len(data), rng):
        yield Change(offset + start, data[start:stop])


def some_sectors(offset: int, length: int, rng: Random) -> Iterator[tuple[int, int]]:
    """The pieces of a write at `offset` left by a tear: start and stop in it, by whole sectors."""
    start = 0
    while start < length:
        stop = min(length, start + SECTOR - (offset + start) % SECTOR)
        if rng.randrange(2):
            yield start, stop
        start = stop


class NameChange(NamedTuple, Generic[Named]):
    """`file` has `name` from now on, or nothing has it; `gone` is the name that it had before."""

    name: str
    file: Named | None
    gone: str = ""

    def apply(self, names: dict[str, Named]) -> None:
        """Make the change."""
        if self.gone:
            names.pop(self.gone, None)
        if self.file is not None:
            names[self.name] = self.file
        else:
            names.pop(self.name, None)

    def is_in(self, folder: str) -> bool:
        """Whether a sync of the folder makes it durable."""
        return folder in (_folder_of(self.name), _folder_of(self.gone or self.name))


def sync_names(
    unsynced: list[NameChange[Named]], folder: str, durable: dict[str, Named]
) -> list[NameChange[Named]]:
    """Make the changes of a folder durable; give those that are still not synced."""
    for change in unsynced:
        if change.is_in(folder):
            change.apply(durable)
    return [change for change in unsynced if not change.is_in(folder)]


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]
