"""Received files in a directory: each is there whole or not at all, once, and replaces no other.

A file grows in a hidden folder of the directory. A note in that folder then says which message the
file belongs to and which transaction receives it, and only then the file is linked under its own
name. The note goes when the commit is certain. A message that comes again is known by its note: the
file that was placed for it stays. `docs/explanation/received-files.md` has the table of states.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from dray.client.files.partial_file import open_locked
from dray.errors import DrayError, InvalidConfiguration, TargetUnwritable
from dray.folders.labels import LastNumbers, file_name, numbered
from dray.folders.notes import PlacedNote, key_of, key_of_name, note_in
from dray.folders.unusable import unusable
from dray.fsync import sync_folder
from dray.model.classes import TransactionStatus
from dray.model.message import Buffer
from dray.own_files import is_of_this_user

_WAIT_S = 5.0
"""As long as one who receives the same message may take to end; see `partial_file`."""
_LOCK = "lock"
_KEPT = (".kept", ".kept.partial")


def directory(path: str) -> Path:
    """The directory at `path`, made if it is missing; raises `InvalidConfiguration`."""
    _make(Path(path))
    return Path(path)


class Item(NamedTuple):
    """The received message to place."""

    id: str
    label: str
    otherwise: str
    """A name for it if the label gives none."""
    transaction_id: str
    """The transaction that receives it; empty if none does."""
    write: Callable[[Path], object]
    """Writes the body into a new file."""
    is_body: Callable[[Path], bool]
    """Whether a file holds the body."""
    resumed: bool = False
    """Whether `write` goes on with what an earlier one left."""


class PlacedFile:
    """A file under its own name whose transaction is still open."""

    def __init__(self, path: Path, note: Path | None, lock: Path, descriptor: int) -> None:
        """Hold the lock of its message."""
        self.path = path
        self._note, self._lock, self._descriptor = note, lock, descriptor

    def close(self, *, committed: bool) -> None:
        """Release the lock on the message; without a commit its note stays."""
        try:
            if committed and self._note is not None:
                # If it cannot be removed, the next receiver does that: the commit stands.
                with suppress(OSError):
                    self._note.unlink()
        finally:
            _let_go(self._lock, self._descriptor)


class TargetFolder:
    """A directory that receives messages; a context manager.

    Raises `InvalidConfiguration` if it cannot be a directory. At the end it is removed if it was
    created here and is still empty.
    """

    def __init__(self, path: str, *, sync: bool = True) -> None:
        """Create the directory if it is missing; without `sync` no file is synced."""
        self.path = Path(path)
        self._sync = sync
        self._hidden = self.path / f".dray-{os.geteuid()}"
        self._descriptor: int | None = None
        self._opening = threading.Lock()
        self._numbers = LastNumbers()
        self._placed = False
        self._made = _make(self.path)
        if sync:
            for each in self._made:
                sync_folder(each.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The next receiver clears the files that cannot be cleared now.
        with suppress(TargetUnwritable):
            self.clear(None)
        for each in reversed(self._made if not self._placed else []):
            try:
                each.rmdir()
            except OSError:
                # Somebody else uses it.
                break

    def clear(self, outcome: Callable[[str], TransactionStatus] | None) -> None:
        """Remove the leftovers of killed receivers, if nobody else receives into the directory now.

        Call it between messages. `outcome` tells how a transaction ended; without it only an empty
        hidden folder is removed.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if not os.path.lexists(self._hidden):
            return
        try:
            self._check_hidden()
            descriptor, alone = open_locked(self._hidden / _LOCK, wait_s=0)
        except (BlockingIOError, FileNotFoundError):
            # Somebody else receives here, or has just ended.
            return
        except OSError as error:
            raise _translated(self.path, error) from error
        try:
            if alone and outcome is not None:
                self._sweep(outcome)
            if alone and self._names() == [_LOCK]:
                (self._hidden / _LOCK).unlink()
                self._hidden.rmdir()
        except OSError as error:
            raise _translated(self.path, error) from error
        finally:
            os.close(descriptor)

    def place(self, item: Item) -> PlacedFile:
        """Write a message's body under a free name made from its label; then it is durable.

        A file that an earlier attempt placed is kept.
        """
        key = key_of(item.id)
        lock = self._hidden / f"{key}.lock"
        try:
            self._open()
            descriptor, _ = open_locked(lock, wait_s=_WAIT_S)
        except BlockingIOError as error:
            raise TargetUnwritable(
                f"another receiver is receiving message {item.id} into {self.path}; receive"
                " again, the message is still in its queue",
                path=str(self.path),
            ) from error
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._hidden.exists():
                raise was_removed(self.path) from error
            raise _translated(self.path, error) from error
        try:
            placed = self._place(item, key)
        except BaseException as error:
            _let_go(lock, descriptor)
            if isinstance(error, OSError) and not isinstance(error, DrayError):
                raise _translated(self.path, error) from error
            raise
        self._placed = True
        return PlacedFile(*placed, lock, descriptor)

    def _place(self, item: Item, key: str) -> tuple[Path, Path | None]:
        """Give the file and its note."""
        notes = [each for each in self._notes() if each.key == key]
        body = self._hidden / f"{key}.{'kept' if item.resumed else 'part'}"
        for old in notes:
            final = self._with_inode(old.inode)
            if final is not None and item.is_body(final):
                note = self._note(key, old.inode, item.transaction_id)
                self._forget(key, but=note)
                self._sync_names()
                return final, note
        resumable = item.resumed and body.exists() and body.stat().st_nlink == 1
        self._forget(key, kept=item.resumed)
        if resumable:
            # All of it came before; `write` checks it as it checks any beginning.
            body.replace(body.with_name(body.name + ".partial"))
        elif item.resumed:
            body.unlink(missing_ok=True)
        note, linked = None, False
        try:
            item.write(body)
            note = self._note(key, body.stat().st_ino, item.transaction_id)
            final = self._link(body, file_name(item.label, item.otherwise))
            linked = True
        finally:
            if not linked and note is not None:
                # Before its file: the inode may then belong to another one.
                note.unlink(missing_ok=True)
            body.unlink(missing_ok=True)
        self._sync_names()
        return final, note

    def _open(self) -> None:
        """Have the hidden folder, and keep others from clearing it."""
        with self._opening:
            self._open_alone()

    def _open_alone(self) -> None:
        while self._descriptor is None:
            try:
                self._hidden.mkdir(0o700)
                if self._sync:
                    sync_folder(self.path)
            except FileExistsError:
                pass
            try:
                self._check_hidden()
                lock = self._hidden / _LOCK
                self._descriptor, _ = open_locked(lock, shared=True, wait_s=_WAIT_S)
            except FileNotFoundError:
                if not self.path.exists():
                    raise
                # The last receiver here has removed it just now.
                continue

    def _check_hidden(self) -> None:
        """Raise OSError if others may have chosen what is in it."""
        name = self._hidden.name
        there = self._hidden.stat(follow_symlinks=False)
        if not stat.S_ISDIR(there.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, f"{name} is no directory, remove it")
        if not is_of_this_user(self._hidden, there):
            raise PermissionError(errno.EPERM, f"{name} belongs to another user, remove it")

    def _sweep(self, outcome: Callable[[str], TransactionStatus]) -> None:
        committed, noted = set(), set()
        for note in self._notes():
            if outcome(note.transaction_id) is TransactionStatus.COMMITTED:
                committed.add(note.key)
            elif self._with_inode(note.inode) is not None:
                noted.add(note.key)
        for key in committed:
            self._forget(key)
        noted -= committed
        for name in self._names():
            key_there = key_of_name(name)
            if key_there is not None and key_there not in noted:
                self._forget(key_there, kept=True)

    def _names(self) -> list[str]:
        return [each.name for each in self._hidden.iterdir()]

    def _notes(self) -> list[PlacedNote]:
        notes = (note_in(name) for name in sorted(self._names()))
        return [each for each in notes if each is not None]

    def _note(self, key: str, inode: int, transaction_id: str) -> Path | None:
        """Write down, durably, which file is placed for a message; None outside transactions."""
        note = None
        if transaction_id:
            note = self._hidden / PlacedNote(key, inode, transaction_id).name
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            os.close(os.open(note, flags, 0o600))
        if self._sync:
            sync_folder(self._hidden)
        return note

    def _forget(self, key: str, *, kept: bool = False, but: Path | None = None) -> None:
        """Remove what there is of a message but its lock, notes first; `kept` stays if it may."""
        mine = [each for each in self._names() if key_of_name(each) == key]
        for name in sorted(mine, key=lambda each: note_in(each) is None):
            if name == f"{key}.lock" and self._descriptor is not None:
                continue
            if (kept and name.endswith(_KEPT)) or (but is not None and name == but.name):
                continue
            (self._hidden / name).unlink(missing_ok=True)

    def _with_inode(self, inode: int) -> Path | None:
        """The file in the directory that has this inode, whatever its name is now."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    continue
                if entry.stat(follow_symlinks=False).st_ino == inode:
                    return Path(entry.path)
        return None

    def _link(self, body: Path, name: str) -> Path:
        count = 1
        while True:
            final = self.path / numbered(name, count)
            try:
                os.link(body, final, follow_symlinks=False)
            except FileExistsError:
                count = self._numbers.next(name, count)
                continue
            self._numbers.note(name, count)
            return final

    def _sync_names(self) -> None:
        if self._sync:
            sync_folder(self.path)


def write_new(path: Path, body: Buffer, *, sync: bool) -> None:
    """Write a file that is not there yet; raises OSError."""
    descriptor = open_new(path)
    try:
        write_all(descriptor, body)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_new(path: Path) -> int:
    """Make a file that is not there yet; a descriptor of it. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o666)


