"""The core of a connection to a queue manager: which requests are under way, which answer is whose.

Theory of operation: every request has an id and a `Pending` that waits for the answer with that id.
Frames inside a transaction want no answer; only their failure is told, under the one id that the
transaction listens to, and it goes to the transaction's `Listener`. Numbers for messages and
transactions come from ranges that the manager has leased to us, so that an id is known before a
round trip. Nothing here reads, writes or waits; `connection` serializes the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dray.errors import DrayError, ProtocolError, from_code
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.wire.frames import Failed, Hello, Leased, Welcome, check_values, encode_frame, read_again
from dray.wire.head import Head
from dray.wire.message_frames import Commit, Send
from dray.wire.stream import Frame

Listener = Callable[[DrayError], None]
"""Told of the failure of a frame that wanted no answer."""
_REQUEST_ID_MAX = (1 << 32) - 1
_OWN = frozenset({Send, Commit})
"""Heads whose values the client makes itself; in others a program's values may be of any type."""


class Signal(Protocol):
    """Wakes whoever waits."""

    def set(self) -> None:
        """Wake."""


class Pending:
    """One request under way: empty, then with its answer or its error."""

    __slots__ = ("error", "frame", "lost", "settled", "signal")

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self.error: DrayError | None = None
        self.signal: Signal | None = None
        self.settled = False
        """Whether the answer or the error is there; set after them, because other threads ask
        without the lock."""
        self.lost = False
        """Whether the error is that no answer can come any more."""

    def outcome(self) -> Frame:
        """Give the answer, or raise the error that came instead."""
        if self.error is not None:
            raise self.error
        assert self.frame is not None
        return self.frame


class ClientSession:
    """State of one connection."""

    def __init__(self) -> None:
        """Begin before Hello."""
        self.manager_id = ""
        self.source = b""
        self.reason: DrayError | None = None
        self.takes_files = False
        self._last_request_id = 0
        self._pending: dict[int, Pending] = {}
        self._listeners: dict[int, Listener] = {}
        self._next_number = self._end_number = 0

    def hello(self, token: str = "", caller: str = "") -> tuple[Pending, bytes]:
        """Give the first frame to send."""
        return self.request(Hello("client", token=token, caller=caller))

    def welcomed(self, head: Head) -> None:
        """Take the answer to Hello: whose manager this is, and the first numbers."""
        if not isinstance(head, Welcome):
            raise ProtocolError(f"the queue manager answered Hello with {type(head).__name__}")
        try:
            self.source = bytes.fromhex(head.manager_id)
        except ValueError as error:
            raise ProtocolError(f"{head.manager_id!r} is not the id of a queue manager") from error
        self.manager_id = head.manager_id
        self.takes_files = head.takes_files
        self.leased(Leased(head.first_number, head.number_count))

    def leased(self, head: Leased) -> None:
        """Take a range of numbers; what was left of the range before is never used."""
        self._next_number = head.first_number
        self._end_number = head.first_number + head.number_count

    def numbers(self, count: int) -> int | None:
        """Take `count` numbers in a row: the first one, or None if a new lease is needed."""
        first = self._next_number
        if first + count > self._end_number:
            return None
        self._next_number = first + count
        return first

    def request(self, head: Head, body_bytes: int = 0) -> tuple[Pending, bytes]:
        """Give the frame of a request and what its answer will be found in."""
        request_id = self._fresh_id()
        encoded = encode_frame(head, request_id, body_bytes)
        if not isinstance(head, Send):
            # The messages of a Send are counted here; the caller does not give their number.
            check_values(head, encoded)
        pending = self._pending[request_id] = Pending()
        return pending, encoded

    def asked(self, head: Head, body_bytes: int = 0) -> tuple[Pending, int, Head]:
        """Begin a request that no socket carries; its id and its head, as the other end reads it.

        Raises as `request` does.
        """
        request_id = self._fresh_id()
        if type(head) in _OWN:
            if body_bytes > FRAME_BODY_BYTES_MAX:
                raise ProtocolError(f"{type(head).__name__} is over the bounds of a frame")
            checked = head
        else:
            checked = read_again(head, body_bytes)
        pending = self._pending[request_id] = Pending()
        return pending, request_id, checked

    def listen(self, listener: Listener) -> int:
        """Give a request id for frames of which only failures are answered."""
        request_id = self._fresh_id()
        self._listeners[request_id] = listener
        return request_id

    def listen_no_more(self, request_id: int) -> None:
        """Let go of an id given by `listen`."""
        self._listeners.pop(request_id, None)

    def take(self, frame: Frame) -> Pending | None:
        """Put a frame where it is waited for; give the request that is settled by it.

        Raises `ProtocolError` for an answer to nothing.
        """
        pending = self._pending.pop(frame.request_id, None)
        if pending is not None:
            if isinstance(frame.head, Failed):
                pending.error = error_of(frame.head)
            else:
                pending.frame = frame
            pending.settled = True
            return pending
        if not isinstance(frame.head, Failed):
            name = type(frame.head).__name__
            raise ProtocolError(f"the queue manager sent {name} without a request for it")
        listener = self._listeners.get(frame.request_id)
        if listener is not None:
            listener(error_of(frame.head))
        else:
            # Not about one request but about the connection: it says why it will be closed.
            self.reason = error_of(frame.head)
        return None

    def lost(self, error: DrayError) -> list[Pending]:
        """End everything under way with an error; give the requests that are settled by it."""
        ended = list(self._pending.values())
        listeners = list(self._listeners.values())
        self._pending.clear()
        self._listeners.clear()
        for pending in ended:
            pending.error, pending.lost = same_error(error), True
            pending.settled = True
        for listener in listeners:
            listener(same_error(error))
        return ended

    def _fresh_id(self) -> int:
        request_id = self._last_request_id
        while True:
            request_id = request_id % _REQUEST_ID_MAX + 1
            if request_id not in self._pending and request_id not in self._listeners:
                self._last_request_id = request_id
                return request_id


def error_of(head: Failed) -> DrayError:
    """Make the error that a frame carries."""
    return from_code(head.error, head.sentence, head.fields)


def same_error(error: DrayError) -> DrayError:
    """Give the error once more for another thread, each with a traceback of its own."""
    return from_code(error.code, str(error), error.fields)
