"""The socket that a queue manager opens by itself, and the name under which programs find it.

    DATA/dray.sock                      the socket, mode 0600
    $XDG_RUNTIME_DIR/dray.sock          a link to it, or without that variable
    ~/.local/state/dray/dray.sock       this one

One queue manager of an account has the link at a time: the first that runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

URL_VARIABLE: Final = "DRAY_URL"
SOCKET_NAME: Final = "dray.sock"


def socket_of(data: str | os.PathLike[str]) -> Path:
    """The socket of the queue manager over a data directory."""
    return Path(data).absolute() / SOCKET_NAME


def runtime_link() -> Path:
    """The link by which programs of this account find its queue manager."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder, SOCKET_NAME) if folder else Path.home() / ".local/state/dray" / SOCKET_NAME


def default_url() -> str:
    """The queue manager of a program that names none: that of DRAY_URL, else that of the link."""
    return os.environ.get(URL_VARIABLE) or f"dray+unix://{quote(os.fspath(runtime_link()))}"
