"""A line between real programs: a proxy on loopback that delays, stalls, is narrow and is cut.

What goes in comes out `delay_s` later, in each direction. A long line is slow to answer, not
narrow: it takes any number of bytes at a time, unless `rate_bytes_s` says how many it takes in a
second. A narrow line has a short queue at its entrance (about `NARROW_QUEUE_BYTES`), as a good
router has: what does not fit there waits in the sender's socket, and that is the sender's affair.
`stall` lets nothing through for a while and says nothing, one way or both; `stall_behind` lets some
bytes through first; `cut` ends every connection, with whatever was under way.

Each direction of a connection has two threads: one takes bytes in, the other passes them on.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Self

CHUNK_BYTES = 256 << 10
CHUNKS_UNDER_WAY = 512
NARROW_QUEUE_BYTES = 64 << 10
NARROW_CHUNK_BYTES = 16 << 10
NARROW_LATE_S = 0.005
ENDS_WITHIN_S = 60.0

Outward, Inward = 0, 1


class Line:
    """Leads to a port of loopback, or to what a function dials."""

    def __init__(
        self,
        goal: int | Callable[[], socket.socket],
        *,
        delay_s: float = 0.0,
        rate_bytes_s: float | None = None,
    ) -> None:
        """Lead to `goal`; `delay_s` each way, and at most `rate_bytes_s` each way to a port."""
        self.port = 0
        """Where it listens; 0 if it does not."""
        self.cuts = self.stalls = 0
        self._dial = partial(self._connect, goal) if isinstance(goal, int) else goal
        self._delay_s = delay_s
        self._rate_bytes_s = rate_bytes_s
        self._listening: socket.socket | None = None
        self.refusing = False
        """Whether new connections are ended at once."""
        self._threads: list[threading.Thread] = []
        self._flows: list[Flow] = []
        self._sockets: list[socket.socket] = []
        self._open = (threading.Event(), threading.Event())
        for each in self._open:
            each.set()
        self._outward_left: int | None = None

    def listen(self) -> Self:
        """Accept programs on a loopback port."""
        listening = socket.socket()
        self._make_narrow(listening)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self.port = listening.getsockname()[1]
        self._listening = listening
        self._begin(self._accept, listening)
        return self

    @property
    def url(self) -> str:
        """The address of a queue manager that it leads to."""
        return f"dray://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything."""
        self.refuse()
        if self._listening is not None:
            _shut(self._listening)
        self._end_all()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
        for each in (*self._sockets, *([self._listening] if self._listening else [])):
            each.close()

    def lead(self, near: socket.socket) -> None:
        """Connect the program at the other end of `near`, which the line closes in the end."""
        self._sockets.append(near)
        if self.refusing:
            _shut(near)
            return
        try:
            far = self._dial()
        except Exception:  # noqa: BLE001 - nobody is there just now, which the program is shown
            _shut(near)
            return
        self._sockets.append(far)
        for flow in self.flows(near, far):
            self._flows.append(flow)
            self._begin(self._take, flow)
            self._begin(self._give, flow)

    def flows(self, near: socket.socket, far: socket.socket) -> tuple[Flow, Flow]:
        """Both directions of a new connection."""
        size = CHUNK_BYTES if self._rate_bytes_s is None else NARROW_CHUNK_BYTES
        return Flow(near, far, Outward, size), Flow(far, near, Inward, size)

    def refuse(self) -> None:
        """Let nobody connect any more."""
        self.refusing = True

    def cut(self) -> None:
        """End all connections."""
        self.cuts += 1
        self._end_all()

    def stall(self, seconds: float, *, ways: tuple[int, ...] = (Outward, Inward)) -> None:
        """Let nothing through for a while; comes back at once."""
        self.stalls += 1
        for way in ways:
            self._open[way].clear()
            self._begin(self._go_on, way, seconds)

    def stall_behind(self, count: int) -> None:
        """Let `count` bytes more through outwards, then nothing more."""
        self.stalls += 1
        self._outward_left = count

    @property
    def stands_still(self) -> bool:
        """Whether nothing goes through outwards."""
        return not self._open[Outward].is_set()

    def _go_on(self, way: int, seconds: float) -> None:
        time.sleep(seconds)
        self._open[way].set()

    def _begin(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="line", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.lead(listening.accept()[0])

    def _connect(self, port: int) -> socket.socket:
        sock = socket.socket()
        self._make_narrow(sock)
        try:
            sock.connect(("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _make_narrow(self, sock: socket.socket) -> None:
        """Keep the kernel from queueing megabytes in front of a narrow line; before connecting."""
        if self._rate_bytes_s is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_QUEUE_BYTES // 2)

    def _take(self, flow: Flow) -> None:
        free_at = 0.0
        with contextlib.suppress(OSError):
            for data in flow.pieces():
                if self._rate_bytes_s is not None:
                    # The line is busy with what went before; a late wake-up is made good for.
                    idle_since = time.monotonic() - NARROW_LATE_S
                    free_at = max(free_at, idle_since) + len(data) / self._rate_bytes_s
                    time.sleep(max(0.0, free_at - time.monotonic()))
                flow.put(time.monotonic() + self._delay_s, data)
        flow.end()

    def _give(self, flow: Flow) -> None:
        with contextlib.suppress(OSError):
            while (first := flow.first()) is not None:
                due, data = first
                time.sleep(max(0.0, due - time.monotonic()))
                while data and not flow.is_cut:
                    self._open[flow.way].wait()
                    count = self._allowed(len(data), flow.way)
                    flow.target.sendall(data[:count])
                    data = data[count:]
                flow.passed()
        flow.cut()

    def _allowed(self, count: int, way: int) -> int:
        """How many of so many bytes go through before a stall begins."""
        if way == Inward or self._outward_left is None:
            return count
        allowed = min(count, self._outward_left)
        self._outward_left -= allowed
        if allowed < count:
            self._outward_left = None
            self._open[way].clear()
        return allowed

    def _end_all(self) -> None:
        for flow in self._flows:
            flow.cut()
        if self.refusing:
            for each in self._open:
                each.set()


class Flow:
    """One direction of a connection, and the pieces that are under way in it."""

    def __init__(
        self, source: socket.socket, target: socket.socket, way: int, piece_bytes: int = CHUNK_BYTES
    ) -> None:
        """Lead from `source` to `target`, at most `piece_bytes` at a time."""
        self.source, self.target, self.way = source, target, way
        self.is_cut = False
        self._piece_bytes = piece_bytes
        self._has_ended = False
        self._under_way: deque[tuple[float, memoryview]] = deque()
        self._changed = threading.Condition()

    def pieces(self) -> Iterator[memoryview]:
        """What goes in, until it ends; raises OSError, too."""
        while data := self.source.recv(self._piece_bytes):
            yield memoryview(data)

    def put(self, due: float, data: memoryview) -> None:
        """Let a piece come out at a time; waits while the line is full."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._under_way) < CHUNKS_UNDER_WAY or self.is_cut)
            self._under_way.append((due, data))
            self._changed.notify_all()

    def first(self) -> tuple[float, memoryview] | None:
        """The piece that comes out next, and when; None at the end of the flow."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way or self._has_ended or self.is_cut)
            return None if self.is_cut or not self._under_way else self._under_way[0]

    def passed(self) -> None:
        """The first piece came out."""
        with self._changed:
            self._under_way.popleft()
            self._changed.notify_all()

    def wait_until_passed(self) -> None:
        """Wait until all that went in came out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way or self.is_cut)

    def end(self) -> None:
        """Nothing more goes in."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def cut(self) -> None:
        """End the connection, with what is under way."""
        with self._changed:
            self.is_cut = True
            self._changed.notify_all()
        _shut(self.source)
        _shut(self.target)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
