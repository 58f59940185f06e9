"""Handles received large messages: place the file, run a command, and only then commit.

The transaction of a message commits after its file is durable and the command has succeeded. A
message that comes again is known by the target, whatever ended the program or the queue manager.
"""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from dray.client.awaited.large_message import LargeMessage as AwaitedLargeMessage
from dray.client.awaited.receiver import Fate, Handled
from dray.client.awaited.transaction import Transaction
from dray.client.blocking.large_message import LargeMessage
from dray.errors import CommandFailed, TargetUnwritable
from dray.folders.labels import file_name, otherwise_named

_STDERR: Final = 2
_MODE_KEPT: Final = 0o777
_FAULTS_OF_A_PATH: Final = frozenset(
    {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EILSEQ}
)
"""Another attempt meets these again, and other messages do not."""


class FileReceived(NamedTuple):
    """A file that was received; `skipped` says why no file was written, if none was."""

    path: str
    size: int
    id: str
    skipped: str = ""


class FileNotReceived(NamedTuple):
    """A message whose file could not be received, why, and what became of the message."""

    path: str
    id: str
    error: Exception
    fate: Fate


Tell = Callable[[FileReceived | FileNotReceived], object]


class PlacedBody(NamedTuple):
    """A body that is safe while its transaction is open."""

    path: str
    local: Path | None
    """The path at which a command finds it."""
    close: Callable[[bool], object]
    """Called with whether the message is received for good."""
    skipped: str = ""


class Placing(Protocol):
    """Places the body of a message."""

    def __call__(self, message: LargeMessage, transaction_id: str, /) -> PlacedBody:
        """Place it; raises `TargetUnwritable` and other errors."""


PlacingSome = Callable[[Sequence[LargeMessage]], Sequence[PlacedBody | Exception]]
"""Places the bodies of messages that came together."""


class FileReceiver:
    """Handles messages for a `Receiver`: places each, and commits after that."""

    def __init__(
        self,
        place: Placing,
        place_some: PlacingSome | None,
        command: Sequence[str] | None,
        tell: Tell,
    ) -> None:
        """Place with `place`, or with `place_some` what comes together.

        `command` is run for each file, `tell` is called for each message.
        """
        self._place = place
        self._place_some = place_some
        self._command = command
        self._tell = tell
        self._lock = threading.Lock()
        self._open: dict[str, PlacedBody] = {}
        self.count = self.bytes = 0
        self.failures = 0
        """Messages that were given up."""

    def handle(self, awaited: object, transaction: Transaction) -> None:
        """Place the body of a message and run the command; the transaction commits after it."""
        assert isinstance(awaited, AwaitedLargeMessage)
        message = LargeMessage(awaited)
        self._close(message.sequence_id, committed=False)
        try:
            placed = self._place(message, transaction.id)
        except TargetUnwritable as error:
            raise _blamed(error) from error
        with self._lock:
            self._open[message.sequence_id] = placed
        try:
            if self._command is not None and not placed.skipped:
                _run(self._command, placed)
        except BaseException:
            self._close(message.sequence_id, committed=False)
            raise

    def handle_some(self, messages: Sequence[AwaitedLargeMessage]) -> list[Exception | None]:
        """Place the bodies of messages together; give the error of each that cannot be placed."""
        assert self._place_some is not None, "the target takes several at a time"
        errors: list[Exception | None] = []
        for message, placed in zip(
            messages, self._place_some([LargeMessage(each) for each in messages]), strict=True
        ):
            if isinstance(placed, Exception):
                errors.append(_blamed(placed))
                continue
            with self._lock:
                self._open[message.sequence_id] = placed
            errors.append(None)
        return errors

    def report(self, handled: Handled) -> None:
        """Take note of how a message has ended."""
        message = LargeMessage(handled.message)
        id = message.sequence_id
        placed = self._close(id, committed=handled.fate is Fate.DONE)
        if handled.fate is Fate.DONE and placed is not None:
            with self._lock:
                self.count += 1
                self.bytes += message.size
            self._tell(FileReceived(placed.path, message.size, id, placed.skipped))
        elif handled.error is not None:
            failed = FileNotReceived(path_of(message), id, handled.error, handled.fate)
            if handled.fate is not Fate.RETRIED:
                with self._lock:
                    self.failures += 1
            self._tell(failed)

    def close(self) -> None:
        """Let go of the messages whose end was not heard."""
        for id in list(self._open):
            self._close(id, committed=False)

    def _close(self, id: str, *, committed: bool) -> PlacedBody | None:
        with self._lock:
            placed = self._open.pop(id, None)
        if placed is not None:
            placed.close(committed)
        return placed


def _blamed(error: Exception) -> Exception:
    """The error as the receiver of messages sees it: a full disk is not the fault of a message."""
    cause = error.__cause__
    if not isinstance(error, TargetUnwritable) or (
        isinstance(cause, OSError) and cause.errno in _FAULTS_OF_A_PATH
    ):
        return error
    return TargetUnwritable(str(error), path=error.path, retryable=True)


def finish_body(part: Path, message: LargeMessage, *, sync: bool) -> None:
    """Give a received body time and mode of the file that was sent, and sync it; raises OSError."""
    descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        keep_time_and_mode(descriptor, message)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def keep_time_and_mode(descriptor: int, message: LargeMessage) -> None:
    """Give a received body time and mode of the file that was sent; raises OSError.

    Bits that give a program the rights of its owner are not kept.
    """
    if message.file is not None:
        os.fchmod(descriptor, message.file.mode & _MODE_KEPT)
        os.utime(descriptor, ns=(message.file.mtime_ns, message.file.mtime_ns))


def path_of(message: LargeMessage) -> str:
    """The path of a message's file, or a name made from the label of a message without one."""
    if message.file is not None:
        return message.file.path
    return file_name(message.label, otherwise_named(message.sequence_id))


def _run(command: Sequence[str], placed: PlacedBody) -> None:
    assert placed.local is not None
    path = str(placed.local.absolute())
    words = [each.replace("{path}", path) for each in command]
    try:
        status = subprocess.run(
            words, check=False, stdin=subprocess.DEVNULL, stdout=_STDERR
        ).returncode
    except OSError as error:
        raise CommandFailed(
            f"{words[0]!r} could not be started: {error.strerror or error}; mend the command",
            path=path,
            status=-1,
        ) from error
    if status:
        raise CommandFailed(
            f"{words[0]!r} ended with {_ending(status)} for {path}; see what it said, and mend it",
            path=path,
            status=status,
        )


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
