"""Received files below a folder, each under its own path: whole, once, and never outside of it.

Bodies grow in a hidden folder of the tree. The ledger there notes, durably, which files are going
to stand where, and only then they get their names. A message that comes again is known by the
ledger, and so is a newer version of a file from the same source, which takes the older one's place.
Files of messages that came together are synced together, and each of them may fail by itself.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from dray.client.blocking.large_message import LargeMessage
from dray.client.files.file_identity import FileIdentity
from dray.errors import DrayError, FileRefused, TargetUnwritable
from dray.folders.below import check_path, folder_of, look_at
from dray.folders.file_receiver import keep_time_and_mode, path_of
from dray.folders.labels import LastNumbers, short_numbered
from dray.folders.placing import no_directory, open_new, was_removed, write_all
from dray.folders.received_ledger import ArrivedFile, PlacedVersion, ReceivedLedger
from dray.fsync import sync_folder
from dray.model.ids import split_id
from dray.model.limits import KIB, MIB
from dray.own_files import is_of_this_user

OnConflict = Literal["number", "replace", "skip", "fail"]
LEDGER: Final = "received.sqlite"
_SYNCED_BEHIND_BYTES: Final = 32 * MIB
"""A longer body is synced while it is written; a shorter one is synced once, at its end."""
_WRITTEN_AT_ONCE_BYTES: Final = 256 * KIB
"""A longer body is written piece by piece."""
_SYNCERS: Final = 8
"""Threads that sync files side by side; the disk writes its log once for all of them."""
_PART: Final = (".part", ".part.partial")


class RestoredFile(NamedTuple):
    """A file that stands at its place, or the reason why it was passed over."""

    path: Path
    skipped: str = ""


class TreeTarget:
    """A folder below which files are restored; its methods may be called from several threads."""

    def __init__(
        self,
        root: Path,
        *,
        preserve: bool = False,
        on_conflict: OnConflict = "number",
        sync: bool = True,
    ) -> None:
        """Open the folder, made if it is missing, for this process only.

        `preserve` keeps time and mode of the files. Raises `InvalidConfiguration`, and
        `StoreLocked` if another process receives into the folder.
        """
        self.root = root
        self._preserve = preserve
        self._on_conflict = on_conflict
        self._sync = sync
        self._lock = threading.Lock()
        self._numbers = LastNumbers()
        self._unsettled = False
        """Whether the ledger may not know of a file that it has its name."""
        self._syncers = ThreadPoolExecutor(_SYNCERS, "dray-file-sync")
        self._hidden = root / f".dray-tree-{os.geteuid()}"
        try:
            root.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self._hidden.mkdir(0o700)
            there = self._hidden.lstat()
            if not stat.S_ISDIR(there.st_mode) or not is_of_this_user(self._hidden, there):
                raise NotADirectoryError(f"{self._hidden} is no directory of this user, remove it")
            if sync:
                sync_folder(root)
            self._hidden_was = self._hidden.lstat()
        except OSError as error:
            raise no_directory(root, error) from error
        self._ledger = ReceivedLedger(self._hidden / LEDGER, sync=sync)
        try:
            self._ledger.settle(self._stands_for_good)
            for each in self._hidden.iterdir():
                if each.name.endswith(_PART):
                    each.unlink()
        except BaseException:
            self._ledger.close()
            raise

    def close(self) -> None:
        """Let other processes receive into the folder."""
        self._syncers.shutdown()
        self._ledger.close()

    def place(self, message: LargeMessage) -> RestoredFile:
        """Restore the file of a message; then it is durable.

        A message without the properties of a file gets a name made from its label. Raises
        `FileRefused` for a path that cannot be restored, `TargetUnwritable`, and as
        `LargeMessage.save_to` does.
        """
        (placed,) = self.place_some([message])
        if isinstance(placed, Exception):
            raise placed
        return placed

    def place_some(self, messages: Sequence[LargeMessage]) -> list[RestoredFile | Exception]:
        """Restore the files of messages; give for each what `place` gives or raises.

        Raises `InvalidConfiguration` if the folder was removed.
        """
        self._check_there()
        outcomes: list[RestoredFile | Exception | None] = [None] * len(messages)
        written: list[_WrittenBody] = []
        try:
            for at, message in enumerate(messages):
                origin = _origin_of(message)
                with self._fails_alone(outcomes, at, origin):
                    check_path(origin.path)
                    self._settle()
                    outcomes[at] = self._known(origin) or self._passed_over(origin)
                    if outcomes[at] is None:
                        written.append(_WrittenBody(at, origin, *self._written(message, origin)))
            self._sync_bodies(written, outcomes)
            with self._lock:
                for some in _of_different_files(written):
                    self._name_some([each for each in some if outcomes[each.at] is None], outcomes)
        finally:
            for each in written:
                each.remove()
        assert None not in outcomes, "each message has a file or an error"
        return [each for each in outcomes if each is not None]

    def _check_there(self) -> None:
        """Raise `InvalidConfiguration` if the open ledger is not the one below the folder."""
        there = _lstat(str(self._hidden))
        if there is None or not os.path.samestat(there, self._hidden_was):
            raise was_removed(self.root)

    def _settle(self) -> None:
        """Note which files have their names, if the disk failed before that was noted.

        A message of such a file would find its own file in the way when it comes again.
        """
        with self._lock:
            if self._unsettled:
                self._ledger.settle(self._stands_for_good)
                self._unsettled = False

    @contextmanager
    def _fails_alone(self, outcomes: _Outcomes, at: int, origin: ArrivedFile) -> Iterator[None]:
        """A block whose errors are the outcome of one message."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the receiver of messages decides about each
            unwritable = isinstance(error, (OSError, sqlite3.Error))
            # Some errors of ours are errors of the system, too.
            if unwritable and not isinstance(error, DrayError):
                outcomes[at] = self._unwritable(origin, error)
            else:
                outcomes[at] = error

    def _unwritable(self, origin: ArrivedFile, error: Exception) -> TargetUnwritable:
        why = (isinstance(error, OSError) and error.strerror) or error
        unwritable = TargetUnwritable(
            f"{origin.path!r} cannot be written below {self.root}: {why};"
            " free room or give another directory, the message is still in its queue",
            path=str(self.root / origin.path),
        )
        unwritable.__cause__ = error
        return unwritable

    def _written(self, message: LargeMessage, origin: ArrivedFile) -> tuple[Path, int]:
        """Write the body of a message into a hidden file; its path and a descriptor of it."""
        part = self._hidden / f"{origin.source}-{origin.number}{_PART[0]}"
        part.unlink(missing_ok=True)
        try:
            if message.size <= _WRITTEN_AT_ONCE_BYTES:
                descriptor = open_new(part)
                write_all(descriptor, message.body())
            else:
                behind = self._sync and message.size > _SYNCED_BEHIND_BYTES
                message.save_to(part, sync=behind)
                descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            if self._preserve:
                keep_time_and_mode(descriptor, message)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        return part, descriptor

    def _sync_bodies(self, bodies: Sequence[_WrittenBody], outcomes: _Outcomes) -> None:
        """Sync bodies side by side, so that they share what the disk has to do."""
        if not self._sync:
            return
        shares = [bodies[first::_SYNCERS] for first in range(min(_SYNCERS, len(bodies)))]
        syncing = [self._syncers.submit(_sync_share, share) for share in shares[1:]]
        errors = _sync_share(shares[0]) if shares else {}
        for each in syncing:
            errors |= each.result()
        for body in bodies:
            if (error := errors.get(body.at)) is not None:
                outcomes[body.at] = self._unwritable(body.origin, error)

    def _known(self, origin: ArrivedFile) -> RestoredFile | None:
        """The file of a message that came before, or of a newer version."""
        before = self._ledger.version(origin)
        if before is None:
            return None
        place = self.root / before.place
        if before.number == origin.number:
            return RestoredFile(place) if self._stands(before) else None
        if origin.number < before.number and origin.sent_us < before.sent_us:
            return RestoredFile(place, "a newer version was received before")
        return None

    def _passed_over(self, origin: ArrivedFile) -> RestoredFile | None:
        """Find out before the body comes that it is not wanted."""
        if self._on_conflict not in {"skip", "fail"} or look_at(self.root, origin.path) is None:
            return None
        before = self._ledger.version(origin)
        if before is not None and self._stands(before):
            return None
        return self._conflict(origin)

    def _conflict(self, origin: ArrivedFile) -> RestoredFile:
        if self._on_conflict == "skip":
            return RestoredFile(self.root / origin.path, "another file has its name")
        raise FileRefused(
            f"the file {origin.path!r} cannot be restored here: another file has its name; remove"
            " that one, or let the new one get a number",
            path=origin.path,
        )

    def _name_some(self, bodies: Sequence[_WrittenBody], outcomes: _Outcomes) -> None:
        """Give bodies their names; the ledger knows before and after."""
        with ExitStack() as stack:
            folders = _Folders(self.root, stack, sync=self._sync)
            again = bodies
            while again:
                chosen: list[_Place] = []
                for each in again:
                    with self._fails_alone(outcomes, each.at, each.origin):
                        found = self._known(each.origin) or self._chosen(each, folders)
                        if isinstance(found, _Place):
                            chosen.append(found)
                        else:
                            outcomes[each.at] = found
                again = self._give_names(chosen, outcomes) if chosen else []

    def _chosen(self, body: _WrittenBody, folders: _Folders) -> _Place | RestoredFile:
        """Choose a name for a body; a conflict is told instead, or raised."""
        origin = body.origin
        before = self._ledger.version(origin)
        replaces = before is not None and self._stands(before)
        above, _, last = origin.path.rpartition("/")
        name = before.place.rpartition("/")[2] if before is not None and replaces else last
        folder = folders.above(origin.path)
        count = 1
        while True:
            there = _lstat(name, folder)
            replace = there is not None and (replaces or self._on_conflict == "replace")
            if there is not None and not replace and self._on_conflict == "number":
                count = self._numbers.next(origin.path, count)
                name = short_numbered(last, count)
                continue
            if there is not None and (not replace or stat.S_ISDIR(there.st_mode)):
                return self._conflict(origin)
            found = os.fstat(body.descriptor)
            place = f"{above}/{name}" if above else name
            version = PlacedVersion(origin.number, origin.sent_us, place, *FileIdentity.of(found))
            return _Place(body, folder, name, replace, version, count)

    def _give_names(self, places: Sequence[_Place], outcomes: _Outcomes) -> list[_WrittenBody]:
        """Place bodies as chosen; give those whose names somebody else has taken just now."""
        again: list[_WrittenBody] = []
        try:
            self._ledger.begin((each.body.origin, each.version) for each in places)
        except (OSError, sqlite3.Error) as error:
            for each in places:
                outcomes[each.body.at] = self._unwritable(each.body.origin, error)
            return again
        named: list[_Place] = []
        for each in places:
            with self._fails_alone(outcomes, each.body.at, each.body.origin):
                try:
                    each.give_name()
                except FileExistsError:
                    again.append(each.body)
                else:
                    named.append(each)
                    self._numbers.note(each.body.origin.path, each.at_number)
        self._note_places(self._names_synced(named, outcomes), outcomes)
        return again

    def _names_synced(self, named: Sequence[_Place], outcomes: _Outcomes) -> list[_Place]:
        """Sync the folder of each new name, once; give the places that are durable."""
        synced: dict[int, Future[None]] = {}
        for each in named if self._sync else ():
            if each.folder not in synced:
                synced[each.folder] = self._syncers.submit(os.fsync, each.folder)
        durable: list[_Place] = []
        for each in named:
            with self._fails_alone(outcomes, each.body.at, each.body.origin):
                if each.folder in synced:
                    synced[each.folder].result()
                durable.append(each)
        self._unsettled |= len(durable) < len(named)
        return durable

    def _note_places(self, places: Sequence[_Place], outcomes: _Outcomes) -> None:
        """Note that bodies stand at their places; those outcomes are good."""
        origins = [each.body.origin for each in places]
        try:
            self._ledger.finish((each.key, each.source, True) for each in origins)
        except (OSError, sqlite3.Error) as error:
            self._unsettled = True
            for each in places:
                outcomes[each.body.at] = self._unwritable(each.body.origin, error)
        else:
            for each in places:
                outcomes[each.body.at] = RestoredFile(self.root / each.version.place)

    def _stands_for_good(self, version: PlacedVersion) -> bool:
        """Whether a version stands at its place; a killed receiver may not have synced its name."""
        if not self._stands(version):
            return False
        if self._sync:
            with folder_of(self.root, version.place, make=False) as folder:
                os.fsync(folder)
        return True

    def _stands(self, version: PlacedVersion) -> bool:
        """Whether a version still stands at its place, as it was received."""
        found = look_at(self.root, version.place)
        return (
            found is not None
            and stat.S_ISREG(found.st_mode)
            and FileIdentity.of(found) == version.identity
        )