def write_all(descriptor: int, body: Buffer) -> None:
    """Write a body; raises OSError."""
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _let_go(lock: Path, descriptor: int) -> None:
    try:
        # Under the lock, so that whoever waits for it makes a new one.
        with suppress(OSError):
            lock.unlink()
    finally:
        os.close(descriptor)


def _make(path: Path) -> list[Path]:
    """Make a directory, and those above it; which were made, the uppermost first."""
    made: list[Path] = []
    missing = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    try:
        for each in reversed(missing):
            try:
                each.mkdir()
                made.append(each)
            except FileExistsError:
                # Somebody else has made it just now.
                continue
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
    except OSError as error:
        for each in reversed(made):
            each.rmdir()
        raise no_directory(path, error) from error
    return made


def no_directory(path: Path, error: OSError) -> InvalidConfiguration | TargetUnwritable:
    """The error for a directory that cannot be made or opened."""
    return unusable(path, f"{path} cannot be used as a directory", error, "name another directory")


def was_removed(folder: Path) -> InvalidConfiguration:
    """The error for a folder that is gone, or another one, while a receiver works in it."""
    return InvalidConfiguration(
        f"{folder} was removed or replaced while Dray received into it; start the receiver again,"
        " the messages are still in their queue"
    )


def _translated(folder: Path, error: OSError) -> DrayError:
    reason = error.strerror or str(error)
    return TargetUnwritable(
        f"{folder} cannot be written: {reason}; free room or give another directory, the message is"
        " still in its queue",
        path=str(folder),
    )
