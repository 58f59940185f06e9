"""Under which addresses this machine reaches itself: what is sent to one of them is sent here.

Names that a server of names gives this machine cannot be known without asking it, which may take
long; the option `addresses` tells them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address

from dray.manager.events import Peer
from dray.model.names import parse_manager_address

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Documentation addresses: nobody is there, and nothing is sent to them."""


def own_addresses(host: str, sock: socket.socket, others: Iterable[str]) -> frozenset[Peer]:
    """Addresses of a listening TCP socket that was asked for as `host`, with `others` by option."""
    bound, port = sock.getsockname()[:2]
    hosts = {host.lower(), bound}
    if ip_address(bound).is_loopback:
        hosts.update(_LOOPBACK)
    elif ip_address(bound).is_unspecified:
        hosts.update(_LOOPBACK, (socket.gethostname().lower(),), _outward())
    named = (Peer(*parse_manager_address(each)[:2]) for each in others)
    return frozenset([*(Peer(each, port) for each in hosts), *named])


def _outward() -> list[str]:
    """The addresses from which this machine would speak to others; no packet leaves it."""
    found = []
    for family, goal in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((goal, 9))
                found.append(probe.getsockname()[0])
        except OSError:
            # No way out by this family: nobody reaches us by it either.
            continue
    return found