class _WrittenBody(NamedTuple):
    """A body that was written and has no name yet; `at` tells which message it is of."""

    at: int
    origin: ArrivedFile
    part: Path
    descriptor: int

    def remove(self) -> None:
        """Remove its hidden name."""
        os.close(self.descriptor)
        with suppress(OSError):
            self.part.unlink(missing_ok=True)


def _sync_share(bodies: Sequence[_WrittenBody]) -> dict[int, OSError]:
    """Sync bodies one after another; the errors by the messages that they are of."""
    errors: dict[int, OSError] = {}
    for each in bodies:
        try:
            os.fsync(each.descriptor)
        except OSError as error:
            errors[each.at] = error
    return errors


class _Place(NamedTuple):
    """The place in which a body is going to stand."""

    body: _WrittenBody
    folder: int
    name: str
    replaces: bool
    version: PlacedVersion
    at_number: int

    def give_name(self) -> None:
        """Give the body its name; raises OSError."""
        if self.replaces:
            os.replace(self.body.part, self.name, dst_dir_fd=self.folder)
        else:
            os.link(self.body.part, self.name, dst_dir_fd=self.folder, follow_symlinks=False)


class _Folders:
    """Open folders below a root."""

    def __init__(self, root: Path, stack: ExitStack, *, sync: bool) -> None:
        self._root, self._stack, self._sync = root, stack, sync
        self._open: dict[str, int] = {}

    def above(self, path: str) -> int:
        """A descriptor of the folder of a path; raises as `folder_of` does."""
        name = path.rpartition("/")[0]
        if name not in self._open:
            folder = folder_of(self._root, path, make=True, sync=self._sync)
            self._open[name] = self._stack.enter_context(folder)
        return self._open[name]


_Outcomes = list[RestoredFile | Exception | None]


def _of_different_files(bodies: Sequence[_WrittenBody]) -> Iterator[list[_WrittenBody]]:
    """Cut into groups in which no two have the same path, and none is in the way of another."""
    group: list[_WrittenBody] = []
    paths: set[str] = set()
    above: set[str] = set()
    for each in bodies:
        path = each.origin.path
        mine = {path[:at] for at, character in enumerate(path) if character == "/"}
        if path in paths or path in above or not paths.isdisjoint(mine):
            yield group
            group, paths, above = [], set(), set()
        group.append(each)
        paths.add(path)
        above |= mine
    yield group


def _origin_of(message: LargeMessage) -> ArrivedFile:
    source, number = split_id(message.sequence_id)
    sent_us = int((message.sent_time or 0) * 1_000_000)
    # Labels may be equal by chance; only a path says that two messages are versions of one file.
    return ArrivedFile(path_of(message), source, number, sent_us, message.file is not None)


def _lstat(name: str, folder: int | None = None) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
