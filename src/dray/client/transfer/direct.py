"""The listener of a producer, and its connections straight to its consumers.

A connection begins with a token, which the consumer has got through the queue managers and which
opens one connection for that consumer. A connection without a token is closed. A producer that
reaches its queue manager through TLS has these connections go through TLS, too, and shows a
certificate made for this one offer: the consumer gets that with the token, and says nothing to
anyone who shows another.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import ssl
import threading
from datetime import UTC, datetime
from typing import Final

import msgspec

from dray.client.transfer.engine import Dialled, Engine
from dray.client.transfer.frame_socket import BUFFER_BYTES, FrameSocket
from dray.errors import AddressInUse, DrayError, ProtocolError
from dray.forks import keep_from_children
from dray.model.transfer import AUTOMATIC
from dray.net.send_buffer import widen
from dray.net.tls import is_tunnel, local_host
from dray.transfer.events import ProducerEvent
from dray.wire.stream import Frame
from dray.wire.transfer_frames import AnyMessage, DirectOpening, Joined

_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - told apart, not listened on
_UNKNOWN_MAX: Final = 16
_UNKNOWN_S: Final = 5.0
_TOKEN_BYTES: Final = 16
_LISTEN_BACKLOG: Final = 64
_CONNECT_WITHIN_S: Final = 3.0
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The clocks of two machines need not agree, and the certificate ends with its offer."""


class DirectConnections:
    """The connections of one offer's consumers. All of it is for the thread of the transfer."""

    def __init__(self, engine: Engine[ProducerEvent], listener: socket.socket | str | None) -> None:
        """Listen on a socket, where the queue manager is reached from (AUTOMATIC), or never."""
        self._engine = engine
        self._listener = listener
        self._listens = False
        self._shown: ssl.SSLContext | None = None
        self._certificate = b""
        self._shaking = 0
        """The number of connections that are shaking hands, and have not said who they are."""
        self._host = "127.0.0.1"
        self._of: dict[str, FrameSocket] = {}
        self._unknown: dict[FrameSocket, float] = {}
        self._tokens: dict[str, str] = {}

    def reachable(self, sock: socket.socket) -> None:
        """The queue manager is reached over a socket: listen now, unless that was done before."""
        self._host = local_host(sock) or self._host
        if self._listener == AUTOMATIC:
            self._listener = _listen_or_not(self._host)
        if isinstance(self._listener, socket.socket) and not self._listens:
            self._listens = True
            if is_tunnel(sock):
                self._shown, self._certificate = showing_itself()
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
        return msgspec.structs.replace(
            joined, direct=(host, port, token), certificate=self._certificate
        )

    def of(self, key: str) -> FrameSocket | None:
        """The connection of a consumer, if it has one."""
        return self._of.get(key)

    def drop(self, key: str) -> None:
        """Let go of a consumer's connection: it begins anew."""
        connection = self._of.pop(key, None)
        if connection is not None:
            self._engine.shut(connection)

    def broken(self, connection: FrameSocket) -> str | None:
        """A connection has ended; whose it was."""
        self._unknown.pop(connection, None)
        for key, used in list(self._of.items()):
            if used is connection:
                del self._of[key]
                return key
        return None

    def deadlines(self) -> list[float]:
        """When those are to be hung up on who have not said who they are."""
        return list(self._unknown.values())

    def tick(self, now: float) -> None:
        """Hang up on those."""
        for connection in [
            connection for connection, until in self._unknown.items() if until <= now
        ]:
            del self._unknown[connection]
            self._engine.shut(connection)

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
        if len(self._unknown) + self._shaking >= _UNKNOWN_MAX:
            sock.close()
        elif self._shown is None:
            self._welcome(sock)
        else:
            self._shaking += 1
            threading.Thread(
                target=self._shake, args=(sock, self._shown), name="dray-tls-answer", daemon=True
            ).start()

    def _shake(self, sock: socket.socket, shown: ssl.SSLContext) -> None:
        """In a thread of its own: shake hands, which may take as long as the other end likes."""
        # Loads asyncio, which a transfer in the clear can do without.
        from dray.net.tunnels import answer_in_thread

        try:
            widen(sock, BUFFER_BYTES)
            inner = answer_in_thread(sock, shown)
        except OSError:
            # Somebody who speaks no TLS, or has gone; there is nobody to tell.
            self._engine.submit(self._shaken)
            return
        if not self._engine.submit(Dialled(inner, self._shaken_with)):
            inner.close()

    def _shaken(self) -> None:
        self._shaking -= 1

    def _shaken_with(self, sock: socket.socket) -> None:
        self._shaken()
        self._welcome(sock)

    def _welcome(self, sock: socket.socket) -> None:
        connection = FrameSocket(sock)
        self._unknown[connection] = self._engine.now + _UNKNOWN_S
        self._engine.open(connection, lambda frame: self._taken(connection, frame))

    def _taken(self, connection: FrameSocket, frame: Frame) -> None:
        message = self._engine.message_of(frame)
        if connection in self._unknown:
            self._admit(connection, message)
        elif self._of.get(message.key) is connection:
            self._engine.heard(connection, message, frame.body)

    def _admit(self, connection: FrameSocket, message: AnyMessage) -> None:
        del self._unknown[connection]
        key = self._redeem(message.token) if isinstance(message, DirectOpening) else None
        if key is None or key != message.key:
            raise ProtocolError("a connection began without a valid token")
        self.drop(key)
        self._of[key] = connection

    def _redeem(self, token: str) -> str | None:
        for good in self._tokens:
            if hmac.compare_digest(good.encode(), token.encode()):
                return self._tokens.pop(good)
        return None


