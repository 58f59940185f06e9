"""A disk that forgets what was not synced.

`SimDisk` keeps two pictures of every file: what a process would read now, and what is durable
together with the writes since. `crash()` is a power failure: it gives a new disk on which every
unsynced write was independently lost, kept, or torn, and every unsynced name too. `kill()` is the
death of the process alone: everything is still there, still not durable.

    disk = SimDisk(random.Random(7))
    disk = disk.crash()        # the old one answers nothing any more

Faults: `full_after(n)` refuses writes and allocations beyond n more bytes; `fail_sync(n)` and
`fail_write(n)` fail the n-th from now with an input/output error, the write after leaving part of
it behind. `recorded(operations)` notes every operation.

`inode` tells what a crash does to one file.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from dray.errors import StoreCorrupt, StoreFull, StoreLocked, StorePoisoned
from dray.store.disk import MESSAGE_FILE_UNREADABLE, ReadableBuffer
from dray.testing.inode import Change, CrashEffect, Inode, NameChange, sync_names

__all__ = ["CrashEffect", "Operation", "SimDisk", "SimFile"]


class Operation(NamedTuple):
    """One change of the disk, as recorded: `verb` tells which of the rest count."""

    verb: str
    name: str = ""
    offset: int = 0
    data: bytes = b""
    other: str = ""


class SimFile:
    """A file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, name: str, inode: Inode) -> None:
        """Open `inode`, which has `name` on `disk`."""
        self.name = name
        self._disk = disk
        self._inode = inode

    def write(self, data: ReadableBuffer, offset: int) -> None:
        """Write all of `data`, unless a fault was asked for."""
        image = bytes(data)
        disk, inode, length = self._disk, self._inode, len(image)
        kept, error = disk.admit_write(self.name, length, offset + length - inode.cached.size)
        if kept:
            image = image[:kept]
            if disk.is_recorded:
                disk.record(Operation("write", self.name, offset, image))
            inode.make(Change(offset, image))
        if error is not None:
            raise error

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill `view` with what was written last, synced or not."""
        self._disk.check_readable(self.name)
        image = self._inode.cached
        length = max(0, min(len(view), image.size - offset))
        piece = memoryview(image.data)[offset : offset + length]
        there = len(piece)
        view[:there] = piece
        if there < length:
            view[there:length] = bytes(length - there)
        return length

    def begin_writing(self) -> None:
        """Nothing: what is not synced may be on the disk at any time."""

    def sync(self) -> None:
        """Make bytes and size durable, unless a fault was asked for."""
        self._disk.admit_sync(self.name)
        if self._disk.is_recorded:
            self._disk.record(Operation("sync", self.name))
        self._inode.sync()

    def truncate(self, size: int) -> None:
        """Cut or extend."""
        self._disk.check_alive()
        self._disk.record(Operation("resize", self.name, size))
        self._inode.make(Change(size, None))

    def size(self) -> int:
        """Bytes in the file."""
        self._disk.check_alive()
        return self._inode.cached.size

    def descriptor(self) -> int:
        """Raise: memory has no descriptor."""
        raise NotImplementedError("a simulated file has no descriptor")

    def close(self) -> None:
        """Do nothing; there is no descriptor to give back."""


class SimDisk:
    """The storage folder of one data directory, in memory."""

    def __init__(self, rng: Random, *, capacity: int = 1 << 40) -> None:
        """Be empty; `rng` decides every crash, `capacity` is what all files together may have."""
        self._rng = rng
        self._capacity = capacity
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._unsynced_names: list[NameChange[Inode]] = []
        self._locked = False
        self._dead = False
        self._write_fault = 0
        self._sync_fault = 0
        self._unreadable: set[str] = set()
        self._operations: list[Operation] | None = None
        self.is_recorded = False
        """Whether anybody listens to operations, which are not made for nobody."""
        self.syncs = 0

    # ----------------------------------------------------------------- the protocol of a disk

    def lock(self) -> None:
        """Lock; a second store on the same disk is refused."""
        self.check_alive()
        if self._locked:
            raise StoreLocked("the simulated disk is in use", directory="sim", pid="0")
        self._locked = True

    def open(self, name: str, *, size: int = 0) -> SimFile:
        """Open, made if missing, with at least `size` bytes."""
        self.check_alive()
        inode = self._names.get(name)
        self._admit_growth(name, size - (inode.cached.size if inode else 0))
        if inode is None:
            inode = self._names[name] = Inode()
            self.record(Operation("create", name))
            self._unsynced_names.append(NameChange(name, inode))
        if inode.cached.size < size:
            self.record(Operation("resize", name, size))
            inode.make(Change(size, None))
        return SimFile(self, name, inode)

    def open_to_read(self, name: str) -> int:
        """Raise: memory has no descriptor."""
        raise NotImplementedError(f"{name} is simulated and has no descriptor")

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        self.check_alive()
        return name in self._names

    def names(self, folder: str = "") -> list[str]:
        """The files of a folder, sorted."""
        self.check_alive()
        return sorted(
            plain for at, _, plain in (name.rpartition("/") for name in self._names) if at == folder
        )

    def not_files(self) -> list[str]:
        """Nothing: here are only files."""
        self.check_alive()
        return []

    def had_store(self) -> bool:
        """Nothing tells: here are only files."""
        return False

    def rename(self, old: str, new: str) -> None:
        """Give `old` the name `new`."""
        self.check_alive()
        self.record(Operation("rename", old, other=new))
        inode = self._names[new] = self._names.pop(old)
        self._unsynced_names.append(NameChange(new, inode, gone=old))

    def remove(self, name: str) -> None:
        """Take the name away."""
        self.check_alive()
        self.record(Operation("remove", name))
        del self._names[name]
        self._unsynced_names.append(NameChange(name, None))

    def sync_directory(self, folder: str = "") -> None:
        """Make names of a folder durable, unless a fault was asked for."""
        self.admit_sync(folder or "the directory")
        self.record(Operation("sync_directory", folder))
        self._unsynced_names = sync_names(self._unsynced_names, folder, self._durable_names)

    def free_bytes(self) -> int:
        """Room that is left."""
        return self._capacity - sum(inode.cached.size for inode in self._names.values())

    def close(self) -> None:
        """Give up the lock."""
        self._locked = False

    # ------------------------------------------------------------------- deaths and damage

    def crash(self, fate: CrashEffect = CrashEffect.CHANCE) -> SimDisk:
        """Fail the power: the disk as it is found afterwards. This one is dead from now on."""
        after = self.after_crash(fate)
        self._dead = True
        return after

    def after_crash(self, fate: CrashEffect = CrashEffect.CHANCE) -> SimDisk:
        """Say what would be found if the power failed now; this disk lives on."""
        after = SimDisk(self._rng, capacity=self._capacity)
        names = dict(self._durable_names)
        for change in self._unsynced_names:
            if fate is CrashEffect.CHANCE and self._rng.randrange(2):
                continue
            if fate is not CrashEffect.LOST:
                change.apply(names)
        for name, inode in sorted(names.items()):
            after._names[name] = inode.after_crash(fate, self._rng)
        after._durable_names = dict(after._names)
        return after

    def kill(self) -> SimDisk:
        """Kill the process: everything is there, nothing more is durable. This one is dead."""
        after = SimDisk(self._rng, capacity=self._capacity)
        inodes = {*self._names.values(), *self._durable_names.values()}
        survivors = {id(inode): inode.after_kill() for inode in inodes}
        after._names = {name: survivors[id(inode)] for name, inode in self._names.items()}
        after._durable_names = {
            name: survivors[id(inode)] for name, inode in self._durable_names.items()
        }
        for change in self._unsynced_names:
            inode = change.file and (survivors.get(id(change.file)) or change.file.after_kill())
            after._unsynced_names.append(change._replace(file=inode))
        self._dead = True
        return after

    def image(self, name: str) -> bytes:
        """The bytes of a file as a process would read them."""
        image = self._names[name].cached
        return bytes(image.data) + bytes(image.size - len(image.data))

    def damage(self, name: str, offset: int, data: bytes) -> None:
        """Change durable bytes behind everybody's back."""
        inode = self._names[name]
        for image in (inode.cached, inode.durable):
            image.apply(Change(offset, data))

    def cut_off(self, name: str, size: int) -> None:
        """Make a file shorter behind everybody's back."""
        inode = self._names[name]
        for image in (inode.cached, inode.durable):
            image.apply(Change(size, None))

    def lose(self, name: str) -> None:
        """Remove a file behind everybody's back."""
        del self._names[name]
        self._durable_names.pop(name, None)

    def make_unreadable(self, name: str) -> None:
        """Let every read of a file fail from now on."""
        self._unreadable.add(name)

    # ------------------------------------------------------------------------------- faults

    def full_after(self, size: int) -> None:
        """Have room for `size` more bytes and no more."""
        self._capacity = sum(inode.cached.size for inode in self._names.values()) + size

    def fail_write(self, nth: int = 1) -> None:
        """Fail the `nth` write from now, leaving part of it behind."""
        self._write_fault = nth

    def fail_sync(self, nth: int = 1) -> None:
        """Fail the `nth` sync from now; what it was to sync stays unsynced."""
        self._sync_fault = nth

    def check_alive(self) -> None:
        """Raise if the power failed or the process was killed."""
        if self._dead:
            raise StorePoisoned("the simulated machine is down")

    def check_readable(self, name: str) -> None:
        """Raise if the file cannot be read."""
        self.check_alive()
        if name in self._unreadable:
            sentence = f"{name} cannot be read: EIO"
            raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name)

    def admit_write(self, name: str, size: int, growth: int) -> tuple[int, Exception | None]:
        """The bytes of a write that reach the file, and the error to raise then."""
        self.check_alive()
        self._write_fault -= 1
        if self._write_fault == 0:
            return self._rng.randrange(size), StorePoisoned(f"could not write {name}: EIO")
        if growth > 0 and growth > self.free_bytes():
            return self._rng.randrange(size), StoreFull(f"there is no room to write {name}")
        return size, None

    def admit_sync(self, name: str) -> None:
        """Count a sync; raise if it is the one to fail."""
        self.check_alive()
        self.syncs += 1
        self._sync_fault -= 1
        if self._sync_fault == 0:
            raise StorePoisoned(f"could not sync {name}: EIO")

    def _admit_growth(self, name: str, growth: int) -> None:
        if growth > 0 and growth > self.free_bytes():
            raise StoreFull(f"there is no room to open {name}")

    # ---------------------------------------------------------------------------- recording

    def recorded(self, operations: list[Operation]) -> SimDisk:
        """Note every change in `operations` from now on; gives this disk."""
        self._operations, self.is_recorded = operations, True
        return self

    def record(self, operation: Operation) -> None:
        """Note one operation, if anybody listens. Verb "mark" is the workload's own."""
        if self._operations is not None:
            self._operations.append(operation)
