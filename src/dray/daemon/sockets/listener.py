"""Sockets that wait for callers, on TCP and in the file system."""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from dray.daemon.limits import (
    ACCEPT_RETRY_S,
    ACCEPTS_PER_PASS,
    CALLERS_UNACCEPTED_MAX,
    UNIX_PATH_BYTES_MAX,
)
from dray.daemon.notice_log import NoticeLog
from dray.errors import AddressInUse, InvalidConfiguration
from dray.forks import keep_from_children
from dray.manager.notices import NoticeKind
from dray.model.arguments import shown
from dray.model.names import shown_host

_OWNER_ONLY = 0o600
_OWNER_AND_GROUP = 0o660

Accepted = Callable[[socket.socket, object], None]
"""Takes over a connection, and the address that it comes from."""


class Listener:
    """One listening socket in the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        address: str,
        *,
        accepted: Accepted,
        notices: NoticeLog,
    ) -> None:
        """Accept on `sock`, known to people as `address`; `accepted` takes over each connection."""
        self._notices = notices
        self._loop = loop
        self._sock = sock
        self._accepted = accepted
        self._retry: asyncio.TimerHandle | None = None
        self._file = _identity(sock)
        self.address = address
        sock.setblocking(False)
        loop.add_reader(sock, self._acceptable)

    def close(self) -> None:
        """Accept no more, and take the socket's file away if it is still ours."""
        self._loop.remove_reader(self._sock)
        if self._retry is not None:
            self._retry.cancel()
        if self._file is not None and _identity(self._sock) == self._file:
            Path(self._sock.getsockname()).unlink()
        self._sock.close()

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_PASS):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory, or the network's trouble: asking at once would spin.
                told = f"a connection has to wait: {error.strerror}"
                self._notices.say(NoticeKind.CONNECTION_WAITS, self.address, told)
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(
                    ACCEPT_RETRY_S, self._loop.add_reader, self._sock, self._acceptable
                )
                return
            self._accepted(sock, address)


def listen_tcp(host: str, port: int) -> tuple[socket.socket, str]:
    """Listen on `host`, `port` (0: any free one); give the socket and its `dray://` address.

    Raises `AddressInUse`, and `InvalidConfiguration` for an address that is not this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InvalidConfiguration(f"cannot listen on {host}: {error}") from error
    sock = socket.socket(family, kind, protocol)
    keep_from_children(sock)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(CALLERS_UNACCEPTED_MAX)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(
                f"another process listens on {host}:{port}; stop it or choose another address"
                " with --listen",
                address=f"{host}:{port}",
            ) from error
        raise InvalidConfiguration(f"cannot listen on {host}:{port}: {error.strerror}") from error
    bound = sock.getsockname()[1]
    return sock, f"dray://{shown_host(host)}:{bound}"


def listen_unix(path: str, group: str | None = None) -> tuple[socket.socket, str]:
    """Listen on a socket file; give the socket and its `dray+unix://` address.

    Only its owner and the members of `group` may open the file. A file that a dead process left is
    replaced. Raises `AddressInUse` if someone answers on it, and `InvalidConfiguration`.
    """
    if "\0" in path:
        raise InvalidConfiguration("a path has no zero bytes; choose another --socket")
    where = Path(path).absolute()
    if len(os.fsencode(where)) > UNIX_PATH_BYTES_MAX:
        raise InvalidConfiguration(
            f"the path {shown(str(where))} is too long for a Unix socket, which takes"
            f" {UNIX_PATH_BYTES_MAX} bytes; choose a shorter --socket"
        )
    number = None if group is None else _group_number(group)
    _clear(where)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    keep_from_children(sock)
    try:
        sock.bind(str(where))
        # Nobody can connect before the last of these lines: a socket that does not listen refuses.
        where.chmod(_OWNER_ONLY)
        if number is not None:
            os.chown(where, -1, number, follow_symlinks=False)
            where.chmod(_OWNER_AND_GROUP)
        sock.listen(CALLERS_UNACCEPTED_MAX)
    except OSError as error:
        sock.close()
        raise InvalidConfiguration(f"cannot listen on {where}: {error.strerror}") from error
    return sock, f"dray+unix://{where}"


def _group_number(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise InvalidConfiguration(
            f"socket_group: this machine has no group {name!r}; name one of `getent group`"
        ) from error


def _clear(where: Path) -> None:
    """Remove a socket file on which nobody answers."""
    try:
        mode = where.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidConfiguration(f"cannot listen on {where}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise AddressInUse(
            f"{where} exists and is not a socket; move it away or choose another --socket",
            address=str(where),
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(where))
        except ConnectionRefusedError:
            where.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # Someone is there, with a full backlog.
        except OSError as error:
            raise InvalidConfiguration(f"cannot listen on {where}: {error.strerror}") from error
    raise AddressInUse(
        f"another process listens on {where}; stop it or choose another --socket",
        address=str(where),
    )


def _identity(sock: socket.socket) -> tuple[int, int] | None:
    """The file by which a Unix socket is reached, or None."""
    if sock.family != socket.AF_UNIX:
        return None
    try:
        found = Path(sock.getsockname()).lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
