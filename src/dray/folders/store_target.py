"""Received files as objects of a store that fsspec knows, such as a bucket of S3.

An object is streamed, and a store shows it when it is complete. Before that a small object, the
note, says which name the message has chosen; so a message that comes again writes the same object,
and finds out that it is there. The note goes when the commit is certain.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from dray.client.blocking.large_message import LargeMessage
from dray.errors import DrayError, FileRefused, TargetUnwritable
from dray.folders.below import check_path
from dray.folders.file_receiver import PlacedBody, path_of
from dray.folders.fsspec import file_system
from dray.folders.labels import numbered
from dray.folders.notes import key_of
from dray.folders.tree_target import OnConflict
from dray.model.classes import TransactionStatus
from dray.model.limits import MIB

_log = logging.getLogger(__name__)
NOTES: Final = ".dray-notes"
_BLOCK_BYTES: Final = 16 * MIB
"""Memory for one object that is written."""
_BLOCKS_MAX: Final = 9_000
"""S3 takes at most 10,000 parts of one object."""


class StoreTarget:
    """A prefix in a store; its methods may be called from several threads."""

    def __init__(self, url: str, *, tree: bool = False, on_conflict: OnConflict = "number") -> None:
        """Take the URL; raises `InvalidConfiguration`."""
        self._url = url
        self._tree = tree
        self._on_conflict = on_conflict
        file_system(url)

    def clear(self, outcome: Callable[[str], TransactionStatus]) -> None:
        """Remove the notes of messages whose commit is certain."""
        store, root = file_system(self._url)
        try:
            store.invalidate_cache()
            for note in store.ls(f"{root}/{NOTES}", detail=False):
                found = _read(store, note)
                if found and outcome(found.transaction_id) is TransactionStatus.COMMITTED:
                    store.rm_file(note)
        except FileNotFoundError:
            return
        except DrayError:
            raise
        except Exception as error:
            raise self._unwritable(NOTES, error) from error

    def place(self, message: LargeMessage, transaction_id: str) -> PlacedBody:
        """Write the body of a message into an object, which is complete then.

        Raises `FileRefused`, `TargetUnwritable`, and as reading the message does.
        """
        path = path_of(message)
        if not self._tree:
            path = path.rpartition("/")[2]
        check_path(path)
        try:
            return self._place(message, path, transaction_id)
        except DrayError:
            raise
        except Exception as error:
            # The libraries of stores raise what they like.
            raise self._unwritable(path, error) from error

    def _place(self, message: LargeMessage, path: str, transaction_id: str) -> PlacedBody:
        # Each thread has a file system of its own.
        store, root = file_system(self._url)
        store.invalidate_cache()
        at = f"{root}/{NOTES}/{key_of(message.sequence_id)}"
        note = _read(store, at)
        if note is None:
            name = self._free(store, root, path)
            if name is None:
                skipped = "another object has its name"
                return PlacedBody(f"{self._url}/{path}", None, lambda _: None, skipped)
            note = _Note(name, transaction_id, complete=False)
        elif note.complete and not store.exists(f"{root}/{note.name}"):
            note = note._replace(complete=False)
        _write(store, at, note._replace(transaction_id=transaction_id))
        if not note.complete:
            _write_object(store, f"{root}/{note.name}", message)
            _write(store, at, _Note(note.name, transaction_id, complete=True))
        return PlacedBody(
            f"{self._url.rstrip('/')}/{note.name}",
            None,
            lambda committed: _forget(store, at) if committed else None,
        )

    def _free(self, store: Any, root: str, path: str) -> str | None:  # noqa: ANN401 - of fsspec
        """The name of the object to write; None if there is to be none."""
        name, count = path, 1
        while store.exists(f"{root}/{name}"):
            if self._on_conflict == "replace":
                return path
            if self._on_conflict == "skip":
                return None
            if self._on_conflict == "fail":
                raise FileRefused(
                    f"the file {path!r} cannot be restored here: another object has its name;"
                    " remove that one, or let the new one get a number",
                    path=path,
                )
            count += 1
            above, _, last = path.rpartition("/")
            name = posixpath.join(above, numbered(last, count))
        return name

    def _unwritable(self, path: str, error: Exception) -> TargetUnwritable:
        return TargetUnwritable(
            f"{self._url}/{path} cannot be written: {error}; mend that, the message is still in its"
            " queue",
            path=f"{self._url}/{path}",
        )


class _Note(NamedTuple):
    """The name that a message has chosen, and whether its object is complete."""

    name: str
    transaction_id: str
    complete: bool


def _read(store: Any, at: str) -> _Note | None:  # noqa: ANN401 - of fsspec
    try:
        words = store.cat_file(at).decode("utf-8", "surrogateescape").split("\n", 2)
    except FileNotFoundError:
        return None
    return _Note(words[2], words[1], words[0] == "complete") if len(words) == 3 else None  # noqa: PLR2004


def _write(store: Any, at: str, note: _Note) -> None:  # noqa: ANN401 - of fsspec
    text = "\n".join(["complete" if note.complete else "begun", note.transaction_id, note.name])
    _make_folder(store, at)
    store.pipe_file(at, text.encode("utf-8", "surrogateescape"))


def _forget(store: Any, at: str) -> None:  # noqa: ANN401 - of fsspec
    try:
        store.rm_file(at)
    except Exception as error:  # noqa: BLE001 - the libraries of stores raise what they like
        # The commit stands, and the next receiver removes the note.
        _log.warning("the note %s stays until the next receiver begins: %s", at, error)


def _write_object(store: Any, at: str, message: LargeMessage) -> None:  # noqa: ANN401 - of fsspec
    """Stream a body; the store shows the object once the body is complete and verified."""
    _make_folder(store, at)
    block = max(_BLOCK_BYTES, message.size // _BLOCKS_MAX + 1)
    with store.transaction, store.open(at, "wb", block_size=block) as out:
        for piece in message:
            out.write(piece)


def _make_folder(store: Any, at: str) -> None:  # noqa: ANN401 - of fsspec
    """Make the folders above a path, where a store has folders. Object stores have none."""
    if not store.async_impl:
        store.makedirs(posixpath.dirname(at), exist_ok=True)
