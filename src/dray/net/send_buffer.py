"""A larger send buffer for a long line, where the kernel gives one that is larger for being asked.

A sender keeps what is not acknowledged, so a line is as quick as its buffer allows: 4 MiB of it, of
which half is bookkeeping, are 20 MB/s at 100 ms. By itself a buffer grows to the third figure of
`net.ipv4.tcp_wmem`. A process that asks gets a fixed size, on many machines a smaller one; so a
socket is asked on trial, once in a process. A process that may administer the network gets the size
it asks for.
"""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path
from typing import Final

_GROWS_TO: Final = Path("/proc/sys/net/ipv4/tcp_wmem")
_FORCED: Final = 32
"""SO_SNDBUFFORCE, which Python has no name for."""


def widen(sock: socket.socket, size_bytes: int) -> None:
    """Have a TCP socket's send buffer hold `size_bytes`, or as many as the kernel gives.

    If that is more than it would grow to by itself. Its bookkeeping takes as much again.
    """
    option = _way_to(size_bytes)
    if option is not None:
        sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)


@cache
def _way_to(size_bytes: int) -> int | None:
    """The option that makes a buffer larger than it would grow to by itself; None if none does."""
    try:
        most = int(_GROWS_TO.read_text("ascii").split()[2])
    except (OSError, ValueError, IndexError):
        return None
    for option in (_FORCED, socket.SO_SNDBUF):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
            try:
                asked.setsockopt(socket.SOL_SOCKET, option, size_bytes)
            except OSError:
                continue  # it takes the right to administer the network
            if asked.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > most:
                return option
    return None
