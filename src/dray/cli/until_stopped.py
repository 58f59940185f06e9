"""Commands that run for months: they wait for their queue manager, and SIGTERM ends them.

While they work they say so to systemd's watchdog, which starts a command anew that hangs.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import dray
from dray.cli.settings import Settings
from dray.errors import ConnectionLost
from dray.notify import ALIVE, READY, STOPPING, notify, watchdog_interval_s

_log = logging.getLogger(__name__)
_CONNECT_AGAIN_S = 1.0
_AT_WORK_S: Final = 0.001
"""Processor time of the other threads between two looks that counts as work."""
_THREADS: Final = Path("/proc/self/task")


@contextmanager
def stopped_by_sigterm() -> Iterator[threading.Event]:
    """Give an event that SIGTERM sets; warnings go to standard error meanwhile."""
    logging.basicConfig(format="dray: %(message)s", level=logging.WARNING)
    stop = AskedEvent()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        notify(STOPPING)

    previous = signal.signal(signal.SIGTERM, end)
    try:
        with watched(stop):
            yield stop
    finally:
        signal.signal(signal.SIGTERM, previous)


def connected(settings: Settings, stop: threading.Event) -> dray.Manager | None:
    """Connect as soon as the queue manager answers; None if told to stop before."""
    told = False
    while not stop.is_set():
        try:
            manager = settings.connect()
        except ConnectionLost as error:
            if not error.retryable:
                raise
            if not told:
                _log.warning("waiting for the queue manager: %s", error)
                told = True
            stop.wait(_CONNECT_AGAIN_S)
        else:
            notify(READY)
            return manager
    return None


class AskedEvent(threading.Event):
    """An event that counts how often somebody has asked whether it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def is_set(self) -> bool:
        """Whether it is set; counted."""
        self.asked += 1
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; counted before and after."""
        self.asked += 1
        try:
            return super().wait(timeout)
        finally:
            self.asked += 1


@contextmanager
def watched(stop: AskedEvent) -> Iterator[None]:
    """Say again and again that this process is alive, as long as it is; if anybody listens.

    Such a command asks all the time whether it is to stop, unless it moves a long body or waits for
    a command of its user. So it is alive if it has asked since the last look, if its threads have
    used the processor, or if a child of it runs. A command that hangs in a file system that is gone
    does none of this.
    """
    every_s = watchdog_interval_s()
    if every_s is None:
        yield
        return
    ended = threading.Event()
    teller = threading.Thread(
        target=_tell, args=(stop, ended, every_s), name="dray-watchdog", daemon=True
    )
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _tell(stop: AskedEvent, ended: threading.Event, every_s: float) -> None:
    notify(ALIVE)
    asked, worked_s = stop.asked, _processor_s()
    while not ended.wait(every_s):
        was = asked, worked_s
        asked, worked_s = stop.asked, _processor_s()
        if asked != was[0] or worked_s - was[1] > _AT_WORK_S or _runs_a_command():
            notify(ALIVE)


def _processor_s() -> float:
    """Processor time of all threads but this one."""
    return time.process_time() - time.thread_time()


def _runs_a_command() -> bool:
    """Whether a thread of this process has a child."""
    for each in _THREADS.iterdir():
        # The thread may have ended since it was listed.
        with suppress(FileNotFoundError):
            if (each / "children").read_text():
                return True
    return False
