"""Files in a directory, there whole or not at all, never in place of another.

A file is written under a name that begins with a dot, synced, and only then given its own name, by
a link, which fails if that name is taken; then the directory is synced. What a crash leaves behind
is at most an unfinished file with a name that says so.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from dray.cli.labels import file_name, numbered
from dray.errors import DrayError, InvalidConfiguration, TargetUnwritable


def directory(path: str) -> Path:
    """The directory at `path`, made if it is missing; raises `InvalidConfiguration`."""
    place = Path(path)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidConfiguration(
            f"{path} cannot be used as a directory: {error.strerror or error}"
        ) from error
    return place


def place(
    folder: Path,
    label: str,
    otherwise: str,
    write: Callable[[Path], object],
    *,
    going_on: bool = False,
    sync: bool = True,
) -> Path:
    """Have `write` make a file, then give it a free name made from `label`; it is durable then.

    With `going_on` each attempt at what `otherwise` names is given the same path. Without `sync`
    nothing waits for the disk.
    """
    chance = otherwise if going_on else secrets.token_hex(8)
    unfinished = folder / f".dray-{chance}.part"
    try:
        write(unfinished)
        if sync:
            _sync(unfinished)
        final = _link(unfinished, folder, file_name(label, otherwise))
        if sync:
            _sync(folder)
    except OSError as error:
        if isinstance(error, DrayError):
            raise
        raise _translated(folder, error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return final


def _link(unfinished: Path, folder: Path, name: str) -> Path:
    for count in itertools.count(1):
        final = folder / numbered(name, count)
        try:
            os.link(unfinished, final)
        except FileExistsError:
            continue
        return final
    raise AssertionError


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _translated(folder: Path, error: OSError) -> DrayError:
    reason = error.strerror or str(error)
    return TargetUnwritable(
        f"{folder} cannot be written: {reason}; free room or give another directory, the message is"
        " still in its queue",
        path=str(folder),
    )
