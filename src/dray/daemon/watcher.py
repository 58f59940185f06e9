"""Watches the storage folder and writes to the audit what others do in it (S3-17, R76).

Theory of operation. An `AuditedDisk` is a disk that, between taking and giving up the lock,
compares, watches and compares again:

    lock     compare with the manifest of the last stop; note in the manifest that a manager runs
    running  inotify tells that a name came, went or moved, and that a file was closed by somebody
             who could write to it; what the disk itself was about to do is taken off that
    close    wait for what inotify still has; write the manifest anew

The kernel does not say who it was. But every change of the manager goes through its disk, which
says beforehand what it is about to do (`OwnMarks`); whatever is left over was somebody else. The
manager keeps its files open, so its own writing into them causes no event at all, and costs nothing
here. docs/explanation/audit.md tells what cannot be seen.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from watchdog import events
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver
from watchdog.observers.polling import PollingObserver

from dray.daemon.config import ServeOptions
from dray.daemon.timekeeper import Timekeeper
from dray.errors import StoreError
from dray.model.words import counted
from dray.own_files import is_probe, make_own_folder
from dray.store.audit import AuditLog, read_entries
from dray.store.chain import SEE_TO_IT, SEE_TO_IT_OR_TURN_IT_OFF, breaks
from dray.store.disk import FOLDER_NAME, LOCK_NAME, NO_ROOM, Disk
from dray.store.lqs import FOLDER, QUARANTINE
from dray.store.manifest import (
    FileMark,
    Manifest,
    check_not_emptied,
    differences,
    differences_of_copy,
    identity_of,
    is_own_name,
    overwrite_manifest,
    read_manifest,
    strangers_in,
    take_stock,
    was_moved,
    write_manifest,
)
from dray.store.real_disk import OwnMarks, RealDisk

_log = logging.getLogger(__name__)
_NOT_WRITTEN: Final = "the manifest cannot be written"
POLL_S: Final = 2.0
"""The interval at which names are compared where the kernel does not tell."""
DRAIN_S: Final = 2.0
"""The longest wait of a stop for what the kernel still has to tell; it takes a few milliseconds."""
FRESH_S: Final = 60.0
"""A file changed so recently may not have its time of change on the disk yet."""

BREAKS_TOLD_MAX: Final = 20
"""The most breaks of the audit's chain that one start tells of; the next one tells of the rest."""

_KINDS: Final = (
    events.FileCreatedEvent,
    events.FileDeletedEvent,
    events.FileMovedEvent,
    events.FileClosedEvent,
    events.DirCreatedEvent,
    events.DirDeletedEvent,
    events.DirMovedEvent,
)
"""Not modification: every write of the manager would cause one."""


class AuditedDisk(RealDisk):
    """A disk that has an eye on its folder from `lock` to `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the data directory at `path`. Raises StoreError if it cannot be made."""
        self._marks = OwnMarks()
        super().__init__(path, changes=self._marks)
        self._guard: Guard | None = None

    def lock(self) -> None:
        """Lock, compare with the manifest, and watch. Raises StoreLocked, StoreError."""
        super().lock()
        try:
            self._guard = Guard(self.path, self._marks)
        except OSError as error:
            super().close()
            what = os.path.relpath(error.filename or self.path, self.path)
            sentence = (
                f"{self.path} cannot be watched for the audit: {what}: {error.strerror};"
                f" {SEE_TO_IT_OR_TURN_IT_OFF}"
            )
            raise StoreError(sentence, directory=str(self.path)) from error
        except StoreError:
            super().close()
            raise

    def store_is_there(self) -> None:
        """A store is here, durably: from now on an empty folder is no place for a new one.

        Raises StoreError.
        """
        if self._guard is not None:
            try:
                self._guard.store_is_there()
            except OSError as error:
                sentence = f"{self.path}: {_NOT_WRITTEN}: {error.strerror}; {SEE_TO_IT}"
                raise StoreError(sentence, directory=str(self.path)) from error

    def had_store(self) -> bool:
        """Whether the manifest told so when this run began."""
        return self._guard is not None and self._guard.had_store

    def close(self) -> None:
        """Stop watching, write the manifest, and give up the lock."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.end()
        super().close()


class UnwatchedDisk(RealDisk):
    """A disk without an audit, whose work no later audit may take for a stranger's."""

    _had_store = False

    def lock(self) -> None:
        """Lock, and note in the manifest that a manager runs. Raises StoreLocked, StoreError."""
        super().lock()
        try:
            manifest = read_manifest(self.path)
            self._had_store = manifest is not None and manifest.store
            if manifest is not None and manifest.closed:
                manifest.closed = False
                manifest.files = _strangers(manifest.files)
                write_manifest(self.path, manifest)
        except ValueError:
            _log.warning("the manifest of %s cannot be read", self.path)
        except OSError as error:
            super().close()
            sentence = f"{self.path}: {_NOT_WRITTEN}: {error.strerror}; {SEE_TO_IT}"
            raise StoreError(sentence, directory=str(self.path)) from error

    def had_store(self) -> bool:
        """Whether an audit's manifest told so when this run began."""
        return self._had_store


