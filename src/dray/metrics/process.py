"""Starts the server of HTTP for programs as a process of its own, and starts it again if it ends.

The process gets the address of the queue manager's Unix socket, the address where it listens, and
the path of the small listener for operators, which stays in threads of the queue manager.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.errors import AddressInUse, DrayError
from dray.metrics.http import MetricsServer

if TYPE_CHECKING:
    from dray.client.connections.runtime import Dialer

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 1.0
"""A server that ends as soon as it is started is not started more often."""
_END_S: Final = 10.0
"""A server that was told to end and has not by then is killed."""


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
        self._command = [sys.executable, "-m", "dray.console.v1", url, address, socket]
        self._ending = threading.Event()
        try:
            self._process, self.address = self._started()
        except BaseException:
            self._close_rest()
            raise
        if not self.address.startswith("http+unix:"):
            # A port that was free is the same after a new start.
            self._command[4] = self.address.removeprefix("http://")
        self._watcher = threading.Thread(target=self._watch, name="dray-http", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """End it: the end of its standard input tells it."""
        self._ending.set()
        self._end()
        self._watcher.join()
        self._close_rest()

    def _started(self) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if not said:
            process.wait()
            raise AddressInUse(
                f"http: nothing can listen at {self._command[4]}, as the line before says; choose"
                " another address"
            )
        return process, said

    def _watch(self) -> None:
        while True:
            status = self._process.wait()
            if self._ending.is_set():
                return
            _log.error("the HTTP server ended with status %d; it is started again", status)
            self._release()
            if self._ending.wait(_AGAIN_S):
                return
            try:
                self._process, _ = self._started()
            except DrayError as error:
                _log.error("the HTTP server cannot be started again: %s", error)
            if self._ending.is_set():
                self._end()

    def _end(self) -> None:
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._release()

    def _release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _close_rest(self) -> None:
        self._operators.close()
        self._folder.cleanup()
