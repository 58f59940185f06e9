"""Names in the hidden folder of a directory that receives files, and the notes among them.

    <key>.lock           locked by the one who receives the message
    <key>.part           its body; `.part.partial` while a large one grows
    <key>.kept           the same for `--resume`, which nobody else removes
    <key>.at.<inode>.<transaction>     a note: this file belongs to the message

The key is the message's id. A note is an empty file, so that one sync of the folder makes it
durable.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dray.model.ids import join_id, split_id

_ID = r"[0-9a-f]{32}-[0-9]{1,19}"
_NOTE = re.compile(rf"({_ID})\.at\.([0-9]{{1,20}})\.({_ID})\Z")
_OURS = re.compile(rf"({_ID})\.(?:lock|(?:part|kept)(?:\.partial)?|at\..+)\Z")


class PlacedNote(NamedTuple):
    """Tells which file was placed for a message, and in which transaction."""

    key: str
    inode: int
    transaction_id: str

    @property
    def name(self) -> str:
        """The name of the note file."""
        return f"{self.key}.at.{self.inode}.{key_of(self.transaction_id)}"


def key_of(id: str) -> str:
    """An id as part of a file name; raises `Misuse` if it is malformed."""
    manager, number = split_id(id)
    return f"{manager}-{number}"


def note_in(name: str) -> PlacedNote | None:
    """Read the name of a note; None if it is not a note."""
    found = _NOTE.match(name)
    if found is None:
        return None
    manager, _, number = found[3].partition("-")
    return PlacedNote(
        found[1], int(found[2]), join_id(split_id(f"{manager}\\{number}")[0], int(number))
    )


def key_of_name(name: str) -> str | None:
    """The message to which a file belongs; None if the file is not ours."""
    found = _OURS.match(name)
    return None if found is None else found[1]
