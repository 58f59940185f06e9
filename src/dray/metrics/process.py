"""Starts the server of HTTP for programs as a process of its own.

The process gets the address of the queue manager's Unix socket, the address where it listens, and
the path of the small listener for operators, which stays in threads of the queue manager.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from dray.client.connections.runtime import Dialer
from dray.daemon.side_process import SideProcess
from dray.metrics.http import MetricsServer

_ADDRESS_AT = 4


def can_serve_programs() -> bool:
    """Whether the extra `console` is installed."""
    return all(find_spec(name) is not None for name in ("starlette", "uvicorn"))


class HttpProcess:
    """One server process, until it is closed."""

    def __init__(self, address: str, url: str, dialer: Dialer) -> None:
        """Start it; raises `AddressInUse`. `url` is where clients on this machine connect."""
        self._folder = tempfile.TemporaryDirectory(prefix="dray-http-")
        socket = str(Path(self._folder.name) / "operators")
        self._operators = MetricsServer(socket, dialer)
        command = [sys.executable, "-m", "dray.console.v1", url, address, socket]
        try:
            self._process = SideProcess("http", command, _ADDRESS_AT)
        except BaseException:
            self._close_rest()
            raise
        self.told = f"HTTP at {self._process.said}"
        if not self._process.said.startswith("http+unix:"):
            self._process.keep_address(self._process.said.removeprefix("http://"))

    def follow(self) -> None:
        """Do nothing: it has no certificate."""

    def close(self) -> None:
        """End it."""
        self._process.close()
        self._close_rest()

    def _close_rest(self) -> None:
        self._operators.close()
        self._folder.cleanup()
