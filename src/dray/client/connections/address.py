"""The address of a queue manager, `dray://host:port` or `dray+unix:///path`, and the way to it."""

from __future__ import annotations

import os
import socket
import ssl
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from dray.errors import ConnectionLost, InvalidConfiguration
from dray.forks import keep_from_children
from dray.model.arguments import shown, shown_address
from dray.model.callers import Credential
from dray.model.names import DEFAULT_PORT, is_host, shown_host
from dray.net.tls import said_of, trusting
from dray.net.tokens import TOKEN_VARIABLE, is_within_machine, read_token

CONNECT_TIMEOUT_S = 10.0
"""A machine on the network that has not answered by then is not there."""
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A dead machine is noticed after 35 seconds, also while we wait for a message for ever.

Each system has some of these; TCP_KEEPALIVE is what macOS calls TCP_KEEPIDLE."""


class Address(NamedTuple):
    """A queue manager's address; `path` is set for a Unix socket, `host` for TCP.

    With `secure` through TLS, to a certificate that the authorities in the file `ca` know, showing
    the certificate in the file `cert` with its `key` if one is asked for. A given `token`, or that
    of `token_file`, tells the queue manager who we are; its owner may act for another `caller`.
    """

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    secure: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    token: str = ""
    token_file: str = ""
    caller: str = ""

    def __repr__(self) -> str:
        """The address without its token, which stands in no log and no trace."""
        return f"Address({self})"

    def credential(self) -> Credential:
        """The token to show, or the caller to act for; raises `InvalidConfiguration`.

        Without a token that was given it is that of DRAY_TOKEN.
        """
        if self.caller:
            return Credential(caller=self.caller)
        token = self.token
        if self.token_file:
            token = read_token(self.token_file)
        elif not token:
            token = os.environ.get(TOKEN_VARIABLE, "")
        if token and not (self.path or self.secure or is_within_machine(self.host)):
            raise InvalidConfiguration(
                f"everyone on the way to {self} could read the token; write drays:// instead of"
                f" dray://, or unset {TOKEN_VARIABLE}"
            )
        return Credential(token)

    def __str__(self) -> str:
        """The address as a URL."""
        if self.path:
            return f"dray+unix://{quote(self.path)}"
        return f"{'drays' if self.secure else 'dray'}://{shown_host(self.host)}:{self.port}"

    def dial(self) -> socket.socket:
        """Connect; raises `ConnectionLost`."""
        try:
            if self.path:
                return self._connect_unix()
            if not self.secure:
                return self._connect_tcp()
            # Loads asyncio, which a command that only sends over TCP can do without.
            from dray.net.tunnels import call_in_thread

            trusted = trusting(self.ca, self.cert, self.key)
            return call_in_thread(self._connect_tcp(), self.host, trusted)
        except ssl.SSLError as error:
            sentence = f"the TLS handshake with {self} failed: {said_of(error)}"
            raise ConnectionLost(sentence) from error
        except PermissionError as error:
            raise ConnectionLost(
                f"this user may not connect to {self}: {error.strerror}; ask the owner of the queue"
                " manager there"
            ) from error
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            raise ConnectionLost(
                f"no queue manager answers at {self}: {said}; is `dray serve` running there?"
            ) from error

    def _connect_unix(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        keep_from_children(sock)
        try:
            sock.settimeout(CONNECT_TIMEOUT_S)
            sock.connect(self.path)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        return sock

    def _connect_tcp(self) -> socket.socket:
        sock = socket.create_connection((self.host, self.port), timeout=CONNECT_TIMEOUT_S)
        keep_from_children(sock)
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        return sock


def parse_address(
    url: str,
    ca: str | os.PathLike[str] | None = None,
    cert: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    *,
    token: str | os.PathLike[str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    caller: str | None = None,
) -> Address:
    """Read a queue manager's URL; raises `InvalidConfiguration`. The rest as in `Address`.

    `token` may also be the path of a file with it: no token has a slash.
    """
    if token and token_file:
        raise InvalidConfiguration("`token` and `token_file` are two tokens; give one of them")
    if caller and (token or token_file):
        raise InvalidConfiguration(
            "a token says that you are its holder, and `caller` that you act for another one; give"
            " one of them"
        )
    address = _parsed(url, ca, cert, key)
    text = os.fspath(token or "")
    if text is not token or os.sep in text:
        text, token_file = "", token or token_file
    file = os.fspath(token_file or "")
    return address._replace(token=text, token_file=file, caller=caller or "")


def _parsed(
    url: str,
    ca: str | os.PathLike[str] | None,
    cert: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidConfiguration(
            f"{shown_address(url)} is not an address: write dray://host:port, with a port up to"
            " 65535"
        ) from error
    plain = not (parts.query or parts.fragment or parts.username)
    if parts.scheme == "dray+unix" and plain and not parts.netloc and parts.path.startswith("/"):
        return Address(path=_unix_path(parts.path, url))
    secure = parts.scheme == "drays"
    files = [os.fspath(file) if file is not None else None for file in (ca, cert, key)]
    if any(files) and not secure:
        raise InvalidConfiguration(
            f"{shown_address(url)} does not use TLS, so `ca`, `cert` and `key` have no effect;"
            " write drays:// or leave them out"
        )
    if key is not None and cert is None:
        raise InvalidConfiguration("`key` needs its certificate; give `cert` too")
    if (parts.scheme == "dray" or secure) and plain and parts.hostname and parts.path in {"", "/"}:
        if not is_host(parts.hostname):
            raise InvalidConfiguration(
                f"{shown_address(url)} is not an address: {shown(parts.hostname)} cannot be the"
                " name of a host; write dray://host:port"
            )
        number = DEFAULT_PORT if port is None else port
        return Address(parts.hostname, number, "", secure, ca=files[0], cert=files[1], key=files[2])
    raise InvalidConfiguration(
        f"{shown_address(url)} is not a queue manager's address: write dray://host:port,"
        " drays://host:port or dray+unix:///path, and put a token into DRAY_TOKEN or a file, never"
        " into an address"
    )


def _unix_path(quoted: str, url: str) -> str:
    path = unquote(quoted)
    if "\0" in path:
        raise InvalidConfiguration(
            f"{shown_address(url)} is not an address: a path has no zero bytes; write dray+unix:///path"
        )
    return path
