"""A connection to a queue manager in this program: each request is a call, in the caller's thread.

Frames are those of the wire; only the socket is missing. Any number of threads share one. An answer
is there when the call returns, or the thread waits until another thread has it. A request that is
given up gives the connection up, as over a socket: an answer that nobody takes could be a message.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from dray.client.connections.connection import Connection
from dray.client.connections.session import Pending, Signal
from dray.client.connections.thread_connection import WakeUp
from dray.errors import DrayError, ProtocolError
from dray.forks import Process
from dray.model.message import Buffer
from dray.wire.frames import FRAME_HEADER_BYTES, decode_head, read_frame_header
from dray.wire.head import Head
from dray.wire.stream import Frame

_NOTHING = memoryview(b"")


class Calls(Protocol):
    """The queue manager's end of a session."""

    def say(self, frame: Frame, file: int | None = None, until: Pending | None = None) -> None:
        """Have a frame decided; with `until`, sync for its answer."""
        ...

    def wait(self, pending: Pending, signal: Signal) -> bool:
        """Stand in line for an answer; true once it is there, else `signal` says when to ask."""
        ...

    def give_up(self, pending: Pending) -> None:
        """Nobody waits for an answer any more."""
        ...

    def end(self) -> None:
        """End the session."""
        ...


OpenSession = Callable[[Callable[[Frame], None], Callable[[], None]], Calls]
"""Opens a session: given what takes its answers, and what is told of its end."""


class DirectConnection(Connection):
    """Decides in the thread that calls. Its coroutines never suspend."""

    def __init__(self, open_session: OpenSession, peer: str) -> None:
        """Open a session; `peer` names the queue manager in sentences."""
        # A signal handler may call while its thread has the lock.
        super().__init__(peer, threading.RLock())
        self._is_open = False
        self._calls = open_session(self._take, self._hung_up)
        self._is_open = True

    @property
    def takes_files(self) -> bool:
        """Whether a request may lend a file."""
        return self._session.takes_files

    async def wait(self, pending: Pending, wait_s: float | None = None) -> Frame:
        """Wait for an answer that was not there at once."""
        if not pending.settled:
            self._stand_in_line(pending, wait_s)
        return pending.outcome()

    def check_caller(self) -> None:
        """See `Connection`; the queue manager checks the caller itself."""

    def glance(self) -> None:
        """See `Connection`; answers are taken in when they are given."""

    def close(self) -> None:
        """End the connection."""
        self.fail(self._closed_here())

    def after_fork(self, parent: Process) -> None:
        """See `Connection`; a thread of the parent may have held the lock."""
        self._lock = threading.RLock()
        super().after_fork(parent)

    def give_back(self, body: memoryview) -> None:
        """See `Connection`; each answer has memory of its own."""

    async def _begin(
        self, head: Head, body: Sequence[Buffer] = (), before: Sequence[Buffer] = ()
    ) -> Pending:
        for said in (self._said_before(), before) if self._left or self._later or before else ():
            for frame in _frames_in(said):
                self._say(frame)
        whole = _joined(body)
        with self._lock:
            if self.lost is not None:
                self._check()
            pending, request_id, checked = self._session.asked(head, len(whole))
        self._say(Frame(checked, request_id, whole), None, pending)
        return pending

    async def _transmit(self, buffers: list[Buffer], file: int | None = None) -> None:
        self._check()
        for frame in _frames_in(buffers):
            self._say(frame, file)
            file = None
        self._check()

    def _say(self, frame: Frame, file: int | None = None, until: Pending | None = None) -> None:
        try:
            self._calls.say(frame, file, until)
        except BaseException as error:
            self.fail(error if isinstance(error, DrayError) else self._given_up())
            raise

    def _stand_in_line(self, pending: Pending, wait_s: float | None) -> None:
        deadline = None if wait_s is None else time.monotonic() + wait_s
        signal = WakeUp()
        try:
            while not self._calls.wait(pending, signal):
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not signal.wait(left):
                    raise self._silent()
        except BaseException as error:
            self._calls.give_up(pending)
            self.fail(error if isinstance(error, DrayError) else self._given_up())
            raise

    def _take(self, frame: Frame) -> None:
        """Take an answer, in the turn that gives it."""
        try:
            with self._lock:
                settled = self._session.take(frame)
        except ProtocolError as error:
            self.fail(error)
            return
        if settled is not None and settled.signal:
            settled.signal.set()

    def _hung_up(self) -> None:
        """The queue manager has ended the session."""
        self.fail(self._ended())

    def _hang_up(self) -> None:
        if self._is_open:
            self._calls.end()


def _frames_in(buffers: Iterable[Buffer]) -> Iterator[Frame]:
    """The frames of which each begins with a buffer of its own, as `encode_frame` gives it."""
    given = [*filter(len, buffers)]
    ends = [*accumulate(map(len, given))]
    at = 0
    while at < len(given):
        encoded = given[at]
        header = read_frame_header(encoded)
        head = decode_head(header, memoryview(encoded), lenient=True)
        assert len(encoded) == FRAME_HEADER_BYTES + header.head_bytes, "a frame begins here"
        end = ends[at] + header.body_bytes
        last = bisect_left(ends, end, at)
        assert ends[last] == end, "a body ends where its frame does"
        yield Frame(head, header.request_id, _joined(given[at + 1 : last + 1]))
        at = last + 1


def _joined(body: Sequence[Buffer]) -> memoryview:
    if len(body) == 1:
        return memoryview(body[0])
    return memoryview(b"".join(body)) if body else _NOTHING
