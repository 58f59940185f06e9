"""Queue managers as processes of their own: started, killed, started again, ended by their id.

An interrupt while one is started or ended leaves no process behind.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

import dray
from dray.errors import DrayError, Misuse, every_error

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
POLL_EVERY_S = 0.01
_PORTS = 20_000
"""Below the ports that the kernel takes for outgoing connections."""
_READY = re.compile(r" ready at drays?://[^\s,;]+:(\d+)")
_SAID = re.compile(r"dray: ([a-z-]+): (.+)")
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ManagerProcess:
    """One queue manager, `dray serve`, on a loopback port that stays the same across restarts.

    It is open: everyone on this machine can use it.
    """

    def __init__(
        self, name: str, folder: str | os.PathLike[str], options: Sequence[str] = ()
    ) -> None:
        """Say what it is called and where its data and its log go; `start` starts it."""
        self.name = name
        self.data = Path(folder, name)
        self.log = Path(folder, f"{name}.log")
        self.port = 0
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address; raises `Misuse` before the first start, which chooses the port."""
        if not self.port:
            raise self._not_started()
        return f"dray://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process's id; raises `Misuse` before the first start."""
        if self._process is None:
            raise self._not_started()
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it says that it listens; raises what it said if it ended.

        Raises `Misuse` while it runs: nothing would end the process of the earlier start.
        """
        if self.running:
            raise Misuse(f"queue manager {self.name} runs as process {self.pid}; stop it first")
        listen = f"127.0.0.1:{self.port or _own_port()}"
        command = [sys.executable, "-m", "dray.cli", "serve", "--data", str(self.data)]
        command += ["--listen", listen, "--open", "--name", self.name, *self._options]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            said_before = log.tell()
            try:
                with uninterrupted():
                    # A session of its own: ^C at the terminal is for the command, which ends it.
                    self._process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                self.port = self._await_ready(said_before)
            except BaseException:
                self.kill()
                raise

    def connect(self) -> dray.Manager:
        """A connection to it."""
        return dray.connect(self.url)

    def kill(self) -> None:
        """SIGKILL: no chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that was not heard in time."""
        try:
            self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        self._process.wait(STOP_WITHIN_S)

    def _await_ready(self, said_before: int) -> int:
        assert self._process is not None
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            ended = self._process.poll() is not None
            said = self._said_since(said_before)
            ready = _READY.search(said)
            if ready and not ended:
                return int(ready[1])
            if ended:
                raise self._failure(said)
            if time.monotonic() > deadline:
                raise DrayError(
                    f"queue manager {self.name} was not ready within {READY_WITHIN_S:.0f} s; it"
                    f" said in {self.log}: {said.strip() or 'nothing'}"
                )
            time.sleep(POLL_EVERY_S)

    def _said_since(self, offset: int) -> str:
        with self.log.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def _failure(self, said: str) -> DrayError:
        """The error that the process printed as its last line, or one that shows where to look."""
        told = _SAID.search(said)
        if told and told[1] in every_error():
            return every_error()[told[1]](told[2])
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
        return DrayError(
            f"queue manager {self.name} ended before it was ready, and said {last.strip()!r}; see"
            f" {self.log}"
        )

    def _not_started(self) -> Misuse:
        return Misuse(f"queue manager {self.name} has not been started; call start, or use `with`")


def _own_port() -> int:
    """A free port that the kernel gives to no connection, so that it is free after a kill, too."""
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()
    highest = int(first)
    while True:
        port = random.randrange(max(1024, highest - _PORTS), highest)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let the first of ^C, SIGTERM and SIGHUP unwind, and no second one disturb the cleaning up."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        del number, frame
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold interrupts back until the end of the block.

    Between the birth of a process and the moment at which somebody knows its id, an interrupt would
    leave it without anyone to end it. The process itself begins with the default handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        # Interrupts only ever reach the main thread.
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        del frame
        held.append(number)

    try:
        with _handled_by(hold):
            yield
    finally:
        for late in held:
            os.kill(os.getpid(), late)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Give interrupts to `handler` until the end of the block."""
    before = {number: signal.signal(number, handler) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
