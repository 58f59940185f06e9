"""Answers of a queue manager that many pages show: asked for once, however many browsers look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from dray.aio import Manager

_Answer = TypeVar("_Answer")
_TIMES: Final = 10.0
"""A question that takes long is asked less often: it costs a tenth of the time at most."""


class _Question:
    """One question at one connection."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.until = 0.0
        self.answer: object = None


class Shared:
    """The last answers, by connection and question."""

    def __init__(self) -> None:
        """Begin without any."""
        self._asked: WeakKeyDictionary[Manager, dict[str, _Question]] = WeakKeyDictionary()

    async def get(
        self,
        manager: Manager,
        question: str,
        ask: Callable[[], Awaitable[_Answer]],
        seconds: float = 1.0,
    ) -> _Answer:
        """The answer, at most so many seconds old, or ten times as old as asking takes."""
        asked = self._asked.setdefault(manager, {}).setdefault(question, _Question())
        async with asked.lock:
            began = time.monotonic()
            if began >= asked.until:
                asked.answer = await ask()
                took = time.monotonic() - began
                asked.until = time.monotonic() + max(seconds, _TIMES * took)
            return asked.answer  # type: ignore[return-value]

    def forget(self, manager: Manager) -> None:
        """Ask anew: something was changed."""
        self._asked.pop(manager, None)

    async def close(self) -> None:
        """Nothing is open."""
