"""The one place that reads the clock and draws randomness, so that all else can be replayed."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
import uuid

from dray.delivery.keys import KEY_BYTES
from dray.forks import keep_from_children

_DELAYS = "/proc/thread-self/schedstat"
"""The thread's time on a processor and its time in line for one, in nanoseconds, and a count."""
_DELAY_BYTES_MAX = 64
_S_PER_NS = 1e-9


class ClockedLoop(asyncio.SelectorEventLoop):
    """The usual loop; it reads the monotonic clock without a Python function of its own."""

    time = staticmethod(time.monotonic)


class Timekeeper:
    """Seconds since the epoch that never go backwards within one process, nor stand still.

    A clock that is set back is not followed, or the order of arrival would contradict the times of
    arrival; here time goes on by the monotonic clock until the other has caught up, or every timer
    would stop meanwhile.
    """

    def __init__(self) -> None:
        """Begin at the present."""
        self._latest = time.time()
        self._monotonic = time.monotonic()

    def now(self) -> float:
        """The present, in seconds since the epoch."""
        monotonic = time.monotonic()
        self._latest = max(self._latest + monotonic - self._monotonic, time.time())
        self._monotonic = monotonic
        return self._latest


class RunDelay:
    """The time for which a thread was ready to run while others had the processor, by the kernel.

    Always 0 where the kernel does not count it.
    """

    def __init__(self) -> None:
        """Open the account of the thread that calls, which will mostly be the one that asks."""
        self._thread: int | None = None
        self._descriptor = -1
        keep_from_children(self)
        self.seconds()

    def seconds(self) -> float:
        """The delay of the calling thread since its start."""
        thread = threading.get_ident()
        if thread != self._thread:
            self.close()
            self._thread = thread
            try:
                self._descriptor = os.open(_DELAYS, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return 0.0
        if self._descriptor < 0:
            return 0.0
        return int(os.pread(self._descriptor, _DELAY_BYTES_MAX, 0).split()[1]) * _S_PER_NS

    def fileno(self) -> int:
        """The descriptor of the kernel's account; below 0 if it is not open."""
        return self._descriptor

    def close(self) -> None:
        """Give the descriptor back; a thread that asks again opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._thread, self._descriptor = None, -1


def new_manager_key() -> bytes:
    """Draw the private key of a new queue manager."""
    return secrets.token_bytes(KEY_BYTES)


def draw_jitter() -> float:
    """The part of a wait to wait, 0.5 to 1, so that those who wait do not all come at once."""
    return 0.5 + uuid.uuid4().int / (1 << 129)


def new_incarnation() -> int:
    """Draw a number that no copy of the store draws at its start; never 0."""
    return (uuid.uuid4().int & 0xFFFF_FFFF) or 1
