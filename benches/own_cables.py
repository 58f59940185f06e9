"""A TCP relay that gives each connection a cable of its own: so many bytes a second to the client.

The tasks of a cluster run on machines that each have a network card. On one machine they share the
loopback device, which has no limit but the processors. The kernel itself paces what goes to a
client, and the bytes pass the relay by `splice`, so that it takes little of the processors.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SO_MAX_PACING_RATE = 47
"""Linux has it since 3.13; Python does not name it."""
_PIECE_BYTES = 1 << 20


@contextmanager
def own_cables(port: int, bytes_a_second: int) -> Iterator[int]:
    """Give a port of 127.0.0.1 that leads to `port`, each connection at that rate at most."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, port, bytes_a_second), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            # A close alone does not wake the thread that waits in `accept`.
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int, bytes_a_second: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, bytes_a_second)
        server = socket.create_connection(("127.0.0.1", port))
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for ends in ((client, server), (server, client)):
            threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one end closes, and then end the other direction as well."""
    into, out = os.pipe()
    # An end that breaks the connection has its error, or its answer, already.
    with suppress(OSError):
        while count := os.splice(source.fileno(), out, _PIECE_BYTES):
            while count:
                count -= os.splice(into, target.fileno(), count)
    os.close(into)
    os.close(out)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
