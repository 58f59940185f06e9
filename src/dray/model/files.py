"""The properties of a file that travel with a large message: path, size, time and mode."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.model.limits import PATH_BYTES_MAX

NAME_BYTES_MAX: Final = 255
"""The longest name of a file in the common file systems of Linux."""
MODE_MAX: Final = 0o7777
"""Permission bits with those for set-user-id, set-group-id and sticky."""


class FileProperties(msgspec.Struct, frozen=True):
    """The file that a large message was made of.

    `path` is relative to the folder that was sent, with "/" between names; bytes of a name that are
    no UTF-8 are in it as `os.fsdecode` gives them. `size` is in bytes, `mtime_ns` in nanoseconds
    since the epoch, `mode` the permission bits. A sender may write anything in a path: check it
    with `is_plain_path` before you make a file of that name.
    """

    path: str
    size: int
    mtime_ns: int
    mode: int = 0o644


def is_plain_path(path: str) -> bool:
    """Whether a path stays below the folder that it is joined to and every name can be a file's."""
    try:
        encoded = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    names = encoded.split(b"/")
    return (
        0 < len(encoded) <= PATH_BYTES_MAX
        and b"\0" not in encoded
        and all(0 < len(each) <= NAME_BYTES_MAX and each not in {b".", b".."} for each in names)
    )


def name_as_text(name: str) -> str:
    """A file's name for a label: bytes of it that are no UTF-8 are shown as escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_utf8(path: str) -> bool:
    """Whether a path can stand in a note, which is JSON."""
    return name_as_text(path) == path


def encode_file(file: FileProperties) -> tuple[bytes, int, int, int]:
    """Give the values as they stand in a control record."""
    path = file.path.encode("utf-8", "surrogateescape")
    return path, file.size, file.mtime_ns, file.mode


def decode_file(values: tuple[bytes, int, int, int]) -> FileProperties:
    """Read the values of a control record; the path may be a hostile one."""
    path, size, mtime_ns, mode = values
    return FileProperties(path.decode("utf-8", "surrogateescape"), size, mtime_ns, mode)
