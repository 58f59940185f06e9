"""Bytes in any pieces in, whole frames out.

The caller reads straight into `buffer()`, so that a body is written once, by the kernel, into the
memory in which it stays until its turn is over.

States: FIXED (24 bytes) -> HEAD -> BODY -> FIXED. A frame is given out only whole, also one that
was cut (`cut.py`), whose pieces are read straight into its body. Any bytes whatever give frames or
`ProtocolError`; after an error the stream is of no more use.

Between two reads it holds the bytes of an incomplete frame and the memory for the rest of it; it
holds nothing for a silent connection. Memory for more than a few kilobytes is asked for first;
refused, the stream stands still (`waits_for`) until `go_on`. One that holds the memory of a cut
frame is not refused more, or it might hold it for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.wire.cut import CutFrames, bytes_under
from dray.wire.frames import (
    FIRST,
    FRAME_HEADER_BYTES,
    Continuation,
    Cut,
    FrameHeader,
    check_expected,
    decode_head,
    read_frame_header,
)
from dray.wire.head import Head

READ_BYTES = 1 << 16
"""Bytes to read at a time when no large body is arriving."""
UNASKED_BYTES_MAX = 4 << 10
"""Memory for a frame that is not whole yet is taken without asking up to this."""
_EMPTY = memoryview(b"")
_OF_CUT_ONES = (Cut, Continuation)
_CODES_OF_CUT_ONES = (Cut.code, Continuation.code)

Grant = Callable[[int], bool]


class Frame(NamedTuple):
    """One whole frame. `body` is the receiver's until it asks for the next piece of buffer."""

    head: Head
    request_id: int
    body: memoryview


_frame_of: Callable[[tuple[Head, int, memoryview]], Frame] = partial(tuple.__new__, Frame)


def _always(_: int) -> bool:
    return True


