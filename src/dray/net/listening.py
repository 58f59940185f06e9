"""Addresses to listen at: "HOST:PORT", or the path of a Unix socket; and sockets that listen."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from dray.errors import AddressInUse, InvalidConfiguration
from dray.model.names import is_host
from dray.own_files import FILE_MODE

_PORT_MAX = 65_535
_BACKLOG = 128


def http_address(text: str) -> tuple[str, int] | Path:
    """Read "HOST:PORT", or the path of a Unix socket; raises `InvalidConfiguration`."""
    if ":" not in text and "/" not in text:
        raise InvalidConfiguration(
            f"{text!r} is not an address to listen on; write HOST:PORT, or the path of a Unix"
            f" socket with a slash in it, such as ./{text}"
        )
    return Path(text) if "/" in text else listen_address(text)


def listen_address(text: str) -> tuple[str, int]:
    """Read "HOST:PORT"; raises `InvalidConfiguration`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not is_host(host) or not port.isascii() or not port.isdecimal():
        raise InvalidConfiguration(f"{text!r} is not an address to listen on; write HOST:PORT")
    if int(port) > _PORT_MAX:
        raise InvalidConfiguration(f"{text!r}: a port is at most {_PORT_MAX}")
    return host, int(port)


def listening_socket(goal: tuple[str, int] | Path) -> socket.socket:
    """Listen at an address; only this user can open a Unix socket. Raises `AddressInUse`."""
    try:
        if isinstance(goal, Path):
            return _unix_socket(goal)
        family = socket.AF_INET6 if ":" in goal[0] else socket.AF_INET
        listening = socket.create_server(goal, family=family, backlog=_BACKLOG)
        # Accepted connections have it from here: an answer in two pieces would wait 40 ms for the
        # client's acknowledgment of the first.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        where = goal if isinstance(goal, Path) else f"{goal[0]}:{goal[1]}"
        raise AddressInUse(
            f"nothing can listen at {where}: {error.strerror or error}; choose another address"
        ) from error


def clear_socket(path: Path) -> None:
    """Remove a socket that a killed program has left; raises OSError for anything else there."""
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        raise FileExistsError(0, "a file that is no socket has this name")
    with socket.socket(socket.AF_UNIX) as probe:
        if not probe.connect_ex(str(path)):
            raise FileExistsError(0, "another program listens there")
    path.unlink(missing_ok=True)


def _unix_socket(path: Path) -> socket.socket:
    clear_socket(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(FILE_MODE)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
