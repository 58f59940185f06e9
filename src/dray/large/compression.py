"""Compression of fragments, each by itself, and only where it pays.

A compressed fragment says in its record header how many bytes it has when it is unpacked (where a
trailer has its count); 0 says that it lies as it is. CRC32C is of what lies there, the digest of
the whole of what was sent. The size of unpacked data is bounded before a byte of it is made: by the
size in the record, which the fragment size bounds, and by the window that a decoder may ask for.
"""

from __future__ import annotations

import sys

from dray.errors import ProtocolError
from dray.model.message import Buffer

if sys.version_info >= (3, 14):
    from compression import zstd  # novermin
else:
    from backports import zstd

LEVEL = 1
"""0.7 GB/s and more; what levels above gain is not worth the time of a sender."""
_PAYS_EIGHTHS = 7
"""A fragment that does not become shorter by an eighth goes as it is."""
_SHORT_BYTES = 512
"""Less is not worth the frame around it."""
_PASSED_OVER_MAX = 15
"""If a body does not compress, one fragment in sixteen is tried."""
_WINDOW_LOG_MAX = 22
"""4 MiB, as a fragment: no frame can make a reader set aside more."""


class Compressor:
    """Compresses the fragments of one large message, and learns whether it pays."""

    def __init__(self, name: str | None) -> None:
        """Compress, or with None leave everything as it is."""
        self._name = name
        self._pass_over = 0
        self._failures = 0

    def packed(self, piece: Buffer) -> bytes | None:
        """The compressed fragment; None where it goes as it is."""
        if self._name is None or len(piece) < _SHORT_BYTES:
            return None
        if self._pass_over:
            self._pass_over -= 1
            return None
        packed = bytes(zstd.compress(piece, level=LEVEL))
        if len(packed) * 8 <= len(piece) * _PAYS_EIGHTHS:
            self._failures = 0
            return packed
        self._failures += 1
        self._pass_over = min(2**self._failures - 1, _PASSED_OVER_MAX)
        return None


def unpacked(packed: Buffer, size: int, size_max: int) -> bytes:
    """Unpack a fragment that says it has `size` bytes; raises `ProtocolError` if it has not."""
    if not 0 < size <= size_max:
        raise ProtocolError(
            f"it would unpack to {size} bytes, and a fragment has {size_max} at most"
        )
    options = {int(zstd.DecompressionParameter.window_log_max): _WINDOW_LOG_MAX}
    decompressor = zstd.ZstdDecompressor(options=options)
    try:
        body = bytes(decompressor.decompress(packed, max_length=size))
        # Asking for one byte more shows whether anything is left to come.
        more = b"" if decompressor.eof else decompressor.decompress(b"", max_length=1)
    except zstd.ZstdError as error:
        raise ProtocolError(f"it cannot be unpacked: {error}") from error
    if len(body) != size or more or not decompressor.eof or decompressor.unused_data:
        raise ProtocolError("it unpacks to another size than it states")
    return body
