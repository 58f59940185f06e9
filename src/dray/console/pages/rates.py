"""Rates of all queues over the last 15 minutes: the console looks every five seconds.

A queue costs 1.5 KB. Rates begin with the console.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from dray.console.console import Console
from dray.errors import DrayError
from dray.model.queue import QueueInfo
from dray.model.rates import Rates, rates_between, span_of_looks

EVERY_S: Final = 5.0
"""Fine enough for a line of 15 minutes, and rare enough to cost the queue manager nothing."""
SAMPLES: Final = 180
"""15 minutes of them."""
_POINTS: Final = 60
WIDTH, HEIGHT = 120, 24
_NONE: Final = Rates(0.0, 0.0)


class Chart(NamedTuple):
    """Two lines as paths of SVG, and the rates now. Paths are empty where nothing moved."""

    arriving: str
    leaving: str
    now: Rates


class _Line:
    """The rates of one queue, the newest last."""

    def __init__(self, info: QueueInfo) -> None:
        self.seen = info
        self.rates = (array("f"), array("f"))

    def look(self, info: QueueInfo, seconds: float) -> None:
        if info.born != self.seen.born:
            self.__init__(info)  # type: ignore[misc]
            return
        for line, rate in zip(self.rates, rates_between(self.seen, info, seconds), strict=True):
            line.append(rate)
            del line[:-SAMPLES]
        self.seen = info


class QueueRates:
    """Looks at all queues again and again, by the console's own connection."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._looked = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self, console: Console) -> None:
        """Look from now on."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(console))

    def look(self, infos: list[QueueInfo], now: float, uptime: float = inf) -> None:
        """Take in a look at all queues; a queue that is gone is forgotten.

        `uptime` is how long the queue manager has run.
        """
        seconds, lines = span_of_looks(now - self._looked, uptime), {}
        for info in infos:
            line = self._lines.get(info.name)
            if line is None:
                line = _Line(info)
            else:
                line.look(info, seconds)
            lines[info.name] = line
        self._lines, self._looked = lines, now

    def now(self, name: str) -> Rates:
        """The last rates of a queue."""
        line = self._lines.get(name)
        if line is None or not line.rates[0]:
            return _NONE
        return Rates(line.rates[0][-1], line.rates[1][-1])

    def chart(self, name: str) -> Chart:
        """The rates of a queue as two lines on one scale."""
        line = self._lines.get(name)
        if line is None:
            return Chart("", "", _NONE)
        arriving, leaving = (_points(each) for each in line.rates)
        top = max([*arriving, *leaving], default=0.0)
        if not top:
            return Chart("", "", self.now(name))
        return Chart(_path(arriving, top), _path(leaving, top), self.now(name))

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, console: Console) -> None:
        while True:
            # Without a connection, or without the right to see them, there is a gap in the lines.
            with suppress(DrayError):
                manager = await console.callers.manager()
                # Another queue manager may answer at this address since the last look.
                info = await manager.info()
                console.name = info.name
                self.look(await manager.queues(), time.monotonic(), info.uptime)
            await asyncio.sleep(EVERY_S)


def _points(line: array[float]) -> list[float]:
    """The line with fewer points: of each few the highest, aligned to the right."""
    step = SAMPLES // _POINTS
    padded = [0.0] * (SAMPLES - len(line)) + list(line)
    return [max(padded[at : at + step]) for at in range(0, SAMPLES, step)]


def _path(points: list[float], top: float) -> str:
    across = WIDTH / (len(points) - 1)
    places = (
        f"{at * across:.0f},{HEIGHT - 1 - each / top * (HEIGHT - 2):.1f}"
        for at, each in enumerate(points)
    )
    return "M" + " ".join(places)