class FrameStream:
    """Cuts a byte stream into frames.

    Small frames are read many at a time into one buffer; what is missing of a large body is read
    straight into the memory of that body.
    """

    def __init__(
        self,
        shared: bytearray | None = None,
        grant: Grant = _always,
        *,
        lenient: bool = False,
        caller_says: AbstractSet[int] | None = None,
    ) -> None:
        """Begin before the first frame.

        `shared` is READ_BYTES of memory that is used between `buffer` and `received` only, so that
        all streams of one thread may share it. `grant` says whether so many more bytes may be held.
        If it is `lenient`, a head with a value of a wrong type comes as `Unfit`. With `caller_says`
        the other end is a caller: it begins with Hello, and goes on with frames of these codes.
        """
        self._shared = bytearray(READ_BYTES) if shared is None else shared
        self._grant = grant
        self._lenient = lenient
        self._then = caller_says
        self._expected: AbstractSet[int] | None = None if caller_says is None else FIRST
        self._hold_nothing()
        self.waits_for = 0
        """Bytes of memory that were refused; until `go_on` nothing may be read."""

    def _hold_nothing(self) -> None:
        self._small = self._shared
        self._start = self._end = 0
        self._rest = b""
        self._pending: tuple[FrameHeader, Head] | None = None
        self._body = _EMPTY
        self._body_have = self._body_room = 0
        self._spare: bytearray | None = None
        self._cut = CutFrames()
        self._begun: tuple[int, int] | None = None

    @property
    def held_bytes(self) -> int:
        """Memory that waits for the rest of a frame."""
        head = len(self._small) if self._small is not self._shared else len(self._rest)
        return head + self._body_room + self._cut.held_bytes

    @property
    def progress(self) -> float:
        """The part that is there of the incoming frame, or of the cut frame that is least far."""
        if self._body_have < len(self._body):
            own = self._body_have / len(self._body)
        elif self._small is not self._shared:
            own = self._end / len(self._small)
        else:
            own = 1.0
        return min(own, self._cut.progress)

    def give_back(self, body: memoryview) -> None:
        """Return a body whose turn is over, so that its memory serves the next large one."""
        if len(body) > READ_BYTES and isinstance(body.obj, bytearray):
            self._spare = body.obj

    def forget_spare(self) -> None:
        """Let go of the memory that was given back."""
        self._spare = None

    def close(self) -> None:
        """Let go of all memory, also of what is half there; the stream is of no more use."""
        self._hold_nothing()

    def buffer(self, most: int = READ_BYTES) -> memoryview:
        """The buffer for the next bytes; tell `received` how many came.

        At most `most` of them, unless they belong to a large body or head, which has its memory.
        """
        assert not self.waits_for, "there is no memory for what comes next"
        if self._body_have < len(self._body):
            return self._body[self._body_have :]
        if self._small is not self._shared:
            return memoryview(self._small)[self._end :]
        if self._rest:
            self._take_up_rest()
        return memoryview(self._small)[self._end : self._end + most]

    def received(self, count: int) -> list[Frame]:
        """Take note of `count` new bytes in `buffer()`; give the frames now whole."""
        if self._body_have < len(self._body):
            self._body_have += count
        else:
            self._end += count
        return self._whole_ones()

    def go_on(self) -> list[Frame]:
        """Ask again for memory that was refused; give the frames now whole."""
        self.waits_for = 0
        self._take_up_rest()
        return self._whole_ones()

    def _whole_ones(self) -> list[Frame]:
        frames = self._small_ones() if self._pending is None and self._begun is None else []
        if not frames or self._start < self._end:
            while (frame := self._next()) is not None:
                frames.append(frame)
        if self._start == self._end and self._small is self._shared:
            self._start, self._end, self._rest = 0, 0, b""
        else:
            self._put_rest_aside()
        return frames

    def _small_ones(self) -> list[Frame]:
        """Frames that are there from end to end, as most are, up to the first that is not so."""
        frames: list[Frame] = []
        view, start, end = memoryview(self._small), self._start, self._end
        while end - start >= FRAME_HEADER_BYTES:
            header = read_frame_header(view, start)
            kind, request_id, head_bytes, body_bytes, _ = header
            body_at = start + FRAME_HEADER_BYTES + head_bytes
            stop = body_at + body_bytes
            if stop > end or kind in _CODES_OF_CUT_ONES:
                break
            head = self._decode(header, view[start:body_at])
            body = memoryview(bytearray(view[body_at:stop])) if body_bytes else _EMPTY
            frames.append(_frame_of((head, request_id, body)))
            self._start = start = stop
        return frames

    def _next(self) -> Frame | None:
        """The next whole frame, if it is there; what belongs to a cut one is put in its place."""
        while self._begun is None or self._begin_cut(*self._begun):
            frame = self._next_on_the_wire()
            if frame is None or not isinstance(frame.head, _OF_CUT_ONES):
                return frame
            channel = frame.head.channel
            if isinstance(frame.head, Cut):
                self._begun = channel, self._cut.begin(channel, frame.body, self._expected)
                continue
            whole = self._cut.arrived(channel, len(frame.body))
            if whole is not None:
                return Frame(*whole)
        return None

    def _next_on_the_wire(self) -> Frame | None:
        if self._pending is None:
            self._pending = self._read_head()
            if self._pending is None:
                return None
        if not len(self._body) and not self._begin_body(*self._pending):
            return None
        if self._body_have < len(self._body):
            return None
        (header, head), body = self._pending, self._body
        self._pending, self._body = None, _EMPTY
        self._body_have = self._body_room = 0
        return Frame(head, header.request_id, body)

    def _read_head(self) -> tuple[FrameHeader, Head] | None:
        have = self._end - self._start
        if have < FRAME_HEADER_BYTES:
            return None
        header = read_frame_header(self._small, self._start)
        check_expected(header, self._expected)
        whole = FRAME_HEADER_BYTES + header.head_bytes
        if have < whole:
            self._prepare_for(whole)
            return None
        encoded = memoryview(self._small)[self._start : self._start + whole]
        head = self._decode(header, encoded)
        self._start += whole
        return header, head

    def _decode(self, header: FrameHeader, encoded: memoryview) -> Head:
        expected = self._expected
        if expected is not None and (expected is FIRST or header.type not in expected):
            check_expected(header, expected)
        head = decode_head(header, encoded, lenient=self._lenient)
        self._expected = self._then
        return head

    def _prepare_for(self, whole: int) -> None:
        """Make sure, once, that a head of which a part is there finds room for the rest."""
        if self._small is not self._shared:
            return
        if whole > UNASKED_BYTES_MAX and not self._may_hold(whole):
            return
        if whole > len(self._small):
            fresh, have = bytearray(whole), self._end - self._start
            fresh[:have] = memoryview(self._small)[self._start : self._end]
            self._small, self._start, self._end = fresh, 0, have

    def _begin_body(self, header: FrameHeader, head: Head) -> bool:
        """Give the body its memory and move what of it has already come; or wait."""
        size = header.body_bytes
        have = min(size, self._end - self._start)
        if have == size <= READ_BYTES and not isinstance(head, Continuation):
            # Most bodies: small, and there already.
            came = memoryview(self._small)[self._start : self._start + size]
            self._body = memoryview(bytearray(came)) if size else _EMPTY
            self._start += size
            self._body_have = size
            return True
        if isinstance(head, Continuation):
            self._body, self._body_room = self._cut.room(head.channel, size), 0
        else:
            room = _room_for(size)
            if size > UNASKED_BYTES_MAX and not self._may_hold(room):
                return False
            self._body = self._memory(size)
            self._body_room = bytes_under(self._body)
        self._body[:have] = memoryview(self._small)[self._start : self._start + have]
        self._start += have
        self._body_have = have
        return True

    def _begin_cut(self, channel: int, size: int) -> bool:
        """Give the body of a frame that comes in pieces its memory; or wait."""
        if not self._may_hold(_room_for(size)):
            return False
        self._cut.has_memory(channel, self._memory(size))
        self._begun = None
        return True

    def _memory(self, size: int) -> memoryview:
        memory, self._spare = self._spare, None
        if memory is None or len(memory) < size or size <= READ_BYTES:
            # A fresh large body gets room for the largest, so that it fits all that come after.
            memory, self._spare = bytearray(_room_for(size)), memory
        return memoryview(memory)[:size]

    def _may_hold(self, size: int) -> bool:
        if not (self._cut.held_bytes or self._grant(size)):
            self.waits_for = size
        return not self.waits_for

    def _put_rest_aside(self) -> None:
        """Leave the shared memory to others; drop a buffer that a large head had to itself."""
        if self._small is self._shared or self._start:
            rest = memoryview(self._small)[self._start : self._end]
            self._rest = bytes(rest) if rest else b""
            self._small, self._start, self._end = self._shared, 0, 0

    def _take_up_rest(self) -> None:
        if self._rest and self._small is self._shared:
            self._small[: len(self._rest)] = self._rest
            self._start, self._end = 0, len(self._rest)


def _room_for(size: int) -> int:
    return size if size <= READ_BYTES else max(size, FRAME_BODY_BYTES_MAX)
