"""Bodies that a browser gets: to save under a name, or to show if they are pictures."""

from __future__ import annotations

import struct
from typing import Final
from urllib.parse import quote

_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
"""The first bytes of files of pictures. SVG is not among them: it can hold a script."""
_WEBP: Final = (b"RIFF", b"WEBP")
_BIG_PAIR: Final = struct.Struct(">II")
_SMALL_PAIR: Final = struct.Struct("<HH")
_SIGNED_PAIR: Final = struct.Struct("<ii")
_WEBP_HEAD_BYTES: Final = 30
_FRAMES_OF_JPEG: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
PICTURE_HEAD_BYTES: Final = 64 << 10
"""So many first bytes tell a picture and how large it is; notes of a camera may stand before."""
PIXELS_MAX: Final = 64_000_000
"""A browser takes four bytes of memory for each, whatever the file is long."""


def picture_type(head: bytes) -> str:
    """The type of a picture by its first bytes, whatever its sender called it; "" for none."""
    if head[:4] == _WEBP[0] and head[8:12] == _WEBP[1]:
        return "image/webp"
    for beginning, kind in _PICTURES:
        if head.startswith(beginning):
            return kind
    return ""


def is_shown(head: bytes) -> bool:
    """Whether a picture says that a browser can hold it; `head` are its first bytes."""
    width, height = _extent(head)
    return 0 < width * height <= PIXELS_MAX


def _extent(head: bytes) -> tuple[int, int]:
    """Width and height of a picture in pixels; zeros where its first bytes do not say them."""
    try:
        if head.startswith(b"\x89PNG"):
            return _BIG_PAIR.unpack_from(head, 16)
        if head.startswith(b"GIF8"):
            return _SMALL_PAIR.unpack_from(head, 6)
        if head.startswith(b"BM"):
            width, height = _SIGNED_PAIR.unpack_from(head, 18)
            return abs(width), abs(height)
        if head.startswith(b"\xff\xd8\xff"):
            return _extent_of_jpeg(head)
        return _extent_of_webp(head)
    except (struct.error, IndexError):
        return 0, 0


def _extent_of_jpeg(head: bytes) -> tuple[int, int]:
    """Go from segment to segment up to the start of the frame."""
    at = 2
    while True:
        kind, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        if kind in _FRAMES_OF_JPEG:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 2 + max(2, length)


def _extent_of_webp(head: bytes) -> tuple[int, int]:
    if len(head) < _WEBP_HEAD_BYTES:
        return 0, 0
    if head[12:16] == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if head[12:16] == b"VP8L":
        packed = int.from_bytes(head[21:25], "little")
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    width, height = _SMALL_PAIR.unpack_from(head, 26)
    return width & 0x3FFF, height & 0x3FFF


def attachment(name: str) -> dict[str, str]:
    """Headers of an answer that a browser saves and never shows."""
    return {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(plain_name(name), safe='')}",
    }


def plain_name(name: str) -> str:
    """A name for a file, of what a sender wrote: one line, no folders, not too long."""
    kept = "".join(
        each if each.isprintable() and each not in '/\\:*?"<>|' else "_" for each in name
    )
    return kept.strip(" .")[:200] or "body"
