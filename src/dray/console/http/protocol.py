"""HTTP/1.1 of uvicorn with bounds, and with a way for long bodies past its parser.

The parser copies each byte of a body several times. So the reader of a long body takes the
connection for as many bytes as the head has declared (`long_body.py`), and the parser begins anew
behind them.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
from typing import Any, ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dray.console.http import limits
from dray.console.http.long_body import LongBody
from dray.model.callers import NOBODY, caller_name

TAKE_BODY: Final = "dray.take_body"
"""In the state of each request: gives the rest of its body as a `LongBody`, or None."""
HANG_UP: Final = "dray.hang_up"
"""In the state of each request: ends its connection at once, so that its answer is not complete."""
END_WITH_INPUT: Final = "dray.end_with_input"
"""In the state of each request: ends its connection when the client has closed its sending side,
as one does that is gone; without this the client may wait for its answer."""
STRANGER: Final = "dray.stranger"
"""In the state of each request: counts its connection among those without one, until its answer."""
CERTIFIED: Final = "dray.certified"
"""In the state of each request: `cert:NAME` for a client that presented a certificate, else ""."""


class WithoutHead:
    """Connections of one server on which no request is under way, the oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[BoundedProtocol, None] = {}

    def add(self, connection: BoundedProtocol) -> None:
        """Wait for a head on one more; beyond the bound the oldest silent one is hung up on."""
        self._waiting[connection] = None
        if len(self._waiting) <= limits.WITHOUT_HEAD_MAX:
            return
        for each in self._waiting:
            # Many that connect at once have sent their heads, which were not read yet.
            if not _in_kernel(each.transport, termios.FIONREAD):
                del self._waiting[each]
                each.transport.abort()
                return

    def remove(self, connection: BoundedProtocol) -> None:
        """Its head is there, or it is gone."""
        self._waiting.pop(connection, None)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 that hangs up on a client that stalls, in the head of a request or in an answer."""

    without_head: ClassVar = WithoutHead()
    """All its connections without one; each server has a class of its own (`server.py`)."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        super().__init__(*arguments, **named)
        # A state of its own: the one that is given belongs to all connections.
        own = {
            TAKE_BODY: self._take_body,
            HANG_UP: self._hang_up,
            END_WITH_INPUT: self._end_with_input,
            STRANGER: self._count_as_stranger,
        }
        self.app_state = {**self.app_state, **own}
        self._head_timer: asyncio.TimerHandle | None = None
        self._taking_timer: asyncio.TimerHandle | None = None
        self._untaken = 0
        self._is_stranger = False
        self._has_input = self._may_wait = True
        self._long: LongBody | None = None
        self._behind = b""
        """Bytes of the next request, which came before the answer to a long body was complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self.app_state[CERTIFIED] = _certified(transport.get_extra_info("peercert"))
        self._watch_head()
        self.without_head.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop("_head_timer")
        self._stop("_taking_timer")
        self.without_head.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a client."""
        if self._long is not None:
            self._behind += data
            self.flow.pause_reading()
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if self._head_timer is None:
                self._watch_head()
            return
        self._stop("_head_timer")
        if self._is_answered:
            self._head_timer = self.loop.call_later(limits.STALLED_S, self.transport.abort)
        elif not self._is_stranger:
            self.without_head.remove(self)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more; True if it has asked for something and may wait for it.

        TLS has no half-closed connections.
        """
        self._has_input = False
        if self._is_answered or not self._may_wait:
            return False
        if self.transport.get_extra_info("sslcontext") is not None:
            return False
        # A long body that is not whole gets its bytes past this protocol, and the end of them, too.
        return self._long is not None or self.conn.their_state in {h11.DONE, h11.MUST_CLOSE}

    @property
    def _is_answered(self) -> bool:
        """Whether no request is under way; the rest of a body that nobody reads may still come."""
        return self.conn.our_state is h11.DONE or self.conn.their_state is h11.IDLE

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, if no other answer has begun; the application says no more.

        It may be at work on the request whose body turned out wrong.
        """
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """An answer has gone out: wait for the next request."""
        self._is_stranger, self._may_wait = False, True
        super().on_response_complete()
        if not self._has_input and self._is_answered:
            self.transport.close()
        if self.transport.is_closing():
            # The rest of the answer waits for a client that may never take it.
            self._watch_taking()
        elif self._is_answered:
            self.without_head.add(self)
        if self._long is None or self.transport.is_closing():
            return
        if self._long.left:
            self._unset_keepalive_if_required()
            self._long.drop(self._dropped)
        else:
            self._begin_anew()

    def pause_writing(self) -> None:
        """The client takes more slowly than it is given."""
        super().pause_writing()
        self._watch_taking()

    def resume_writing(self) -> None:
        """It has taken enough for more."""
        super().resume_writing()
        self._stop("_taking_timer")

    def _hang_up(self) -> None:
        self.transport.abort()

    def _end_with_input(self) -> None:
        self._may_wait = False
        if not self._has_input:
            self.transport.close()

    def _count_as_stranger(self) -> None:
        self._is_stranger = True
        self.without_head.add(self)

    def _take_body(self) -> LongBody | None:
        """The rest of the body of this request, if it is long and its length is known.

        The first `http.request` has what came before it, and may be received at once.
        """
        headers = dict(self.headers)
        if self.conn.their_state is not h11.SEND_BODY or b"transfer-encoding" in headers:
            return None
        left = int(headers.get(b"content-length", 0)) - len(self.cycle.body)
        if left < limits.LONG_BODY_BYTES or self._long is not None:
            return None
        self._long = LongBody(self.transport, self.flow, self, left)
        self.cycle.message_event.set()
        return self._long

    def _dropped(self) -> None:
        self._watch_head()
        self.flow.resume_reading()
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Parse the next request: the parser has not seen the end of the body before it."""
        self.conn = h11.Connection(h11.SERVER, limits.HEAD_BYTES_MAX)
        self._long = None
        behind, self._behind = self._behind, b""
        if behind:
            self.data_received(behind)

    def _watch_taking(self) -> None:
        """Hang up on a client that takes nothing from now on; a slow one may take its time."""
        self._stop("_taking_timer")
        self._untaken = _bytes_untaken(self.transport)
        self._taking_timer = self.loop.call_later(limits.STALLED_S, self._look_at_taking)

    def _look_at_taking(self) -> None:
        if _bytes_untaken(self.transport) < self._untaken:
            self._watch_taking()
        else:
            self.transport.abort()

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(limits.HEAD_S, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)


def _bytes_untaken(transport: asyncio.Transport) -> int:
    """Bytes that wait here and in the kernel, or that the client has not acknowledged."""
    return transport.get_write_buffer_size() + _in_kernel(transport, termios.TIOCOUTQ)


def _in_kernel(transport: asyncio.Transport, request: int) -> int:
    """Bytes in the buffer of the kernel for what comes (FIONREAD) or goes (TIOCOUTQ)."""
    sock = transport.get_extra_info("socket")
    return int.from_bytes(fcntl.ioctl(sock.fileno(), request, bytes(4)), sys.byteorder)


def _certified(certificate: dict[str, Any] | None) -> str:
    """The caller that a certificate proves: its first name. TLS has checked who signed it."""
    names = [name for _, name in (certificate or {}).get("subjectAltName", ())]
    caller = caller_name("cert", names[0]) if names else NOBODY
    return "" if caller == NOBODY else caller
