"""Alarms: what is done when something was left alone for a while, one alarm for each name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Act = Callable[[], Coroutine[Any, Any, None]]


class Alarms:
    """Each alarm goes off once, unless it is set again or called off before."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._acting: set[asyncio.Task[None]] = set()

    def set(self, name: str, after_s: float, act: Act) -> None:
        """Act after so many seconds from now, instead of what was set for the name before."""
        self.call_off(name)
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(after_s, self._go_off, name, act)

    def call_off(self, name: str) -> None:
        """Do nothing for the name; harmless when there is no alarm for it."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def close(self) -> None:
        """Call off all alarms, and wait for what those do that went off."""
        for name in list(self._timers):
            self.call_off(name)
        await asyncio.gather(*self._acting)

    def _go_off(self, name: str, act: Act) -> None:
        del self._timers[name]
        acting = asyncio.get_running_loop().create_task(act())
        self._acting.add(acting)
        acting.add_done_callback(self._acting.discard)
