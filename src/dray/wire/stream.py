"""Bytes in any pieces in, whole frames out.

The caller reads straight into `buffer()`, so that a body is written once, by the kernel, into the
memory in which it stays until its turn is over.

States: FIXED (24 bytes) -> HEAD -> BODY -> FIXED. A frame is given out only whole. Any bytes
whatever give frames or `ProtocolError`; after an error the stream is of no more use.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.wire.frames import (
    FRAME_HEADER_BYTES,
    FrameHeader,
    Head,
    decode_head,
    read_frame_header,
)

_EMPTY = memoryview(b"")
_SMALL_READ = 1 << 16


class Frame(NamedTuple):
    """One whole frame. `body` is the receiver's until it asks for the next piece of buffer."""

    head: Head
    request_id: int
    body: memoryview


class FrameStream:
    """Cuts a byte stream into frames.

    Small frames are read many at a time into one buffer; what is missing of a large body is read
    straight into the memory of that body.
    """

    def __init__(self) -> None:
        """Begin before the first frame."""
        self._small = bytearray(_SMALL_READ)
        self._start = self._end = 0
        self._pending: tuple[FrameHeader, Head] | None = None
        self._body = _EMPTY
        self._body_have = 0
        self._spare: bytearray | None = None

    def give_back(self, body: memoryview) -> None:
        """Return a body whose turn is over, so that its memory serves the next large one."""
        if len(body) > _SMALL_READ and isinstance(body.obj, bytearray):
            self._spare = body.obj

    def forget_spare(self) -> None:
        """Let go of the memory that was given back."""
        self._spare = None

    def buffer(self) -> memoryview:
        """Where the next bytes go; tell `received` how many came."""
        if self._body_have < len(self._body):
            return self._body[self._body_have :]
        self._make_room()
        return memoryview(self._small)[self._end :]

    def received(self, count: int) -> list[Frame]:
        """Take note of `count` new bytes in `buffer()`; give the frames now whole."""
        frames: list[Frame] = []
        if self._body_have < len(self._body):
            self._body_have += count
        else:
            self._end += count
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        if self._pending is None:
            self._pending = self._read_head()
            if self._pending is None:
                return None
            self._begin_body(self._pending[0].body_bytes)
        if self._body_have < len(self._body):
            return None
        (header, head), body = self._pending, self._body
        self._pending, self._body, self._body_have = None, _EMPTY, 0
        return Frame(head, header.request_id, body)

    def _read_head(self) -> tuple[FrameHeader, Head] | None:
        have = self._end - self._start
        if have < FRAME_HEADER_BYTES:
            return None
        view = memoryview(self._small)
        fixed = view[self._start : self._start + FRAME_HEADER_BYTES]
        header = read_frame_header(fixed)
        whole = FRAME_HEADER_BYTES + header.head_bytes
        if have < whole:
            return None
        head = decode_head(
            header, fixed, view[self._start + FRAME_HEADER_BYTES : self._start + whole]
        )
        self._start += whole
        return header, head

    def _begin_body(self, size: int) -> None:
        """Give the body memory of its own and move what of it has already come."""
        memory, self._spare = self._spare, None
        if memory is None or len(memory) < size or size <= _SMALL_READ:
            # A fresh large body gets room for the largest, so that it fits all that come after.
            memory, self._spare = bytearray(_room_for(size)), memory
        self._body = memoryview(memory)[:size]
        have = min(size, self._end - self._start)
        self._body[:have] = memoryview(self._small)[self._start : self._start + have]
        self._start += have
        self._body_have = have

    def _make_room(self) -> None:
        """Keep a frame's fixed part and head in one piece, with room to read more."""
        have = self._end - self._start
        wanted = _SMALL_READ
        if have >= FRAME_HEADER_BYTES:
            header = read_frame_header(memoryview(self._small)[self._start : self._end])
            wanted = max(wanted, FRAME_HEADER_BYTES + header.head_bytes)
        if len(self._small) < wanted or len(self._small) - self._end < _SMALL_READ // 2:
            fresh = bytearray(max(wanted, _SMALL_READ))
            fresh[:have] = memoryview(self._small)[self._start : self._end]
            self._small, self._start, self._end = fresh, 0, have


def _room_for(size: int) -> int:
    return size if size <= _SMALL_READ else max(size, FRAME_BODY_BYTES_MAX)
