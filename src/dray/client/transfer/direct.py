"""Where a producer listens, and its connections straight to its consumers.

A connection begins with a token, which the consumer has got through the queue managers and which
opens one connection for that consumer. Whoever comes without one is hung up on.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from typing import TYPE_CHECKING, Final

from dray.client.transfer.way import Way
from dray.errors import AddressInUse, DrayError, ProtocolError
from dray.tls import is_tunnel
from dray.wire.transfer_frames import AnyMessage, Joined, Opening

if TYPE_CHECKING:
    from dray.client.transfer.engine import Engine
    from dray.wire.stream import Frame

_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - told apart, not listened on
_UNKNOWN_MAX: Final = 16
_UNKNOWN_S: Final = 5.0
_TOKEN_BYTES: Final = 16
_LISTEN_BACKLOG: Final = 64
AUTOMATIC: Final = "auto"


class DirectWays:
    """The connections of one offer's consumers. All of it is for the thread of the transfer."""

    def __init__(self, engine: Engine, listener: socket.socket | str | None) -> None:
        """Listen on a socket, where the queue manager is reached from (AUTOMATIC), or never."""
        self._engine = engine
        self._listener = listener
        self._listens = False
        self._host = "127.0.0.1"
        self._of: dict[str, Way] = {}
        self._unknown: dict[Way, float] = {}
        self._tokens: dict[str, str] = {}

    def reachable(self, sock: socket.socket) -> None:
        """The queue manager is reached over a socket: listen now, unless that was done before.

        Who reaches it through TLS wants nothing to go unencrypted, so that he listens only if he
        has said where.
        """
        if sock.family != socket.AF_UNIX:
            self._host = sock.getsockname()[0]
        if self._listener == AUTOMATIC:
            self._listener = None if is_tunnel(sock) else _listen_or_not(self._host)
        if isinstance(self._listener, socket.socket) and not self._listens:
            self._listens = True
            self._engine.watch(self._listener, self._accept)

    def introduce(self, joined: Joined) -> Joined:
        """Say where the producer listens, with a token that opens one connection."""
        if not isinstance(self._listener, socket.socket):
            return joined
        token = secrets.token_hex(_TOKEN_BYTES)
        for old in [old for old, key in self._tokens.items() if key == joined.key]:
            del self._tokens[old]
        self._tokens[token] = joined.key
        host, port = self._listener.getsockname()[:2]
        if host in _EVERYWHERE:
            host = self._host
        return Joined(
            joined.key, joined.consumer_id, joined.round, joined.start, (host, port, token)
        )

    def of(self, key: str) -> Way | None:
        """The connection of a consumer, if it has one."""
        return self._of.get(key)

    def drop(self, key: str) -> None:
        """Let go of a consumer's connection: it begins anew."""
        way = self._of.pop(key, None)
        if way is not None:
            self._engine.shut(way)

    def broken(self, way: Way) -> str | None:
        """A connection has ended; whose it was."""
        self._unknown.pop(way, None)
        for key, used in list(self._of.items()):
            if used is way:
                del self._of[key]
                return key
        return None

    def deadlines(self) -> list[float]:
        """When those are to be hung up on who have not said who they are."""
        return list(self._unknown.values())

    def tick(self, now: float) -> None:
        """Hang up on those."""
        for way in [way for way, until in self._unknown.items() if until <= now]:
            del self._unknown[way]
            self._engine.shut(way)

    def close(self) -> None:
        """Listen no more; the engine lets go of the connections."""
        if isinstance(self._listener, socket.socket):
            self._listener.close()

    def _accept(self) -> None:
        assert isinstance(self._listener, socket.socket)
        try:
            sock, _ = self._listener.accept()
        except OSError:
            # Gone before it was accepted, or no descriptor left; the managers are still there.
            return
        if len(self._unknown) >= _UNKNOWN_MAX:
            sock.close()
            return
        way = Way(sock)
        self._unknown[way] = self._engine.now + _UNKNOWN_S
        self._engine.open(way, lambda frame: self._taken(way, frame))

    def _taken(self, way: Way, frame: Frame) -> None:
        message = self._engine.message_of(frame)
        if way in self._unknown:
            self._admit(way, message)
        elif self._of.get(message.key) is way:
            self._engine.heard(way, message, frame.body)

    def _admit(self, way: Way, message: AnyMessage) -> None:
        del self._unknown[way]
        key = self._redeem(message.token) if isinstance(message, Opening) else None
        if key is None or key != message.key:
            raise ProtocolError("a connection began without a token that is good")
        self.drop(key)
        self._of[key] = way

    def _redeem(self, token: str) -> str | None:
        for good in self._tokens:
            if hmac.compare_digest(good.encode(), token.encode()):
                return self._tokens.pop(good)
        return None


def listen_at(host: str) -> socket.socket:
    """Listen on a port of the system's choice; raises `AddressInUse`."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, 0), family=family, backlog=_LISTEN_BACKLOG)
    except OSError as error:
        raise AddressInUse(
            f"cannot listen on {host} for consumers: {error.strerror or error}; give another"
            " address, or None to go through the queue managers"
        ) from error
    sock.setblocking(False)
    return sock


def _listen_or_not(host: str) -> socket.socket | None:
    try:
        return listen_at(host)
    except DrayError:
        # Without a listener everything goes through the managers.
        return None
