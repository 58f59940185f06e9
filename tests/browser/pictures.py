"""Pictures for tests of pages."""

from __future__ import annotations

import struct
import zlib


def picture(width, height):
    """A PNG of so many pixels, one colour a column."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    row = b"\0" + b"".join(bytes((x * 7 % 256, 90, 160)) for x in range(width))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(row * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
