"""The TCP addresses that a queue manager may listen on: callers prove there who they are."""

from __future__ import annotations

from ipaddress import ip_address

from dray.daemon.config import ServeOptions
from dray.daemon.sockets.callers import shown_address
from dray.errors import InvalidConfiguration


def check_tcp_door(options: ServeOptions, address: tuple[str, int], *, knows_tokens: bool) -> None:
    """Refuse to listen on `address` if everyone who can connect would be let in.

    Raises `InvalidConfiguration`, which says what to do. `open` allows every address.
    """
    if options.open:
        return
    where = shown_address(address)
    if options.tls_cert is None and not ip_address(address[0]).is_loopback:
        raise InvalidConfiguration(
            f"everyone between a caller and {where} could read and change what they say: set"
            " tls_cert and tls_client_ca (`dray cert` makes the files), or listen on a Unix socket,"
            " or allow it with `open` (--open), which protects nothing"
        )
    if options.tls_client_ca is None and not knows_tokens:
        raise InvalidConfiguration(
            f"everyone who can connect to {where} would be let in: set tls_cert and tls_client_ca"
            " (`dray cert` makes the files), or make a token with `dray token create NAME --data"
            f" {options.data or 'DIR'}`, or listen on a Unix socket, or allow it with `open`"
            " (--open), which protects nothing"
        )


def what_open_means(where: str) -> str:
    """The warning of an open queue manager at its start."""
    return (
        f"the queue manager is open and protects nothing: everyone who can connect to {where} has"
        " each right that no access rule restricts; leave out `open` (--open) to let in only"
        " callers that prove who they are"
    )
