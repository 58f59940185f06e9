"""The stored state of transfers, so that a program can resume them after a kill.

    <where>/<queue manager id>/<transfer id>.out        an offer
                               <consumer's key>.in      a file that is being received
                               <the same>.lock          held by the program that runs it
                               <the same>.sock          where that program takes orders

A file is replaced atomically and synced with its directory. Which fields there are is told in
docs/formats/transfer.md.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from dray.client.transfer.reference import Reference
from dray.errors import InvalidArgument, Misuse, TargetUnwritable
from dray.forks import keep_from_children
from dray.model.files import is_utf8
from dray.model.transfer import TransferState, TransferStatus
from dray.own_files import make_own_folder, open_own, replacing

OUT, IN = "out", "in"
_LOCK = struct.Struct("hhqqi4x")
"""Type, whence, start, length and holder of a lock, which belongs to the open file."""


class KeptConsumer(msgspec.Struct):
    """One consumer of an offer."""

    key: str
    consumer_id: str
    acked: int
    state: TransferState


class Offered(msgspec.Struct, kw_only=True):
    """An offer as it is kept."""

    reference: Reference
    queue: str
    path: str
    state: TransferState = TransferState.DISCOVERING
    mtime_ns: int = 0
    inode: int = 0
    request_timeout: float | None = 0.0
    """Seconds in which consumers may join; None: as long as it is offered."""
    offered_at: float = 0.0
    transaction: str = ""
    consumers: list[KeptConsumer] = []


class KeptIncoming(msgspec.Struct, kw_only=True):
    """A file that is being received, as it is kept."""

    reference: Reference
    queue: str
    key: str
    path: str = ""
    state: TransferState = TransferState.SUSPENDED
    synced: int = 0
    boot: str = ""
    verified: bool = False
    received: bool = False


_Kept = TypeVar("_Kept", Offered, KeptIncoming)


class StateFile:
    """One state file, and the lock that makes it this program's."""

    def __init__(self, folder: Path, name: str, direction: str) -> None:
        """Lock it, there or not; raises `Misuse` if another program runs the transfer."""
        self.folder = folder
        self._path = folder / f"{name}.{direction}"
        self._lock_path = _lock_path(folder, name, direction)
        try:
            make_own_folder(folder)
            self._lock = open_own(self._lock_path)
        except OSError as error:
            raise _unwritable(self._lock_path, error) from error
        try:
            fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, _whole(fcntl.F_WRLCK))
        except OSError as error:
            os.close(self._lock)
            raise Misuse(
                f"another program runs the file transfer in {self._path}; suspend it there first"
            ) from error
        # A child that held it, too, would keep the transfer locked when this program has ended.
        keep_from_children(self)

    def fileno(self) -> int:
        """The descriptor of the lock; below 0 once it is released."""
        return self._lock

    @property
    def control_path(self) -> Path:
        """The socket at which the program that runs the transfer takes orders (`control`)."""
        return _control_path(self._path)

    def write(self, kept: Offered | KeptIncoming) -> None:
        """Replace what is kept, durably; raises `TargetUnwritable`."""
        try:
            with replacing(self._path) as file:
                file.write(msgspec.json.encode(kept))
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def remove(self) -> None:
        """Forget the transfer, and let go of it."""
        for path in (self._path, self.control_path, self._lock_path):
            with suppress(FileNotFoundError):
                path.unlink()
        self.release()

    def release(self) -> None:
        """Let another program have it; harmless when repeated."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            # A child that has just been forked holds the lock too, until it closes its copy.
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, _whole(fcntl.F_UNLCK))
            os.close(lock)


def is_run(folder: Path, name: str, direction: str) -> bool:
    """Whether a program runs that transfer now. Nobody notices that it was asked."""
    try:
        descriptor = os.open(_lock_path(folder, name, direction), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole(fcntl.F_WRLCK))
    finally:
        os.close(descriptor)
    return bool(_LOCK.unpack(found)[0] != fcntl.F_UNLCK)


def control_path(folder: Path, name: str, direction: str) -> Path:
    """The socket at which the program that runs that transfer takes orders."""
    return _control_path(folder / f"{name}.{direction}")


def folder_of(manager_id: str) -> Path:
    """The directory in which the transfers of a queue manager's clients are kept for this user."""
    chosen = os.environ.get("DRAY_TRANSFERS")
    if chosen:
        return Path(chosen) / manager_id
    base = os.environ.get("XDG_STATE_HOME") or ""
    where = Path(base) if Path(base).is_absolute() else _home() / ".local" / "state"
    return where / "dray" / "transfers" / manager_id


def kept_offers(folder: Path) -> list[Offered]:
    """The offers that are kept, by their ids."""
    return list(_kept(folder, OUT, Offered))


def kept_incoming(folder: Path) -> list[KeptIncoming]:
    """The files being received that are kept, by their ids."""
    return list(_kept(folder, IN, KeptIncoming))


def status_of_offer(kept: Offered) -> TransferStatus:
    """The state of a kept offer; with consumers, that of the slowest which is not done."""
    left = [each.acked for each in kept.consumers if not each.state.final]
    return _status(kept, min(left, default=0), OUT)


def status_of_incoming(kept: KeptIncoming, expected: int) -> TransferStatus:
    """The state of a kept file of which everything before fragment `expected` is there."""
    return _status(kept, expected, IN)


def _status(kept: Offered | KeptIncoming, fragments: int, direction: str) -> TransferStatus:
    terms = kept.reference.terms
    return TransferStatus(
        state=kept.state,
        bytes_done=terms.bytes_before(fragments),
        bytes_total=terms.size,
        transfer_id=kept.reference.transfer,
        direction=direction,
        label=kept.reference.label,
        queue=kept.queue,
        path=kept.path,
    )


def _lock_path(folder: Path, name: str, direction: str) -> Path:
    return folder / f"{name}.{direction}.lock"


def _control_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sock")


def _whole(kind: int) -> bytes:
    """A lock of a whole file, as fcntl(2) wants it described."""
    return _LOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def _kept(folder: Path, direction: str, kind: type[_Kept]) -> Iterator[_Kept]:
    for path in sorted(folder.glob(f"*.{direction}")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            # Its transfer ended a moment ago.
            continue
        except (OSError, msgspec.MsgspecError) as error:
            raise TargetUnwritable(
                f"the state of a file transfer cannot be read from {path}: {error}; move the file"
                " away to forget the transfer",
                path=str(path),
            ) from error


def check_noted(path: Path) -> None:
    """Raise `InvalidArgument` for a path that a state of a transfer, which is JSON, cannot hold."""
    if not is_utf8(str(path)):
        raise InvalidArgument(
            f"path: {path} is not in UTF-8, so the transfer cannot note it; give it another name",
            argument="path",
        )


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise TargetUnwritable(
            "there is no home directory to keep file transfers in; set DRAY_TRANSFERS to a"
            " directory",
            path="",
        ) from error


def _unwritable(path: Path, error: OSError) -> TargetUnwritable:
    return TargetUnwritable(
        f"the state of a file transfer cannot be written to {path}: {error.strerror or error};"
        " set DRAY_TRANSFERS to a writable directory",
        path=str(path),
    )
