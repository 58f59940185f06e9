"""A program beside the queue manager, in a process of its own, so that it delays no message.

It says one line on its standard output when it is ready. It ends when its standard input ends,
which also happens when the queue manager is killed. If it ends by itself, it is started again.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from typing import Final

from dray.errors import AddressInUse, DrayError

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 1.0
"""A program that ends as soon as it is started is not started more often."""
_END_S: Final = 10.0
"""A program that was told to end and has not by then is killed."""


class SideProcess:
    """One program, until it is closed."""

    def __init__(self, name: str, command: list[str], address_at: int) -> None:
        """Start `command`; raises `AddressInUse` or `DrayError` if it ends before it is ready.

        `command[address_at]` is where it listens.
        """
        self._name = name
        self._command = command
        self._address_at = address_at
        self._ending = threading.Event()
        self._process, self.said = self._started()
        self.told = self.said.removeprefix("dray ")
        self._watcher = threading.Thread(target=self._watch, name=f"dray-{name}", daemon=True)
        self._watcher.start()

    def keep_address(self, address: str) -> None:
        """Use an address at each further start: a port that was free stays the same."""
        self._command[self._address_at] = address

    def follow(self) -> None:
        """Tell it by SIGHUP to read its files again."""
        self._process.send_signal(signal.SIGHUP)

    def close(self) -> None:
        """End it: the end of its standard input tells it."""
        self._ending.set()
        self._end()
        self._watcher.join()

    def _started(self) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(  # noqa: S603 - our own program
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if not said:
            status = process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            if status == AddressInUse.exit_status:
                raise AddressInUse(
                    f"{self._name}: nothing can listen at {self._command[self._address_at]}, as the"
                    " line before says; choose another address"
                )
            raise DrayError(
                f"{self._name} ended with status {status} before it was ready, for the reason that"
                " the line before gives"
            )
        return process, said

    def _watch(self) -> None:
        while True:
            status = self._process.wait()
            if self._ending.is_set():
                return
            _log.error("%s ended with status %d; it is started again", self._name, status)
            self._release()
            if self._ending.wait(_AGAIN_S):
                return
            try:
                self._process, self.said = self._started()
            except DrayError as error:
                _log.error("%s cannot be started again: %s", self._name, error)
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
