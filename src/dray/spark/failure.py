"""One clear sentence out of what Spark makes of an error.

An error raised on an executor or in the planner comes back as text: a traceback inside a Java stack
trace inside an exception of Spark's. If one of ours is in there, it is made again from its class
and its sentence.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dray.errors import (
    DrayError,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    TargetUnwritable,
    every_error,
)

WORKER_TOO_SLOW = "Python worker failed to connect back"
"""Spark's message when a worker took longer than ten seconds to start, which no option changes."""
STARTS_MAX = 5
"""A landing begins so many queries, and a batch is written so often, while workers are too slow."""
_OURS = re.compile(r"^(?:[\w.]+: )*dray\.errors(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
_SENTENCE_CHARACTERS_MAX = 500
_UNREADABLE_FILE = re.compile(r"Failed to read log file (?:file:)?(.+?)\.(?: |$)", re.MULTILINE)
"""Spark's words for an empty or damaged file of a checkpoint."""
_LANDING_FOLDER = "_dray"
"""In the directory of a landing: its checkpoints, its locks, the files of its table."""
_BEGUN = re.compile(r"CHECKPOINT_LOCATION_NOT_EMPTY\] The checkpoint location (?:file:)?(\S+)")
"""Spark's words for a checkpoint without a planned batch that is not empty."""
_MOVED = re.compile(r"File (?:file:)?(\S+/(?:offsets|commits)) does not exist")
"""Spark's words for a checkpoint that is no longer where it was."""
_FULL = "No space left on device"
"""The system's words for a full disk, as Java repeats them."""
_OTHER_QUERY = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's word for a checkpoint into which somebody else writes."""


def plainly(error: Exception) -> DrayError:
    """Give the error of ours at the bottom of `error`, or one that tells of it in a line."""
    if isinstance(error, DrayError):
        return error
    ours = _ours_in(str(error))
    if ours is not None:
        return ours
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0][:_SENTENCE_CHARACTERS_MAX] if lines else "nothing"
    return DrayError(f"Spark ended the query with {type(error).__name__}: {said}")


@contextmanager
def errors_told() -> Iterator[None]:
    """Let Spark raise errors of ours as they are, without the traces of Java and Python around.

    Spark makes an exception of Python out of one of Java in one place, which is replaced meanwhile.
    """
    from pyspark.errors.exceptions import captured

    convert = captured.convert_exception

    def converted(error: Any) -> Any:
        cause = error
        while cause is not None:
            ours = _ours_in(str(cause.getMessage()))
            if ours is not None:
                return ours
            cause = cause.getCause()
        return convert(error)

    captured.convert_exception = converted  # type: ignore[assignment]
    try:
        yield
    finally:
        captured.convert_exception = convert


def _ours_in(text: str) -> DrayError | None:
    """The last error of ours that a text tells of, made again from its class and sentence.

    Also one for what only Spark can notice.
    """
    by_name = {cls.__name__: cls for cls in every_error().values()}
    for name, sentence in reversed(_OURS.findall(text)):
        if name in by_name:
            return by_name[name](sentence)
    if _OTHER_QUERY in text:
        return StoreLocked(
            "another query writes into the same checkpoint; give each query a checkpointLocation"
            " of its own, or stop the other one and start this one again"
        )
    if _FULL in text:
        return StoreFull(
            "no room on a disk that Spark writes to, for its checkpoint or its scratch files; what"
            " was committed before is kept, so make room and start again"
        )
    return _damage_in(text)


def _damage_in(text: str) -> StoreCorrupt | None:
    """The error of a checkpoint that Spark refuses.

    A landing finds out from its table what has landed. Only the user knows what other queries have
    written: with a new checkpoint a query is another one, and may write it again.
    """
    begun = _BEGUN.search(text)
    if begun is not None:
        path = Path(begun[1])
        return _refused(
            path,
            f"Spark's checkpoint has no planned batch, but {path} is not empty: a kill or a full"
            " disk ended the query as it began; if it has written nothing, remove the directory"
            f" {path.parent} and start again",
        )
    moved = _MOVED.search(text)
    if moved is not None:
        path = Path(moved[1])
        return _refused(
            path,
            f"Spark's checkpoint {path.parent} has no {path.name} any more: somebody moved it or"
            " removed it while the query ran; put it back, or start the query at its new place",
        )
    damaged = _UNREADABLE_FILE.search(text)
    if damaged is None:
        return None
    path = Path(damaged[1])
    checkpoint = path.parent.parent
    todo = (
        f"remove the directory {checkpoint} and start again: the queue has what was not settled"
        if checkpoint.parent.name == _LANDING_FOLDER
        else "look at what the query has written, and start it again with a new checkpoint"
    )
    told = f"Spark's checkpoint has a damaged file, {path}, as a power failure leaves one behind"
    return _refused(path, f"{told}; {todo}")


def _refused(path: Path, sentence: str) -> StoreCorrupt:
    return StoreCorrupt(sentence, event=0, file=str(path))


@contextmanager
def disk_told(path: Path) -> Iterator[None]:
    """Let what goes wrong on disk at `path` be told as `StoreFull` or `StoreError`."""
    try:
        yield
    except (ConnectionError, TimeoutError):
        # Also kinds of OSError, but about the other end of a connection.
        raise
    except OSError as error:
        raise _disk_error(path, error.strerror or str(error)) from error
    except TargetUnwritable as error:
        # From the file that the payload grows in, or the queue manager that writes into it.
        raise _disk_error(path, str(error)) from error


def _disk_error(path: Path, reason: str) -> StoreError:
    if any(os.strerror(number) in reason for number in (errno.ENOSPC, errno.EDQUOT)):
        return StoreFull(
            f"no room on the disk of {path}; what had landed before is kept, so make room and"
            " land again"
        )
    return StoreError(f"cannot write {path}: {reason}")
