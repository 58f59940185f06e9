"""The systems that run Dray: clients on any with POSIX files, queue managers on Linux.

A queue manager's promises rest on calls that Linux has: fdatasync, O_DIRECT, sendfile, OFD locks.
"""

from __future__ import annotations

import sys

from dray.errors import InvalidConfiguration


def is_linux() -> bool:
    """Whether this system is one."""
    return sys.platform == "linux"


def require_linux(what: str) -> None:
    """Raise `InvalidConfiguration` on another system; `what` begins the sentence."""
    if not is_linux():
        raise InvalidConfiguration(
            f"{what} needs Linux, and this system is {sys.platform}; run it on a Linux machine, and"
            " connect to the queue manager there with dray.connect or --url"
        )
