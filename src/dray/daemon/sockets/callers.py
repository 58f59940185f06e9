"""The caller at the other end of an accepted socket, as the kernel and TLS tell it.

    TLS with a client's certificate    cert:NAME, the first name in it (subjectAltName)
    a Unix socket                      user:NAME with the groups of the process that connected
    else                               nobody is proven: the door decides what to call it

No name comes from a frame.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import socket
import struct
from functools import lru_cache
from ipaddress import ip_address

from dray.daemon.limits import ACCOUNT_NAMES_KEPT
from dray.model.callers import NOBODY, Caller, caller_name
from dray.model.names import shown_host
from dray.net.tls import TunnelEnd

_log = logging.getLogger(__name__)
_CREDENTIALS = struct.Struct("iII")
_PEER_GROUPS = 59
"""SO_PEERGROUPS of Linux, for which the module `socket` has no name."""
_GROUP = struct.Struct("I")
_OPTION_BYTES_MAX = 1024
"""The longest option that Python's `getsockopt` reads: 256 groups."""


def caller_of(sock: socket.socket, address: object, *, unproven: str) -> Caller:
    """The caller behind an accepted socket; `address` is what `accept` gave with it.

    A caller that neither the kernel nor TLS vouches for is called `unproven`. A certificate that
    has no name in it proves nothing: its holder is nobody.
    """
    if isinstance(sock, TunnelEnd):
        name = certified_name(sock) or unproven
        return Caller(name, address=shown_address(sock.outer_address), is_private=True)
    if sock.family == socket.AF_UNIX:
        return _account(sock)
    return Caller(unproven, address=shown_address(address), is_private=_is_within(address))


def certified_name(sock: socket.socket) -> str:
    """The name in the certificate of the other end, `nobody` if it has none; empty without one."""
    if not isinstance(sock, TunnelEnd) or sock.names is None:
        return ""
    return caller_name("cert", sock.names[0]) if sock.names else NOBODY


def shown_address(address: object) -> str:
    """HOST:PORT of a socket's address, as people write it."""
    if not isinstance(address, tuple):
        return ""
    host, port = address[:2]
    return f"{shown_host(host)}:{port}"


def _account(sock: socket.socket) -> Caller:
    size = _CREDENTIALS.size
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, group = _CREDENTIALS.unpack(credentials)
    caller = Caller(
        _user_name(user), (), f"process {process}", owner=user == os.geteuid(), is_private=True
    )
    groups = tuple(
        dict.fromkeys(_group_name(each) for each in (group, *_more_groups(sock, caller)))
    )
    return caller._replace(groups=groups, is_private=True)


def _is_within(address: object) -> bool:
    """Whether a socket's address is one of this machine, by which nobody else can reach it."""
    return isinstance(address, tuple) and ip_address(address[0].partition("%")[0]).is_loopback


def _more_groups(sock: socket.socket, caller: Caller) -> list[int]:
    try:
        image = sock.getsockopt(socket.SOL_SOCKET, _PEER_GROUPS, _OPTION_BYTES_MAX)
    except OSError as error:
        # A caller in more groups than fit has a right too few by them, and the log says why.
        _log.warning("the groups of %s cannot be read: %s", caller, error.strerror)
        return []
    return [group for (group,) in _GROUP.iter_unpack(image)]


@lru_cache(ACCOUNT_NAMES_KEPT)
def _user_name(number: int) -> str:
    try:
        return caller_name("user", pwd.getpwuid(number).pw_name)
    except KeyError:
        return f"user:{number}"


@lru_cache(ACCOUNT_NAMES_KEPT)
def _group_name(number: int) -> str:
    try:
        return caller_name("group", grp.getgrgid(number).gr_name)
    except KeyError:
        return f"group:{number}"
