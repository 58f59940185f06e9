"""TLS: whom a caller trusts, what a listener presents, and the near end of a tunnel (`tunnels`)."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

from dray.errors import InvalidConfiguration

CA_VARIABLE = "DRAY_CA"
CERT_VARIABLE, KEY_VARIABLE = "DRAY_CERT", "DRAY_KEY"

_NAME_CA = (
    "name the authority that signed its certificate: DRAY_CA=FILE.pem, ca= in Python, or --tls-ca"
    " of dray serve"
)
_OTHER_NAME = "call it by a name in its certificate, or give it a certificate for this name"
_SHOW_OURS = (
    "it accepts only callers with a certificate that has not ended, by an authority that it trusts:"
    " DRAY_CERT=FILE.pem and DRAY_KEY=FILE.key, cert= and key= in Python, or --tls-cert and"
    " --tls-key of dray serve"
)
CLOSED_UNHEARD = f"closed right after the handshake; perhaps {_SHOW_OURS}"
"""TLS 1.3 refuses a caller's certificate when the caller has already shaken hands."""
_NO_TLS = "if a queue manager without TLS listens there, write dray:// instead of drays://"
_REMEDIES_BY_CODE = {
    9: "its certificate is not valid yet: compare the clocks of both machines",
    10: "its certificate has expired: give it a new one",
    18: _NAME_CA,  # it signed itself
    19: _NAME_CA,  # an authority that signed itself, as all do, and is not trusted here
    20: _NAME_CA,  # no authority for it was found
    21: _NAME_CA,
    62: _OTHER_NAME,
    64: _OTHER_NAME,  # of an IP address
}
"""OpenSSL's code of a certificate that was refused (X509_V_ERR_...): what to do."""
_REMEDIES_BY_REASON = {
    "HTTP_REQUEST": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "UNEXPECTED_MESSAGE": _NO_TLS,
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "SSLV3_ALERT_BAD_CERTIFICATE": _SHOW_OURS,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate that was presented to it has ended: present"
    " a new one",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _SHOW_OURS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _SHOW_OURS,
    "TLSV1_ALERT_UNKNOWN_CA": _SHOW_OURS,
}
"""OpenSSL's reason for the end of a handshake: what to do."""


class TunnelEnd(socket.socket):
    """The near end of a tunnel: a Unix socket that carries bytes, and nothing besides."""

    reason = ""
    """Why TLS ended, if it was not by the will of either end."""
    heard = False
    """Whether anything has come through."""
    outer_host = ""
    """The address of this machine on the connection that the tunnel goes through."""
    outer_address: object = None
    """The address of the other machine on it, as the module `socket` gives it."""
    names: tuple[str, ...] | None = None
    """Names (subjectAltName) in the certificate of the other end, in order; None without one."""


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
    """The TLS context of a caller.

    It expects a certificate for the name that it calls, by an authority of `ca`, and presents its
    own `certificate` if the listener asks for one. Files that are not given come from the
    environment (`DRAY_CA`, `DRAY_CERT`, `DRAY_KEY`); without those it trusts the authorities of the
    machine and presents nothing. Raises `InvalidConfiguration`.
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
    """The TLS context of a listener.

    It presents `certificate` with its chain and `key` (in the same file if None). With `client_ca`
    it accepts only clients that present a certificate signed by an authority of that file. Raises
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
    except OSError as error:
        files = f"{certificate} and {key}" if key else f"{certificate}"
        lacking = "do not hold" if key else "does not hold"
        wrong = f"{lacking} a certificate and its private key"
        if not isinstance(error, ssl.SSLError):
            wrong = "cannot be read"
        raise InvalidConfiguration(f"{files} {wrong}: {_said(error)}") from error


def said_of(error: ssl.SSLError) -> str:
    """The error of a caller, in the words of the library, and what to do about it."""
    said = (getattr(error, "verify_message", "") or error.reason or str(error)).rstrip(".")
    remedy = _REMEDIES_BY_CODE.get(getattr(error, "verify_code", 0))
    remedy = remedy or _REMEDIES_BY_REASON.get(error.reason or "")
    return f"{said}; {remedy}" if remedy else said


def _said(error: OSError) -> str:
    return error.strerror or str(error)
