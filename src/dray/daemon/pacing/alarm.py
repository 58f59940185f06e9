"""The timer that wakes the manager at its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.daemon.limits import TICK_S_AFTER_FAILURE, TICK_S_MAX, TICK_S_MIN
from dray.daemon.timekeeper import Timekeeper


class Alarm:
    """Goes off at the first deadline that was set since it went off last."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Timekeeper, gone_off: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._gone_off = gone_off
        self._timer: asyncio.TimerHandle | None = None
        self._at: float | None = None
        self._not_before = 0.0
        self._stopped = False

    def set(self, at: float | None) -> None:
        """Go off at a time of the clock, or before; None changes nothing.

        A timer that is set for an earlier time stays: most deadlines are over before they come, and
        whoever hears the alarm sets it again.
        """
        if at is None or (self._at is not None and self._at <= at) or self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = min(max(at - self._clock.now(), TICK_S_MIN), TICK_S_MAX)
        delay = max(delay, self._not_before - self._loop.time())
        self._at = at
        self._timer = self._loop.call_later(delay, self._go_off)

    def pause(self) -> None:
        """Stay silent for a moment: the manager could not handle the last one."""
        self._not_before = self._loop.time() + TICK_S_AFTER_FAILURE

    def stop(self) -> None:
        """Never go off again."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _go_off(self) -> None:
        self._timer = self._at = None
        self._gone_off()
