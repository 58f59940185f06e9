"""TLS before HTTP: a bounded number of handshakes at once, each in bounded time.

asyncio would wait a minute for each of any number of connections that say nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from dray.net.handshakes import HANDSHAKE_S, BoundedHandshakes


class HttpsHandshakes:
    """The handshakes of one server, by the host that calls."""

    def __init__(self, shown: ssl.SSLContext, http: Callable[..., asyncio.Protocol]) -> None:
        """Show callers the certificate of `shown`; `http` makes what talks to them then."""

        class OwnTls(TlsFirst):
            handshakes = self

        OwnTls.http = http
        self.protocol: type[asyncio.Protocol] = OwnTls
        """Made for each connection."""
        self._shown = shown
        self._under_way = BoundedHandshakes()

    def present(self, shown: ssl.SSLContext) -> None:
        """Show later callers another certificate."""
        self._shown = shown

    def begin(self, transport: asyncio.Transport, caller: TlsFirst) -> None:
        """Shake hands, and tell the caller. If there are too many, the oldest one ends."""
        address = transport.get_extra_info("peername")
        host = str(address[0]) if isinstance(address, tuple) else ""
        self._under_way.begin(host, self._shake_hands(transport, caller), transport.abort)

    def cancel(self) -> None:
        """End them all."""
        self._under_way.cancel()

    async def _shake_hands(self, transport: asyncio.Transport, caller: TlsFirst) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport, caller, self._shown, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:
            # No TLS, another trust, too late, or gone: the connection is closed by then.
            return
        assert secured is not None, "the handshake was good"
        caller.secured(secured)


class TlsFirst(asyncio.Protocol):
    """Has a connection until TLS is agreed on, and then passes it on to HTTP."""

    handshakes: ClassVar[HttpsHandshakes]
    http: ClassVar[Callable[..., asyncio.Protocol]]
    """Both are those of a server."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Take what the protocol of HTTP is made with."""
        self._make = partial(self.http, **named)
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self.handshakes.begin(transport, self)

    def data_received(self, data: bytes) -> None:
        """Keep bytes that came together with the end of the handshake."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        del exc
        self._is_lost = True

    def secured(self, transport: asyncio.Transport) -> None:
        """TLS is agreed on: HTTP goes on."""
        if self._is_lost:
            return
        http = self._make()
        transport.set_protocol(http)
        http.connection_made(transport)
        if self._early:
            http.data_received(bytes(self._early))
