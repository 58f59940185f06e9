"""The other end of a connection, scripted: it speaks real frames over a real socket pair."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from dray.model.callers import Credential
from dray.wire.frames import Done, Hello, Lease, Leased, Welcome, encode_frame
from dray.wire.head import Head
from dray.wire.message_frames import Abort, Commit, Reserve, Send
from dray.wire.queue_frames import Opened, OpenQueue
from dray.wire.stream import Frame, FrameStream

MANAGER_ID = "ab" * 16
Handler = Callable[["Visit", Frame], None]


def keep_silent(visit: Visit, frame: Frame) -> None:
    """Answer nothing."""


def hang_up(visit: Visit, frame: Frame) -> None:
    """End the connection instead of answering."""
    visit.hang_up()


class Peer:
    """Plays a queue manager; `on` says what it does at each kind of frame, `seen` what came."""

    def __init__(self, numbers: int = 1 << 20) -> None:
        self.seen: list[Head] = []
        self.numbers = numbers
        self.next_number = 1
        self.visits: list[Visit] = []
        self.on: dict[type[Head], Handler] = {
            Hello: lambda visit, frame: visit.answer(frame, self.welcome()),
            Lease: lambda visit, frame: visit.answer(frame, Leased(*self.lease())),
            OpenQueue: self._open,
            Send: keep_silent,
            Commit: lambda visit, frame: visit.answer(frame, Done()),
            Reserve: lambda visit, frame: visit.answer(frame, Done()),
            Abort: lambda visit, frame: visit.answer(frame, Done()),
        }

    def __str__(self) -> str:
        return "the scripted peer"

    def dial(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self.visits.append(Visit(self, ours))
        return theirs

    def credential(self) -> Credential:
        return Credential()

    def lease(self) -> tuple[int, int]:
        first = self.next_number
        self.next_number += self.numbers
        return first, self.numbers

    def welcome(self) -> Welcome:
        return Welcome(MANAGER_ID, "peer", "0", len(self.visits), *self.lease())

    def of(self, kind: type[Head]) -> list[Head]:
        """What came of one kind."""
        return [head for head in self.seen if isinstance(head, kind)]

    def close(self) -> None:
        for visit in self.visits:
            visit.close()

    def _open(self, visit: Visit, frame: Frame) -> None:
        head = frame.head
        assert isinstance(head, OpenQueue)
        visit.answer(frame, Opened(len(head.name), head.name, "private", transactional=True))


class Visit:
    """One connection to the peer."""

    def __init__(self, peer: Peer, sock: socket.socket) -> None:
        self._peer = peer
        self._sock = sock
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def answer(self, frame: Frame, head: Head, body: bytes = b"") -> None:
        self.say(encode_frame(head, frame.request_id, len(body)) + body)

    def say(self, data: bytes) -> None:
        with self._lock:
            self._sock.sendall(data)

    def hang_up(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it; raises what a handler had raised."""
        # The client may have hung up already.
        with contextlib.suppress(OSError):
            self.hang_up()
        self._thread.join(100)
        self._sock.close()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        stream = FrameStream()
        try:
            while count := self._sock.recv_into(stream.buffer()):
                for frame in stream.received(count):
                    self._peer.seen.append(frame.head)
                    self._peer.on[type(frame.head)](self, frame)
        except ConnectionError:
            return
        except Exception as error:  # noqa: BLE001 - raised again by close
            self._error = error
            self.hang_up()
