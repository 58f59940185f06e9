"""Tells systemd's watchdog that a command that runs for months still works.

Such a command asks all the time whether it is to stop, unless it moves a long body or waits for a
command of its user. So it is alive if it has asked since the last look, if its threads have used
the processor, or if a child of it runs. A command that hangs in a file system that is gone does
none of this, and systemd starts it anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dray.notify import ALIVE, notify, watchdog_interval_s

_AT_WORK_S: Final = 0.001
"""Processor time of the other threads between two looks that counts as work."""
_THREADS: Final = Path("/proc/self/task")


class AskedEvent(threading.Event):
    """An event that counts how often somebody has asked whether it is set."""

    def __init__(self) -> None:
        """Begin unset and unasked."""
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
    """Say again and again that this process is alive, as long as it is; if anybody listens."""
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