def connect(joined: Joined) -> socket.socket:
    """Connect to the producer that has introduced itself; raises OSError if that cannot be done.

    Also UnicodeError or OverflowError, if what it says of itself is no address.
    """
    assert joined.direct is not None
    host, port, _ = joined.direct
    sock = socket.create_connection((host, port), timeout=_CONNECT_WITHIN_S)
    if not joined.certificate:
        return sock
    # Loads asyncio, which a transfer in the clear can do without.
    from dray.net.tunnels import call_in_thread

    try:
        trusted = trusting_only(joined.certificate)
        widen(sock, BUFFER_BYTES)
    except OSError:
        sock.close()
        raise
    return call_in_thread(sock, host, trusted)


def listen_at(host: str) -> socket.socket:
    """Listen on a port of the system's choice; raises `AddressInUse`."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, 0), family=family, backlog=_LISTEN_BACKLOG)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or "it is no host"
        raise AddressInUse(
            f"cannot listen on {host} for consumers: {said}; give another"
            " address, or None to go through the queue managers"
        ) from error
    keep_from_children(sock)
    sock.setblocking(False)
    return sock


def _listen_or_not(host: str) -> socket.socket | None:
    try:
        return listen_at(host)
    except DrayError:
        # Without a listener everything goes through the managers.
        return None


def showing_itself() -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a fresh certificate, which the callers were told beforehand.

    Its key is in memory only. Gives also the certificate, as the callers are to be told of it.
    """
    # Costs a fifth of a second to load, which only those pay who need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "one file transfer")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(_LONG_AGO)
        .not_valid_after(_NEVER)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with os.fdopen(os.memfd_create("certificate"), "wb", buffering=0) as file:
        file.write(private + certificate.public_bytes(pem))
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context, certificate.public_bytes(serialization.Encoding.DER)


def trusting_only(certificate: bytes) -> ssl.SSLContext:
    """A TLS context that trusts only one certificate (DER), which the caller was told beforehand.

    Raises `ssl.SSLError` if it is none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # It names nobody: that it is this one is all there is to know.
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context
