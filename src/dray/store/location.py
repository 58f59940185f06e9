"""The place of the store of a data directory, when it is not simply here.

Two small files beside the storage folder say so while `dray storage move` is at work and after it:

    old/moved.json   new/moving.json   the store is   a start at old     a start at new
    no               no                old            starts             makes a store of its own
    no               yes               old            starts             refused: unfinished copy
    yes              yes               new            refused: moved     ends the move, starts
    yes              no                new            refused: moved     starts

So `old/moved.json` coming to be, in one rename, is the moment of the move. Both carry the same
`move`, so that the marks of two moves are never taken for one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dray.errors import StoreError, StoreMoved
from dray.fsync import sync_folder

MOVED_NAME: Final = "moved.json"
MOVING_NAME: Final = "moving.json"

Mark = TypeVar("Mark")


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """In the old place: where the store went."""

    to: str
    move: str
    when: str


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """In the new place, until the move has happened: where it is copied from."""

    source: str
    move: str


def check_location(data: Path) -> None:
    """Raise StoreMoved if the store of a data directory is elsewhere; end a move that happened."""
    refuse_if_moved(data)
    mark = data / MOVING_NAME
    if mark.exists():
        mark.unlink(missing_ok=True)
        sync_folder(data)


def refuse_if_moved(data: Path) -> None:
    """Raise StoreMoved if the store of a data directory is elsewhere; for those who only read."""
    moved = read_mark(data / MOVED_NAME, Moved)
    if moved is not None:
        raise StoreMoved(
            f"the store of {data} was moved to {moved.to} ({moved.when}); use that directory, or"
            f" remove {data / MOVED_NAME} to begin a new store here",
            directory=str(data),
            to=moved.to,
        )
    moving = read_mark(data / MOVING_NAME, Moving)
    if moving is None:
        return
    there = read_mark(Path(moving.source) / MOVED_NAME, Moved)
    if there is None or there.move != moving.move:
        raise StoreMoved(
            f"{data} holds an unfinished copy of the store in {moving.source}, which is still the"
            f" store; run `dray storage move --data {moving.source} {data}` again, or remove"
            f" {data}",
            directory=str(data),
            to=moving.source,
        )


def read_mark(path: Path, kind: type[Mark]) -> Mark | None:
    """One of the two files; None if it is not there.

    Raises StoreMoved if it cannot be read, StoreError if this user may not look.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        sentence = (
            f"this user may not look for {path}: {error.strerror}; let the user who runs this read"
            " it"
        )
        raise StoreError(sentence, directory=str(path.parent)) from error
    except (OSError, msgspec.DecodeError) as error:
        raise StoreMoved(
            f"{path}, which tells where the store is, cannot be read: {error}; look into it, and"
            " remove it only when you know which directory has the store",
            directory=str(path.parent),
            to="",
        ) from error
