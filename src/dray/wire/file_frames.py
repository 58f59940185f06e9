"""Frames with which a client on a Unix socket lends a file (codes 90 to 92).

The file's descriptor travels beside the first byte of the frame (`SCM_RIGHTS`), one with each frame
that says so, and is closed when the frame has been served. See docs/explanation/local-files.md.
"""

from __future__ import annotations

from typing import ClassVar

from dray.wire.head import Head


class SendFile(Head, frozen=True):
    """One record in a transaction: its head is the frame's body, its body is in the file.

    The record has `size` bytes and the CRC32C `crc`; what follows the head lies at `offset` of the
    file. Answered by Done once it is placed, durable or not, or by Failed, which dooms the
    transaction.
    """

    code = 90
    with_file: ClassVar[bool] = True
    queue: int
    transaction: int
    size: int
    crc: int
    offset: int


class CopyPart(Head, frozen=True):
    """Have a range of one record, by position, written into the file, at `at`. As ReadPart.

    Answered by Copied, when the bytes are in the file (they are not synced), or by Failed.
    """

    code = 91
    with_file: ClassVar[bool] = True
    queue: int
    lookup_id: int
    offset: int
    length: int
    at: int


class Copied(Head, frozen=True):
    """The range is in the file; in the body, what of the record comes before it."""

    code = 92
