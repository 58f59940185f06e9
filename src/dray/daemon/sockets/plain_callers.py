"""Callers that begin without TLS at a listener that speaks TLS only: they are told what to do.

A TLS library would answer such a caller with an alert or nothing, and the caller would only see a
closed connection. The first byte decides: a frame of ours begins with "D", a TLS record does not.
"""

from __future__ import annotations

import asyncio
import logging
import socket

from dray.daemon.limits import LINGER_S
from dray.errors import ConnectionLost
from dray.net.handshakes import HANDSHAKE_S
from dray.wire.frames import MAGIC, encode_frame, failure

SENTENCE = (
    "this port speaks TLS only: write drays:// instead of dray://, and name the authority of its"
    " certificate with DRAY_CA=FILE.pem"
)
_DISCARD_BYTES = 64 << 10
_log = logging.getLogger(__name__)


async def begins_plainly(sock: socket.socket) -> bool:
    """Whether an accepted caller begins with a frame and not with TLS; nothing is read.

    Raises OSError if it says nothing in time; `sock` is closed then.
    """
    sock.setblocking(False)
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, readable.set)
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            await readable.wait()
        loop.remove_reader(sock)
        return sock.recv(1, socket.MSG_PEEK) == MAGIC[:1]
    except BaseException:
        loop.remove_reader(sock)
        sock.close()
        raise


async def turn_away(sock: socket.socket, address: str) -> None:
    """Send the sentence in a frame, wait a moment for the caller to hang up, and close."""
    loop = asyncio.get_running_loop()
    with sock:
        try:
            async with asyncio.timeout(LINGER_S):
                await loop.sock_sendall(sock, encode_frame(failure(ConnectionLost(SENTENCE))))
                sock.shutdown(socket.SHUT_WR)
                # A socket that is closed with unread bytes takes back what it has sent.
                while await loop.sock_recv(sock, _DISCARD_BYTES):
                    continue
        except OSError as error:
            _log.debug("%s spoke no TLS and did not wait for its answer: %s", address, error)
