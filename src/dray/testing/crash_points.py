"""Every state that a power failure may leave behind, from a recording of what was done to a disk.

Unsynced changes may be there or not, in any combination. So the states worth looking at are
those right before something becomes durable: whatever a failure at an earlier moment can leave is
one of the combinations there. A `CrashPoint` is such a moment; `choices` combines what is not
synced at it (each write kept, lost or torn; each new name kept or lost), all combinations where
they are few, else none, all, every prefix, all but one, one alone, and some by chance; `disk`
builds what would be found.

    operations    write  write  sync  write  rename  sync directory ...
                                ^                    ^
    points                      |                    |

Nothing is drawn twice, and what is durable is shared by all states of a point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import Final, NamedTuple

from dray.testing.disk import Operation, SimDisk
from dray.testing.inode import Change, Image, NameChange, some_sectors, sync_names

ALL_COMBINATIONS_OF: Final = 5
"""All combinations of up to so many unsynced changes are looked at: 32."""
KEPT, LOST, TORN_TAIL, TORN_SECTORS = range(4)
Choice = tuple[int, ...]
"""For each unsynced change what becomes of it."""


class _Picture:
    """A file without its name: what is durable of it, and what was done since."""

    def __init__(self) -> None:
        self.durable = Image()
        self.unsynced: list[Change] = []

    def write(self, change: Change) -> None:
        """Only the newest of several writes to one place is looked at."""
        if self.unsynced and _same_place(change, self.unsynced[-1]):
            self.unsynced.pop()
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            self.durable.apply(change)
        self.unsynced.clear()


class CrashPoint(NamedTuple):
    """A moment in a recording, behind `done` operations."""

    done: int
    names: dict[str, _Picture]
    unsynced_names: list[NameChange[_Picture]]
    pictures: list[_Picture]

    @property
    def changes(self) -> int:
        """The number of changes that are not synced."""
        return len(self.unsynced_names) + sum(len(each.unsynced) for each in self.pictures)

    @property
    def told(self) -> str:
        """The changes, for people."""
        named = [f"name {change.name}" for change in self.unsynced_names]
        files = {id(picture): name for name, picture in self.names.items()}
        for picture in self.pictures:
            name = files.get(id(picture), "a file without a sure name")
            named += [f"{name} at {change.offset}" for change in picture.unsynced]
        return ", ".join(named)

    def choices(self, rng: Random, *, chances: int) -> list[Choice]:
        """Their possible fates; `chances` says how many are left to chance."""
        count = self.changes
        found: dict[Choice, None] = {}
        if count <= ALL_COMBINATIONS_OF:
            found.update(dict.fromkeys(product((KEPT, LOST), repeat=count)))
        else:
            found.update(dict.fromkeys(_told_apart(count)))
        for at in range(count):
            for torn in (TORN_TAIL, TORN_SECTORS):
                found[(KEPT,) * at + (torn,) + (rng.choice((KEPT, LOST)),) * (count - at - 1)] = (
                    None
                )
        for _ in range(chances):
            found[tuple(rng.randrange(4) for _ in range(count))] = None
        return list(found)

    def disk(self, choice: Choice, rng: Random) -> SimDisk:
        """Build the disk that is found after a failure with that outcome."""
        fates = iter(choice)
        names = dict(self.names)
        for change, fate in zip(self.unsynced_names, fates, strict=False):
            if fate != LOST:
                change.apply(names)
        survived = {}
        for picture in self.pictures:
            chosen = [(change, next(fates)) for change in picture.unsynced]
            survived[id(picture)] = _survivor(picture, chosen, rng)
        disk = SimDisk(rng)
        for name, picture in names.items():
            _put(disk, name, survived.get(id(picture), picture.durable))
        for folder in {name.rpartition("/")[0] for name in names}:
            disk.sync_directory(folder)
        return disk


def crash_points(operations: Iterable[Operation], base: SimDisk | None) -> Iterator[CrashPoint]:
    """All points of a recording that began on `base`, or on an empty disk. Use each before next."""
    recorded = _Recorded(base)
    fresh, done = True, 0
    for done, operation in enumerate(operations):
        durable_now = operation.verb in ("sync", "sync_directory")
        if durable_now and fresh:
            yield recorded.point(done)
        fresh = not durable_now or recorded.syncs_something(operation)
        recorded.replay(operation)
    yield recorded.point(done + 1)


class _Recorded:
    """A disk as a recording has made it so far."""

    def __init__(self, base: SimDisk | None) -> None:
        self._names: dict[str, _Picture] = {}
        self._durable: dict[str, _Picture] = {}
        self._unsynced: list[NameChange[_Picture]] = []
        for folder in ("", "lqs", "quarantine") if base is not None else ():
            for plain in base.names(folder) if base is not None else ():
                name = f"{folder}/{plain}" if folder else plain
                picture = self._names[name] = self._durable[name] = _Picture()
                image = base.image(name) if base is not None else b""
                picture.durable = Image(image.rstrip(b"\0"), len(image))

    def point(self, done: int) -> CrashPoint:
        pictures = {id(each): each for each in (*self._durable.values(), *self._names.values())}
        for change in self._unsynced:
            if change.file is not None:
                pictures[id(change.file)] = change.file
        unsynced = [each for each in pictures.values() if each.unsynced]
        return CrashPoint(done, dict(self._durable), list(self._unsynced), unsynced)

    def syncs_something(self, operation: Operation) -> bool:
        if operation.verb == "sync_directory":
            return any(change.is_in(operation.name) for change in self._unsynced)
        return bool(self._names[operation.name].unsynced)

    def replay(self, operation: Operation) -> None:
        verb, name = operation.verb, operation.name
        match verb:
            case "create":
                self._rename(NameChange(name, self._names.get(name) or _Picture()))
            case "write":
                self._names[name].write(Change(operation.offset, operation.data))
            case "resize":
                self._names[name].unsynced.append(Change(operation.offset, None))
            case "sync":
                self._names[name].sync()
            case "sync_directory":
                self._unsynced = sync_names(self._unsynced, name, self._durable)
            case "rename":
                self._rename(NameChange(operation.other, self._names[name], gone=name))
            case "remove":
                self._rename(NameChange(name, None))
            case _:
                assert verb == "mark", f"nobody knows what {verb} does to a disk"

    def _rename(self, change: NameChange[_Picture]) -> None:
        change.apply(self._names)
        self._unsynced.append(change)


def _same_place(one: Change, other: Change) -> bool:
    if one.data is None or other.data is None:
        return False
    return (one.offset, len(one.data)) == (other.offset, len(other.data))


def _told_apart(count: int) -> Iterator[Choice]:
    """None, all, every prefix, all but one, and one alone."""
    for kept in range(count + 1):
        yield (KEPT,) * kept + (LOST,) * (count - kept)
    for at in range(count):
        for one, others in ((LOST, KEPT), (KEPT, LOST)):
            yield (others,) * at + (one,) + (others,) * (count - at - 1)


def _survivor(picture: _Picture, chosen: list[tuple[Change, int]], rng: Random) -> Image:
    survivor = picture.durable.copy()
    for change, fate in chosen:
        if fate == KEPT or (change.data is None and fate != LOST):
            survivor.apply(change)
        elif fate == TORN_TAIL and change.data:
            rest = change.data[: rng.randrange(len(change.data))]
            survivor.apply(Change(change.offset, rest))
        elif fate == TORN_SECTORS and change.data:
            for start, stop in some_sectors(change.offset, len(change.data), rng):
                survivor.apply(Change(change.offset + start, change.data[start:stop]))
    return survivor


def _put(disk: SimDisk, name: str, image: Image) -> None:
    file = disk.open(name, size=image.size)
    if image.data:
        file.write(image.data, 0)
    file.sync()