class Guard:
    """The audit of one storage folder while its lock is held."""

    def __init__(self, data: Path, marks: OwnMarks) -> None:
        """Compare with the manifest, then watch. Raises OSError, StoreError."""
        self._data = data
        self._folder = data / FOLDER_NAME
        self._marks = marks
        self._clock = Timekeeper()
        self._strangers: dict[str, FileMark] = {}
        self._store = False
        self.had_store = False
        """Whether the manifest told of a store when this run began."""
        self._noting = threading.Lock()
        self._drained = threading.Event()
        self._observer: BaseObserver | None = None
        for name in (FOLDER, QUARANTINE):
            make_own_folder(self._folder / name)
        self._audit = AuditLog(data)
        try:
            self._compare()
            self._note(closed=False)
            self._watch()
        except BaseException:
            self._audit.close()
            raise

    def store_is_there(self) -> None:
        """Note it for the next start, which may come after a crash. Raises OSError."""
        if not self._store:
            self._store = True
            self._note(closed=False)

    def end(self) -> None:
        """Stop watching and note how everything is left behind. Raises nothing."""
        try:
            self._drain()
            if self._observer is not None:
                self._observer.stop()
                self._observer.join()
            self._make_times_durable()
            self._note(closed=True)
        except OSError as error:
            _log.warning("the manifest could not be written: %s", error)
        finally:
            self._audit.close()

    # ------------------------------------------------------------------------------ comparing

    def _compare(self) -> None:
        if self._audit.cut_bytes:
            detail = f"{self._audit.cut_bytes} bytes of an entry that was never finished"
            self._tell("cut", self._audit.path.name, detail, seen="start")
        self._tell_of_breaks()
        try:
            manifest = read_manifest(self._data)
        except ValueError:
            self._tell("edited", "manifest.json", "it cannot be read", seen="start")
            return
        if manifest is None:
            if self._audit.known:
                detail = "what was changed since the last stop cannot be told"
                self._tell("deleted", "manifest.json", detail, seen="start")
            return
        now = take_stock(self._data)
        self._store = self.had_store = manifest.store
        if self._store:
            check_not_emptied(now)
        self._check_audit(manifest)
        identity = identity_of(self._data)
        moved = was_moved(manifest.identity, identity)
        if moved:
            self._tell("moved", FOLDER_NAME, moved, seen="start")
        if not manifest.closed:
            # After a crash only what the manager never makes can be told from what it made.
            now = _strangers(now)
        is_copy = moved and identity.inode != manifest.identity.inode
        found = (differences_of_copy if is_copy else differences)(manifest.files, now)
        self._audit.append_all(found, seen="start", now=self._clock.now())
        self._strangers = _strangers(now)

    def _tell_of_breaks(self) -> None:
        """The places where the chain is broken, and no entry says so yet."""
        path = self._audit.path
        told = {entry.detail for entry in read_entries(path) if entry.file == path.name}
        details = [f"line {line}: {problem}" for line, problem in breaks(path)]
        for detail in [each for each in details if each not in told][:BREAKS_TOLD_MAX]:
            self._tell("edited", path.name, detail, seen="start")

    def _check_audit(self, manifest: Manifest) -> None:
        head, name = self._audit.head, self._audit.path.name
        before = counted(manifest.audit_entries, "entry")
        if not self._audit.known:
            detail = f"it had {before}"
            if manifest.audit_entries:
                self._tell("deleted", name, detail, seen="start")
        elif manifest.closed and head != (manifest.audit_entries, manifest.audit_digest):
            detail = f"it had {before} and has {head.entries}"
            self._tell("edited", name, detail, seen="start")
        elif head.entries < manifest.audit_entries:
            detail = f"it had {before} or more and has {head.entries}"
            self._tell("edited", name, detail, seen="start")

    def _note(self, *, closed: bool) -> None:
        # The observer's thread notes strangers.
        with self._noting:
            head = self._audit.head
            manifest = Manifest(
                closed=closed,
                identity=identity_of(self._data),
                files=take_stock(self._data) if closed else self._strangers,
                store=self._store,
                audit_entries=head.entries,
                audit_digest=head.digest,
            )
            try:
                write_manifest(self._data, manifest)
            except OSError as error:
                # On a full disk a manager must start, so that somebody can receive.
                if closed or error.errno not in NO_ROOM:
                    raise
                overwrite_manifest(self._data, manifest)

    def _make_times_durable(self) -> None:
        """Spare the next start false alarms: data syncs leave a file's time of change behind."""
        recent = self._clock.now() - FRESH_S
        for folder in (self._folder, self._folder / FOLDER):
            for path in folder.iterdir():
                if path.is_file() and path.stat().st_mtime > recent:
                    descriptor = os.open(path, os.O_RDONLY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)

    # ------------------------------------------------------------------------------- watching

    def _watch(self) -> None:
        for make in (InotifyObserver, lambda: PollingObserver(timeout=POLL_S)):
            try:
                self._observer = self._started(make())
                return
            except OSError as error:
                _log.warning("changes are looked for every %.0f s: %s", POLL_S, error)

    def _started(self, observer: BaseObserver) -> BaseObserver:
        handler, folder = _Handler(self._seen), str(self._folder)
        observer.schedule(handler, folder, recursive=True, event_filter=list(_KINDS))
        try:
            observer.start()
        except OSError:
            observer.stop()
            raise
        return observer

    def _drain(self) -> None:
        """Make an event of our own and wait until it was seen; all before it were, too."""
        if self._observer is None:
            return
        self._drained.clear()
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(self._folder / LOCK_NAME, os.O_WRONLY))
            self._drained.wait(DRAIN_S)

    def _seen(self, event: events.FileSystemEvent) -> None:
        """Called by the observer's thread; what is raised here would end it."""
        try:
            self._judge(event)
        except (OSError, StoreError) as error:
            _log.error("a change of the storage folder could not be audited: %s", error)

    def _judge(self, event: events.FileSystemEvent) -> None:
        name = self._name(event.src_path)
        if is_probe(Path(name).name):
            # A file server that gives files another owner is asked so at each file that is opened.
            return
        match event.event_type:
            case "closed":
                if self._marks.take("closes", name):
                    return
                if name == LOCK_NAME:
                    # A second manager that tries to start does that, and so do we at the end.
                    self._drained.set()
                else:
                    self._tell("edited", name, self._size(name))
            case "created":
                if not self._marks.take("comes", name):
                    self._tell("added", name, self._size(name))
            case "deleted":
                if not self._marks.take("goes", name):
                    self._tell("deleted", name)
            case "moved":
                new = self._name(event.dest_path)
                ours = self._marks.take("goes", name), self._marks.take("comes", new)
                if not all(ours):
                    self._tell("moved", name, f"to {new}")

    def _tell(self, change: str, file: str, detail: str = "", *, seen: str = "running") -> None:
        now = self._clock.now()
        self._audit.append(change, file, seen=seen, now=now, detail=detail)
        if seen == "running" and not is_own_name(file):
            # After a crash it is not to be told again.
            self._strangers = strangers_in(self._data)
            self._note(closed=False)

    def _name(self, path: bytes | str) -> str:
        name = os.path.relpath(os.fsdecode(path), self._folder)
        return FOLDER_NAME if name == "." else name

    def _size(self, name: str) -> str:
        try:
            return f"{(self._folder / name).stat().st_size} bytes"
        except OSError:
            return ""


def _strangers(files: Mapping[str, FileMark]) -> dict[str, FileMark]:
    """The files whose names a manager never gives."""
    return {name: mark for name, mark in files.items() if not is_own_name(name)}


class _Handler(events.FileSystemEventHandler):
    """Called by the library, in a thread of its own."""

    def __init__(self, seen: Callable[[events.FileSystemEvent], None]) -> None:
        self._seen = seen

    def dispatch(self, event: events.FileSystemEvent) -> None:
        """Pass it on."""
        self._seen(event)


def open_disk_of(options: ServeOptions, data: str) -> RealDisk:
    """Open a data directory, audited if the options say so. Raises `InvalidConfiguration`."""
    disk = AuditedDisk(data) if options.audit else UnwatchedDisk(data)
    options.check_disk(disk.size_bytes())
    return disk


def recorded_in(disk: Disk) -> Path | None:
    """The directory of the access log, on a disk that is audited."""
    return disk.path if isinstance(disk, AuditedDisk) else None
