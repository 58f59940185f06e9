"""Connections that this manager dialled to other managers.

A link is DIALLING (a task resolves the name and connects, in bounded time) or UP (a
`FrameConnection`, which began with our Hello). The manager hears LinkUp, LinkFrame and LinkDown,
exactly one LinkDown for every Dial that it did not end by HangUp itself; when to dial again is the
manager's business.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dray.daemon.limits import DIAL_TIMEOUT_S, LINK_BUFFER_BYTES, LINK_SILENCE_MS, SHARE_BYTES_MIN
from dray.daemon.sockets.callers import certified_name
from dray.daemon.sockets.connection import FrameConnection
from dray.daemon.sockets.outbox import Body, keep_unsent_below, unpin_all
from dray.daemon.sockets.reasons import reason_of
from dray.daemon.sockets.surroundings import Surroundings
from dray.daemon.sockets.tuning import tune
from dray.errors import InvalidConfiguration, ProtocolError
from dray.forks import keep_from_children
from dray.manager.events import Event, LinkDown, LinkFrame, LinkUp, Peer
from dray.manager.notices import NoticeKind
from dray.net.send_buffer import widen
from dray.net.tls import said_of, trusting
from dray.net.tunnels import Tunnels
from dray.wire.frames import Hello, failure
from dray.wire.head import Head
from dray.wire.peer_frames import Ahead, AheadDropped, Data, EndStream, OpenStream, Passed
from dray.wire.stream import Frame

_Address = tuple[Any, Any, int, str, Any]


class Listening(Protocol):
    """Takes the events of links."""

    def deliver(self, event: Event) -> None:
        """Pass an event to the manager."""
        ...

    @property
    def overfull(self) -> bool:
        """Whether so much waits for the disk that nothing more should be read."""
        ...


class DialledLinks:
    """All links, by peer."""

    def __init__(
        self,
        around: Surroundings,
        hello: Callable[[Peer], Hello],
        turns: Listening,
        *,
        tunnels: Tunnels | None = None,
        trusted: Callable[[], ssl.SSLContext] = trusting,
    ) -> None:
        """Begin with none. `hello` gives the frame that begins each.

        Connections through TLS go by `tunnels`; `trusted` says whom to trust there.
        """
        self._tunnels = tunnels or Tunnels()
        self._trusted = trusted
        self._around = around
        self._loop = around.loop
        self._hello = hello
        self._turns = turns
        self._dialling: dict[Peer, asyncio.Task[None]] = {}
        self._up: dict[Peer, FrameConnection] = {}
        self._peers: dict[FrameConnection, Peer] = {}
        self._ending: dict[FrameConnection, None] = {}

    def trust(self, trusted: Callable[[], ssl.SSLContext]) -> None:
        """Make later connections through TLS by other files; those that are up stay."""
        self._trusted = trusted

    @property
    def overfull(self) -> bool:
        """As the turns say."""
        return self._turns.overfull

    def dial(self, peer: Peer) -> None:
        """Connect; does nothing if there is a link or an attempt already."""
        if peer not in self._up and peer not in self._dialling:
            self._dialling[peer] = self._loop.create_task(self._connect(peer))

    def hang_up(self, peer: Peer) -> None:
        """End the link or the attempt; the manager hears no more of it."""
        task = self._dialling.pop(peer, None)
        if task is not None:
            task.cancel()
        connection = self._up.pop(peer, None)
        if connection is not None:
            del self._peers[connection]
            self._ending[connection] = None
            connection.finish()

    def send(self, peer: Peer, head: Head, body: Body) -> None:
        """Queue a frame whose extents are pinned; without a link it is dropped, as by a network."""
        connection = self._up.get(peer)
        if connection is None:
            unpin_all(self._around.heap, body)
        elif isinstance(head, OpenStream | Data | Ahead | AheadDropped | Passed | EndStream):
            # An outgoing message keeps its place until the peer has acknowledged it, so its bytes
            # may go in the kernel. Streams share the line; what one says keeps its order.
            connection.send_in_lane(head.stream, head, body)
        else:
            connection.send(head, 0, body)

    def flush(self, peer: Peer) -> None:
        """Let go what was queued."""
        connection = self._up.get(peer)
        if connection is not None:
            connection.flush()

    def reconsider(self) -> None:
        """Stop reading, or go on, as the turns now say."""
        for connection in list(self._peers):
            connection.reconsider()

    def close(self) -> None:
        """End all of them at once, without a word to the manager."""
        for peer in [*self._dialling, *self._up]:
            self.hang_up(peer)
        for connection in list(self._ending):
            connection.abort("the daemon stops")

    def frame_came(self, connection: FrameConnection, frame: Frame) -> None:
        """Pass on a frame of a link."""
        peer = self._peers.get(connection)
        if peer is not None:
            self._turns.deliver(LinkFrame(peer, frame))

    def reads(self) -> None:
        """Nothing: what links bring is gathered until the pass ends by itself."""

    has_read = reads

    def frame_refused(self, connection: FrameConnection, error: ProtocolError) -> None:
        """Say what was wrong, and end the link."""
        connection.send(failure(error))
        connection.finish()

    def connection_closed(self, connection: FrameConnection, reason: str) -> None:
        """Tell the manager, unless it was the one to end it."""
        self._ending.pop(connection, None)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            del self._up[peer]
            self._note(NoticeKind.LINK_DOWN, peer, f"the link is down: {reason}")
            self._turns.deliver(LinkDown(peer, reason))

    async def _connect(self, peer: Peer) -> None:
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                sock = await self._reach_safely(peer)
        except TimeoutError:
            self._failed(peer, f"no answer within {DIAL_TIMEOUT_S:g} seconds")
        except ssl.SSLError as error:
            self._failed(peer, f"TLS: {said_of(error)}")
        except OSError as error:
            self._failed(peer, reason_of(error))
        except InvalidConfiguration as error:
            self._failed(peer, str(error))
        except UnicodeError as error:
            self._failed(peer, f"the name cannot be looked up: {error}")
        else:
            del self._dialling[peer]
            connection = FrameConnection(
                self._around, sock, self, dialled=f"{peer.host}:{peer.port}"
            )
            self._up[peer] = connection
            self._peers[connection] = peer
            connection.send(self._hello(peer))
            self._note(NoticeKind.LINK_UP, peer, "the link is up")
            self._turns.deliver(LinkUp(peer, certified_name(sock)))
            connection.start()
            connection.flush()

    async def _reach_safely(self, peer: Peer) -> socket.socket:
        if not peer.secure:
            return await self._reach(peer)
        trusted = self._trusted()
        return await self._tunnels.call(await self._reach(peer), peer.host, trusted)

    async def _reach(self, peer: Peer) -> socket.socket:
        failure_so_far = OSError(f"{peer.host} has no address")
        for family, kind, protocol, _, address in await self._look_up(peer):
            sock = socket.socket(family, kind, protocol)
            keep_from_children(sock)
            try:
                tune(sock)
                # A peer that vanished with bytes under way; keepalive looks only at quiet links.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LINK_SILENCE_MS)
                keep_unsent_below(sock, SHARE_BYTES_MIN)
                widen(sock, LINK_BUFFER_BYTES)
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure_so_far = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure_so_far

    async def _look_up(self, peer: Peer) -> Sequence[_Address]:
        try:
            return socket.getaddrinfo(
                peer.host,
                peer.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        except socket.gaierror:
            # A name: asked of the system in a thread, which may take its time.
            return await self._loop.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)

    def _failed(self, peer: Peer, reason: str) -> None:
        del self._dialling[peer]
        self._note(NoticeKind.LINK_DOWN, peer, f"the link could not be made: {reason}")
        self._turns.deliver(LinkDown(peer, reason))

    def _note(self, kind: NoticeKind, peer: Peer, sentence: str) -> None:
        self._around.notices.say(kind, f"{peer.host}:{peer.port}", sentence)
