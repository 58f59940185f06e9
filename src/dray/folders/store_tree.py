"""Finds the objects of a store that fsspec knows, and reads them: the source of `folders.send`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from dray.errors import DrayError, InvalidConfiguration, SourceChanged, SourceUnreadable
from dray.folders.fsspec import file_system
from dray.folders.tree import FoundFile, LeftOut, Selection
from dray.model.files import is_plain_path
from dray.model.limits import MIB

_MARKS: Final = ("ETag", "etag", "md5Hash", "generation", "ino", "created", "LastModified")
"""Properties of an object that change with its content, as the stores call them."""
_TIMES: Final = ("mtime", "LastModified", "last_modified", "updated", "created")
_READ_BYTES: Final = 8 * MIB
_NANOSECONDS: Final = 1_000_000_000


class StoreTree:
    """A prefix of a store to send from."""

    def __init__(self, url: str, selection: Selection) -> None:
        """Take the URL; raises `InvalidConfiguration`."""
        self.url = url.rstrip("/")
        self.selection = selection
        self._store, self._root = file_system(url)

    def walk(self, below: str = "") -> Iterator[FoundFile | LeftOut]:
        """Find the objects in the order of their names; each is looked at once."""
        del below
        try:
            self._store.invalidate_cache()
            if not self._store.exists(self._root):
                raise InvalidConfiguration(f"{self.url} does not exist; name what to send")
            found = self._store.find(self._root, detail=True)
        except DrayError:
            raise
        except Exception as error:
            raise _unreadable(self.url, error) from error
        for full, about in sorted(found.items()):
            path = self._path_of(full)
            each = self._found(path, about)
            if each is not None:
                yield each

    def look_at(self, path: str) -> FoundFile | LeftOut | None:
        """Look at one object; None if no object of that name is to be sent now."""
        try:
            self._store.invalidate_cache()
            about = self._store.info(self._full(path))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - the libraries of stores raise what they like
            return LeftOut(path, f"it cannot be looked at: {error}")
        return self._found(path, about)

    @contextmanager
    def body_of(self, file: FoundFile) -> Iterator[object]:
        """Open an object; raises `SourceChanged` if it is another version by now."""
        if self.look_at(file.path) != file:
            raise SourceChanged(f"{self.url}/{file.path} changed", path=file.path)
        try:
            opened = self._store.open(self._full(file.path), "rb", block_size=_READ_BYTES)
        except Exception as error:
            raise _unreadable(f"{self.url}/{file.path}", error) from error
        with opened:
            yield _ObjectReader(self.url, file.path, opened)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _path_of(self, full: str) -> str:
        if full == self._root:
            # The URL of a single object.
            return full.rpartition("/")[2]
        return full.removeprefix(self._root).lstrip("/")

    def _found(self, path: str, about: Mapping[str, Any]) -> FoundFile | LeftOut | None:
        # A prefix has objects below it, and some stores keep an empty object for it.
        if about.get("type") == "directory" or path.endswith("/") or not path:
            return None
        if not self.selection.takes(path):
            return None
        if not is_plain_path(path):
            return LeftOut(path, "its name is no relative path of a file")
        marks = [_mark(about[each]) for each in _MARKS if about.get(each) is not None]
        digest = hashlib.blake2b("\n".join(marks).encode(), digest_size=7).digest()
        size = int(about.get("size") or 0)
        return FoundFile(path, size, _mtime_ns(about), int.from_bytes(digest, "big"))


class _ObjectReader:
    """Reads an open object; translates what the libraries of stores raise."""

    def __init__(self, url: str, path: str, opened: Any) -> None:  # noqa: ANN401 - of fsspec
        self._name = f"{url}/{path}"
        self._opened = opened

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        try:
            return bytes(self._opened.read(size))
        except Exception as error:
            raise _unreadable(self._name, error) from error


def _mark(value: object) -> str:
    # One store gives a time as a number here and as a date there.
    return str(value.timestamp() if isinstance(value, datetime) else value)


def _mtime_ns(about: Mapping[str, Any]) -> int:
    for each in _TIMES:
        value = about.get(each)
        if isinstance(value, datetime):
            return int(value.timestamp() * _NANOSECONDS)
        if isinstance(value, (int, float)):
            return int(value * _NANOSECONDS)
    return 0


def _unreadable(name: str, error: Exception) -> SourceUnreadable:
    return SourceUnreadable(f"{name} cannot be read: {error}; mend that, then send", path=name)
