"""TLS: whom a caller trusts, what a listener shows, and the near end of a tunnel (`tunnels`)."""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING

from dray.errors import InvalidConfiguration

if TYPE_CHECKING:
    from pathlib import Path

CA_VARIABLE = "DRAY_CA"


class TunnelEnd(socket.socket):
    """The near end of a tunnel: a Unix socket that carries bytes, and nothing besides."""


def is_tunnel(sock: socket.socket) -> bool:
    """Whether what goes into a socket goes through TLS."""
    return isinstance(sock, TunnelEnd)


def carries_files(sock: socket.socket) -> bool:
    """Whether open files can be passed over a socket."""
    return sock.family == socket.AF_UNIX and not is_tunnel(sock)


def trusting(ca: str | Path | None = None) -> ssl.SSLContext:
    """What a caller expects: a certificate for the name it calls, by an authority of `ca`.

    Without a file that of the environment (`DRAY_CA`), and without that the machine's own
    authorities. Raises `InvalidConfiguration`.
    """
    file = ca or os.environ.get(CA_VARIABLE) or None
    try:
        context = ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfiguration(
            f"{file} holds no certificates that could be trusted: {_said(error)}"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def presenting(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """What a listener shows: a certificate with its chain, and its key (in the same file if None).

    Raises `InvalidConfiguration`.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = f"{certificate} and {key}" if key else f"{certificate}"
        raise InvalidConfiguration(
            f"{files} are no certificate and its key: {_said(error)}"
        ) from error
    return context


def said_of(error: ssl.SSLError) -> str:
    """What went wrong, in the library's words."""
    return getattr(error, "verify_message", "") or error.reason or str(error)


def _said(error: OSError) -> str:
    return error.strerror or str(error)
