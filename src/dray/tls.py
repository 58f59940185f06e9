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
CERT_VARIABLE, KEY_VARIABLE = "DRAY_CERT", "DRAY_KEY"


class TunnelEnd(socket.socket):
    """The near end of a tunnel: a Unix socket that carries bytes, and nothing besides."""

    reason = ""
    """Why TLS ended, if it was not by the will of either end."""
    outer_host = ""
    """The address of this machine on the connection that the tunnel goes through."""


def is_tunnel(sock: socket.socket) -> bool:
    """Whether what goes into a socket goes through TLS."""
    return isinstance(sock, TunnelEnd)


def local_host(sock: socket.socket) -> str:
    """The address of this machine on a connection; empty on a Unix socket."""
    if isinstance(sock, TunnelEnd):
        return sock.outer_host
    return "" if sock.family == socket.AF_UNIX else str(sock.getsockname()[0])


def carries_files(sock: socket.socket) -> bool:
    """Whether open files can be passed over a socket."""
    return sock.family == socket.AF_UNIX and not is_tunnel(sock)


def trusting(
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
) -> ssl.SSLContext:
    """What a caller expects: a certificate for the name it calls, by an authority of `ca`.

    And the certificate that it shows of itself, where it is asked for one. Without files those of
    the environment (`DRAY_CA`, `DRAY_CERT`, `DRAY_KEY`), and without those the machine's own
    authorities, and no certificate. Raises `InvalidConfiguration`.
    """
    file = ca or os.environ.get(CA_VARIABLE) or None
    try:
        context = ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfiguration(
            f"{file} holds no certificates that could be trusted: {_said(error)}"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is None:
        certificate = os.environ.get(CERT_VARIABLE) or None
        key = key or os.environ.get(KEY_VARIABLE) or None
    if certificate is not None:
        _load(context, certificate, key)
    return context


def presenting(
    certificate: str | Path, key: str | Path | None = None, client_ca: str | Path | None = None
) -> ssl.SSLContext:
    """What a listener shows: a certificate with its chain, and its key (in the same file if None).

    With `client_ca` it lets nobody in who does not show one by an authority of that file. Raises
    `InvalidConfiguration`.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate, key)
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise InvalidConfiguration(
                f"{client_ca} holds no certificates that could be trusted: {_said(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, certificate: str | Path, key: str | Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = f"{certificate} and {key}" if key else f"{certificate}"
        raise InvalidConfiguration(
            f"{files} are no certificate and its key: {_said(error)}"
        ) from error


def said_of(error: ssl.SSLError) -> str:
    """What went wrong, in the library's words."""
    return getattr(error, "verify_message", "") or error.reason or str(error)


def _said(error: OSError) -> str:
    return error.strerror or str(error)
