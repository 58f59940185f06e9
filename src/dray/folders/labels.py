"""Message labels as file names, so that no sender can choose where a receiver writes.

A label is text from another machine: it may name a directory above, a device, a hidden file, or
hold control characters. `file_name` makes one plain name of it, never empty, that every file system
accepts.
"""

from __future__ import annotations

import os
import re
import unicodedata

from dray.model import files

NAME_BYTES_MAX = 200
"""File systems take 255 bytes; the rest is room for a counter and the mark of unfinished files."""
_NAMES_MAX = 10_000
"""Names of which the last number is kept: a megabyte. Others are counted from the beginning."""
_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')
_ENDING = re.compile(r"(\.[^.\s]{1,12})\Z")


def file_name(label: str, otherwise: str) -> str:
    """A safe name made from the last part of `label`, or from `otherwise` if nothing is left."""
    for text in (label.replace("\\", "/").rstrip("/").rpartition("/")[2], otherwise):
        name = _plain(text)
        if name:
            return name
    return "message"


def numbered(name: str, count: int) -> str:
    """The name itself, then "name (2)", "name (3)", before its ending."""
    if count == 1:
        return name
    ending = _ENDING.search(name, 1)
    stem, tail = (name[: ending.start()], ending[0]) if ending else (name, "")
    return f"{stem} ({count}){tail}"


class LastNumbers:
    """The last number that each name got, so that not all of them are tried for the next one."""

    def __init__(self) -> None:
        """Know of no name yet."""
        self._last: dict[str, int] = {}

    def next(self, name: str, taken: int) -> int:
        """The number to try when the number `taken` of a name is taken."""
        return max(taken, self._last.get(name, 1)) + 1

    def note(self, name: str, count: int) -> None:
        """Note the number that a name got."""
        if count > 1:
            if len(self._last) >= _NAMES_MAX:
                self._last.clear()
            self._last[name] = count


def otherwise_named(id: str | None) -> str:
    """A file's name for a message without a label."""
    return f"message-{(id or '').rpartition(chr(92))[2]}"


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text)
    text = "".join(
        character for character in text if unicodedata.category(character) not in {"Cf", "Cs", "Co"}
    )
    text = _UNSAFE.sub("_", text).strip().lstrip(".").strip()
    ending = _ENDING.search(text, 1)
    tail = ending[0] if ending else ""
    stem = text[: len(text) - len(tail)]
    while len((stem + tail).encode()) > NAME_BYTES_MAX:
        stem = stem[:-1]
    return (stem + tail).strip(" _") and stem + tail


def short_numbered(name: str, count: int) -> str:
    """A numbered name that a file system accepts."""
    found = numbered(name, count)
    while len(os.fsencode(found)) > files.NAME_BYTES_MAX:
        name = name[:-1]
        found = numbered(name, count)
    return found
