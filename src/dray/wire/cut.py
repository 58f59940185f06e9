"""Long frames cut into continuations, so that other frames can pass between them.

     Cut(2)            Continuation(2)    any frame  Continuation(2)
     +--------------+  +---------------+  +---------+  +---------------+
     | fixed | head |  | body, part 1  |  |         |  | body, part 2  |
     +--------------+  +---------------+  +---------+  +---------------+
      of the long frame, without its body

A channel is FREE until a Cut, then OPEN until the last byte of the long frame's body has come.
Nothing but order on its channel says what belongs together; TCP keeps that order. The checksum of
what was cut is its own: of the head here, of the records in their envelopes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from dray.errors import ProtocolError
from dray.model.limits import FRAME_CHANNELS_MAX
from dray.wire.frames import (
    FRAME_HEADER_BYTES,
    Continuation,
    Cut,
    FrameHeader,
    check_expected,
    decode_head,
    read_frame_header,
)
from dray.wire.head import Head


class _Cut:
    """One frame of which pieces are still to come."""

    __slots__ = ("body", "have", "head", "header")

    def __init__(self, header: FrameHeader, head: Head) -> None:
        self.header, self.head = header, head
        self.body = memoryview(b"")
        self.have = 0


class CutFrames:
    """The frames of one connection that are under way in pieces."""

    def __init__(self) -> None:
        """Begin with all channels free."""
        self._open: dict[int, _Cut] = {}
        self.held_bytes = 0
        """Memory of the bodies that are under way."""

    @property
    def progress(self) -> float:
        """The part that is there of the frame of which least is there; 1 if none is under way."""
        return min((cut.have / len(cut.body) for cut in self._open.values() if cut.body), default=1)

    def begin(
        self, channel: int, announced: memoryview, expected: AbstractSet[int] | None = None
    ) -> int:
        """Take the beginning of a frame; how long its body is. Raises `ProtocolError`.

        `announced` is the body of a Cut; `expected` has the types that the frame may have. The
        caller then gives the frame its memory.
        """
        if not 0 <= channel < FRAME_CHANNELS_MAX or channel in self._open:
            raise ProtocolError(f"a frame cannot be cut on channel {channel}: it is not free")
        if len(announced) < FRAME_HEADER_BYTES:
            raise ProtocolError("a frame that is to come in pieces lacks its beginning")
        header = read_frame_header(announced)
        if FRAME_HEADER_BYTES + header.head_bytes != len(announced) or not header.body_bytes:
            raise ProtocolError("a frame that is to come in pieces does not fit its beginning")
        if header.type in (Cut.code, Continuation.code):
            raise ProtocolError("a piece of a frame cannot come in pieces")
        check_expected(header, expected)
        self._open[channel] = _Cut(header, decode_head(header, announced))
        return header.body_bytes

    def has_memory(self, channel: int, body: memoryview) -> None:
        """The buffer for the body of the frame that has just begun."""
        self._open[channel].body = body
        self.held_bytes += bytes_under(body)

    def room(self, channel: int, size: int) -> memoryview:
        """The buffer for the next `size` bytes. Raises `ProtocolError` if none are expected."""
        cut = self._open.get(channel)
        if cut is None:
            raise ProtocolError(f"a piece came on channel {channel}, where no frame was cut")
        if not 0 < size <= len(cut.body) - cut.have:
            raise ProtocolError("a piece does not fit the frame it belongs to")
        return cut.body[cut.have : cut.have + size]

    def arrived(self, channel: int, size: int) -> tuple[Head, int, memoryview] | None:
        """Take note that a piece is there: head, request id and body if it was the last."""
        cut = self._open[channel]
        cut.have += size
        if cut.have < len(cut.body):
            return None
        del self._open[channel]
        self.held_bytes -= bytes_under(cut.body)
        return cut.head, cut.header.request_id, cut.body


def bytes_under(body: memoryview) -> int:
    """The memory that a body holds, which may be more than it fills."""
    return memoryview(body.obj).nbytes
