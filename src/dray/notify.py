"""Tells systemd that a service is ready, stops, or is alive: datagrams to NOTIFY_SOCKET.

Where no service manager listens, nothing is said. See sd_notify(3).
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
_MICROSECONDS: Final = 1e6
_log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send a state to the service manager, if one listens; a failure is logged."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        # A socket in the abstract namespace.
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("the service manager was not told %r: %s", state, error)


def watchdog_interval_s() -> float | None:
    """The interval at which this process says that it is alive; None if nobody watches it."""
    limit = os.environ.get("WATCHDOG_USEC", "")
    watched = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not limit.isdecimal() or watched != str(os.getpid()):
        return None
    # Twice as often as it must, so that one late round is no restart.
    return int(limit) / _MICROSECONDS / 2
