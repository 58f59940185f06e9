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


class Inode:
    """A file without its name. Bytes beyond the content are zeros, so allocation costs nothing."""

    __slots__ = ("cached", "durable", "durable_size", "size", "unsynced")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.size = 0
        self.durable = bytearray()
        self.durable_size = 0
        self.unsynced: list[_Write | _Resize] = []

    def write(self, data: bytes, offset: int) -> None:
        """Write what no sync covers yet."""
        stop = patch(self.cached, data, offset)
        self.size = max(self.size, stop)
        self.unsynced.append(_Write(offset, data))

    def resize(self, size: int) -> None:
        """Cut or extend; no sync covers that yet."""
        del self.cached[size:]
        self.size = size
        self.unsynced.append(_Resize(size))

    def sync(self) -> None:
        """Make everything durable."""
        if self.unsynced:
            for change in self.unsynced:
                self._make_durable(change)
            self.unsynced.clear()

    def after_crash(self, fate: CrashEffect, rng: Random) -> Inode:
        """Say what is found after a power failure; this one stays as it is."""
        survivor = Inode()
        survivor.durable = bytearray(self.durable)
        survivor.durable_size = self.durable_size
        for change in _survivors(self.unsynced, fate, rng):
            survivor._make_durable(change)
        survivor.cached = bytearray(survivor.durable)
        survivor.size = survivor.durable_size
        return survivor

    def after_kill(self) -> Inode:
        """Give the same file to the next process."""
        survivor = Inode()
        survivor.cached, survivor.size = self.cached, self.size
        survivor.durable, survivor.durable_size = self.durable, self.durable_size
        survivor.unsynced = self.unsynced
        return survivor

    def _make_durable(self, change: _Write | _Resize) -> None:
        if isinstance(change, _Write):
            stop = patch(self.durable, change.data, change.offset)
            self.durable_size = max(self.durable_size, stop)
        else:
            del self.durable[change.size :]
            self.durable_size = change.size


class _Write(NamedTuple):
    offset: int
    data: bytes


class _Resize(NamedTuple):
    size: int


def patch(image: bytearray, data: bytes, offset: int) -> int:
    """Put `data` where it belongs; where it ends."""
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    stop = offset + len(data)
    image[offset:stop] = data
    return stop


def _survivors(
    changes: list[_Write | _Resize], fate: CrashEffect, rng: Random
) -> Iterator[_Write | _Resize]:
    if fate is CrashEffect.LOST:
        return
    for number, change in enumerate(changes, 1):
        torn = fate is CrashEffect.TORN_LAST and number == len(changes)
        chance = rng.randrange(3) if fate is CrashEffect.CHANCE else _KEPT
        if isinstance(change, _Write) and (torn or chance == _TORN):
            yield from _torn(change, rng)
        elif chance != _LOST:
            yield change


def _torn(write: _Write, rng: Random) -> Iterator[_Write]:
    if rng.randrange(2):
        yield _Write(write.offset, write.data[: rng.randrange(len(write.data) + 1)])
        return
    for start, stop in some_sectors(write.offset, len(write.data), rng):
        yield _Write(write.offset + start, write.data[start:stop])


def some_sectors(offset: int, length: int, rng: Random) -> Iterator[tuple[int, int]]:
    """Which pieces of a write at `offset` a tear leaves: start and stop in it, by whole sectors."""
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
