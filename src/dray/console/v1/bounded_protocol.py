"""HTTP/1.1 of uvicorn, which hangs up on clients that stall in a head or in an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from h11._readers import ContentLengthReader
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol

from dray.console.v1.limits import HEAD_S, STALLED_S


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 that hangs up on a client that stalls, in the head of a request or in an answer."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._taking_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop("_head_timer")
        self._stop("_taking_timer")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a client."""
        if self._passed_on(data):
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop("_head_timer")
        elif self._head_timer is None:
            self._watch_head()

    def _passed_on(self, data: bytes) -> bool:
        """Give bytes from the middle of a body to its request, without the copies that h11 makes.

        h11 copies each byte of a body three times, which is half of the work of a long upload. It
        reads heads and the end of each body, and counts what was passed on.
        """
        reader = self.conn._reader  # noqa: SLF001 - h11 gives no other way past its buffer
        if (
            self.conn.their_state is not h11.SEND_BODY
            or self.conn.our_state is h11.DONE
            or not isinstance(reader, ContentLengthReader)
            or self.conn.trailing_data[0]
            or len(data) >= reader._remaining  # noqa: SLF001
        ):
            return False
        self._unset_keepalive_if_required()
        reader._remaining -= len(data)  # noqa: SLF001
        self.cycle.body += data
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        self.cycle.message_event.set()
        return True

    def pause_writing(self) -> None:
        """The client takes more slowly than it is given."""
        super().pause_writing()
        self._taking_timer = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It has taken enough for more."""
        super().resume_writing()
        self._stop("_taking_timer")

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)
