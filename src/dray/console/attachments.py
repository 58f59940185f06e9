"""Bodies that a browser gets: to save under a name, or to show if they are pictures."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
"""How files of pictures begin. SVG is not among them: it can hold a script."""
_WEBP: Final = (b"RIFF", b"WEBP")
PICTURE_HEAD_BYTES: Final = 16
"""So many first bytes tell a picture."""


def picture_type(head: bytes) -> str:
    """The type of a picture by its first bytes, whatever its sender called it; "" for none."""
    if head[:4] == _WEBP[0] and head[8:12] == _WEBP[1]:
        return "image/webp"
    for beginning, kind in _PICTURES:
        if head.startswith(beginning):
            return kind
    return ""


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
