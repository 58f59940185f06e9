"""The order in which streams send on a connection that they share.

A stream has a lane, in which its frames keep their order. Lanes take turns; in its turn a lane
sends a share: what the line takes in 5 ms. A frame that is longer than a share is cut
(`wire/cut.py`) and goes a piece a turn. So nobody waits for a long frame to end: a lane that was
empty comes before all others, and waits for what is with the socket and one share more.

    idle      put                          fresh: before all that go round
    fresh     its turn                     in the round, behind all others, even if it is empty now
    round     its turn, nothing is left    idle
    round     its turn, no channel free    parked, until a cut frame has ended

A lane that has emptied stays for one round more, or a stream of many small frames would be fresh
each time and stop all the others. Bytes taken from here have been decided and are sent in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dray.daemon.limits import (
    KERNEL_SEND_BYTES_MIN,
    SHARE_BYTES_MAX,
    SHARE_BYTES_MIN,
    SHARE_QUICK_TURNS,
    SHARE_S,
    SHARE_SLOW_TURNS,
)
from dray.model.limits import FRAME_CHANNELS_MAX
from dray.store.heap.heap import Extent
from dray.wire.frames import Continuation, Cut, encode_frame


class HeapRange:
    """A range of a pinned heap file that is still to be sent."""

    __slots__ = ("file", "in_kernel", "left", "offset", "pinned")

    def __init__(self, extent: Extent, *, in_kernel: bool, pinned: bool = True) -> None:
        """A range of an extent; `pinned` says that sending it gives its pin back."""
        self.file, self.offset, self.left = extent.file, extent.offset, extent.length
        self.in_kernel = in_kernel and extent.length >= KERNEL_SEND_BYTES_MIN
        self.pinned = pinned

    def __len__(self) -> int:
        """Bytes left of it."""
        return self.left

    def split(self, size: int) -> HeapRange:
        """Take `size` bytes from its beginning; the pin stays with the rest."""
        first = HeapRange(
            Extent(self.file, self.offset, size), in_kernel=self.in_kernel, pinned=False
        )
        self.offset += size
        self.left -= size
        return first


Part = memoryview | HeapRange


class _Waiting:
    """A frame, or what is left of one; `size` is that of its body."""

    __slots__ = ("body", "channel", "head", "size")

    def __init__(self, head: bytes, body: Iterable[Part]) -> None:
        self.head = head
        self.body = deque(body)
        self.size = sum(map(len, self.body))
        self.channel: int | None = None

    def is_longer_than(self, share: int) -> bool:
        """Whether it would hold up others for more than a share, and can be cut."""
        return len(self.head) + self.size > share and self.size > 0


class Lanes:
    """The frames that wait on one connection, by lane."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[_Waiting]] = {}
        self._fresh: deque[int] = deque()
        self._round: deque[int] = deque()
        self._parked: deque[int] = deque()
        self._free = list(range(FRAME_CHANNELS_MAX))
        self.count = 0
        """Frames that wait, whole or in part."""
        self.share = Share()
        self.bytes_in_memory = 0

    def __len__(self) -> int:
        """Frames that wait, whole or in part."""
        return self.count

    def put(self, lane: int, head: bytes, body: Iterable[Part]) -> None:
        """Send a frame after all others of its lane: its encoded beginning, and its body."""
        line = self._lines.get(lane)
        if line is None:
            line = self._lines[lane] = deque()
            self._fresh.append(lane)
        waiting = _Waiting(head, body)
        line.append(waiting)
        self.count += 1
        self.bytes_in_memory += _in_memory(waiting)

    def take(self) -> list[Part]:
        """The next bytes to send, about two shares at most, from one lane. Empty if none waits."""
        while self._fresh or self._round:
            lane = (self._fresh or self._round).popleft()
            line = self._lines[lane]
            if not line:
                del self._lines[lane]
                continue
            parts: list[Part] = []
            if self._take_share(line, parts):
                self._round.append(lane)
            else:
                self._parked.append(lane)
            if parts:
                return parts
        return []

    def drop(self) -> Iterable[HeapRange]:
        """Forget all; what was pinned for it."""
        pinned = [
            part
            for line in self._lines.values()
            for waiting in line
            for part in waiting.body
            if isinstance(part, HeapRange)
        ]
        self._lines.clear()
        for lanes in (self._fresh, self._round, self._parked):
            lanes.clear()
        self.count = self.bytes_in_memory = 0
        return pinned

    def _take_share(self, line: deque[_Waiting], parts: list[Part]) -> bool:
        """Move a share to `parts`; false if the lane has to wait for a channel."""
        share = self.share.size
        while line and share > 0:
            waiting = line[0]
            if waiting.channel is None and not waiting.is_longer_than(self.share.size):
                parts += (memoryview(waiting.head), *waiting.body)
                share -= len(waiting.head) + waiting.size
                self.bytes_in_memory -= _in_memory(waiting)
                self._ended(line)
                continue
            if waiting.channel is None:
                if not self._free:
                    return False
                waiting.channel = self._free.pop()
                self.bytes_in_memory -= len(waiting.head)
                begin = encode_frame(Cut(waiting.channel), 0, len(waiting.head))
                parts += (memoryview(begin), memoryview(waiting.head))
            size = min(share, waiting.size)
            parts.append(memoryview(encode_frame(Continuation(waiting.channel), 0, size)))
            self._take_piece(waiting, size, parts)
            share -= size
            if not waiting.size:
                self._free.append(waiting.channel)
                if self._parked:
                    self._round.append(self._parked.popleft())
                self._ended(line)
        return True

    def _take_piece(self, waiting: _Waiting, left: int, parts: list[Part]) -> None:
        """Move so many bytes of a body to `parts`."""
        waiting.size -= left
        while left:
            part = waiting.body[0]
            if len(part) <= left:
                waiting.body.popleft()
                first = part
            elif isinstance(part, HeapRange):
                first = part.split(left)
            else:
                first, waiting.body[0] = part[:left], part[left:]
            left -= len(first)
            parts.append(first)
            if isinstance(first, memoryview):
                self.bytes_in_memory -= len(first)

    def _ended(self, line: deque[_Waiting]) -> None:
        line.popleft()
        self.count -= 1


class Share:
    """The bytes of a turn: a power of two, learned from how long turns have taken.

    One that took longer than `SHARE_S` twice in a row is halved, one that was quick in
    `SHARE_QUICK_TURNS` turns in a row is doubled. The buffers before a slow line swallow the first
    few turns at once, and nothing is to be learned from those.
    """

    __slots__ = ("_quick", "_slow", "size")

    def __init__(self) -> None:
        """Begin as on a slow line."""
        self.size = SHARE_BYTES_MIN
        self._quick = self._slow = 0

    def took(self, size: int, seconds: float) -> bool:
        """Learn from a turn of `size` bytes; whether the share is another one now."""
        if size < self.size:
            return False
        seconds *= self.size / size
        self._quick = self._quick + 1 if seconds <= SHARE_S / 2 else 0
        self._slow = self._slow + 1 if seconds > SHARE_S else 0
        before = self.size
        if self._quick == SHARE_QUICK_TURNS:
            self.size = min(2 * self.size, SHARE_BYTES_MAX)
            self._quick = 0
        elif self._slow == SHARE_SLOW_TURNS:
            self.size = max(self.size // 2, SHARE_BYTES_MIN)
            self._slow = 0
        return self.size != before


def _in_memory(waiting: _Waiting) -> int:
    return len(waiting.head) + sum(
        len(part) for part in waiting.body if isinstance(part, memoryview)
    )
