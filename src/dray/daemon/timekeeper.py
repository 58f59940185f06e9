"""The one place that reads the clock and draws randomness, so that all else can be replayed."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid

from dray.delivery.keys import KEY_BYTES


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


def new_manager_key() -> bytes:
    """Draw the private key of a new queue manager."""
    return secrets.token_bytes(KEY_BYTES)


def draw_jitter() -> float:
    """How much of a wait to wait, 0.5 to 1, so that not all who wait come at once."""
    return 0.5 + uuid.uuid4().int / (1 << 129)


def new_incarnation() -> int:
    """Draw a number that no copy of the store draws at its start; never 0."""
    return (uuid.uuid4().int & 0xFFFF_FFFF) or 1
