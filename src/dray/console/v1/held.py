"""Leases and transactions that a caller holds open, each with a time when it ends.

    open     used or renewed      open      the time begins anew
    open     settled              settled   remembered, so that a repeated request is told so
    open     aborted, timed out   aborted   the queue manager has everything back
    ended    forgotten            (none)    the oldest first

While a request works with it, it does not end by time.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import Final

from dray.console.alarms import Alarms
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.limits import ENDED_MAX, LEASE_S, SETTLE_S
from dray.errors import DrayError, InDoubt

_ID_BYTES: Final = 16


class Ended(StrEnum):
    """The end of something that was held."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed-out"
    UNKNOWN = "in-doubt"


class Holding(ABC):
    """Something that is held: it has an id, and can be given up."""

    def __init__(self, *, timed: bool = True) -> None:
        self.id = secrets.token_urlsafe(_ID_BYTES)
        """Nobody can guess it."""
        self.uses = 0
        self.timed = timed
        """Whether it ends by time, and not with something else."""

    @abstractmethod
    async def abort(self) -> None:
        """Give everything back; it never raises for a connection that is lost."""


class Holdings:
    """All of one kind that one caller holds."""

    def __init__(self, what: str) -> None:
        """Begin with none; `what` is the word for one."""
        self.what = what
        self.open: dict[str, Holding] = {}
        self._ended: OrderedDict[str, Ended] = OrderedDict()
        self._alarms = Alarms()
        self._freed = asyncio.Event()
        self._under_way: dict[str, asyncio.Event] = {}

    def add(self, held: Holding) -> None:
        """Hold one more."""
        self.open[held.id] = held
        self.renew(held)

    def renew(self, held: Holding) -> None:
        """Let the time begin anew."""
        if held.timed and held.id in self.open:
            self._alarms.set(held.id, LEASE_S, partial(self._time_over, held))

    def find(self, name: str) -> Holding:
        """One by its id; raises `HttpRefusal`, 404 or 410 for one that has ended."""
        held = self.open.get(name)
        if held is not None:
            return held
        end = self._ended.get(name)
        if end is None:
            raise HttpRefusal(
                404, f"{self.what}-not-found", f"this caller has no such {self.what}: it was"
                " forgotten, or the server was started anew; ask /v1/outcome how its transaction"
                " ended",
            )  # fmt: skip
        told = f"it was {end}"
        if end is Ended.TIMED_OUT:
            told = f"nobody renewed it for {LEASE_S:g} s"
        if end is Ended.UNKNOWN:
            told = "the answer of the queue manager was lost; ask /v1/outcome for its transaction"
        raise HttpRefusal(
            410, f"{self.what}-ended", f"the {self.what} has ended: {told}; begin another one"
        )

    async def end_of(self, name: str) -> Ended | None:
        """The end of one, if it has ended; waits for an end that is under way."""
        under_way = self._under_way.get(name)
        if under_way is not None:
            await under_way.wait()
        return self._ended.get(name)

    @asynccontextmanager
    async def used(self, held: Holding) -> AsyncIterator[None]:
        """Work with one: it does not end by time meanwhile, and has all of its time afterwards."""
        held.uses += 1
        try:
            yield
        finally:
            held.uses -= 1
            self.renew(held)
            freed, self._freed = self._freed, asyncio.Event()
            freed.set()

    async def unused(self, held: Holding) -> None:
        """Wait until no request works with it; raises `HttpRefusal` if one does for long.

        A client that has read the last byte of a body is quicker than the end of that answer.
        """
        try:
            async with asyncio.timeout(SETTLE_S):
                while held.uses:
                    await self._freed.wait()
        except TimeoutError as error:
            raise HttpRefusal(
                409, "in-use", f"another request works with the {self.what}; wait for its end"
            ) from error

    async def end(
        self, held: Holding, end: Ended, by: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """End one, by a commit or else by aborting it; other requests wait for the outcome."""
        if not self._let_go(held):
            return
        done = self._under_way[held.id] = asyncio.Event()
        outcome = Ended.UNKNOWN
        try:
            await (held.abort if by is None else by)()
            outcome = end
        except InDoubt:
            raise
        except DrayError:
            outcome = Ended.ABORTED
            raise
        finally:
            self._note(held.id, outcome)
            del self._under_way[held.id]
            done.set()

    def forget(self, held: Holding, end: Ended) -> None:
        """Note how one has ended that something else has ended."""
        if self._let_go(held):
            self._note(held.id, end)

    def _let_go(self, held: Holding) -> bool:
        """Hold one no longer; whether it was held."""
        self._alarms.call_off(held.id)
        return self.open.pop(held.id, None) is not None

    def _note(self, name: str, end: Ended) -> None:
        self._ended[name] = end
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    async def close(self) -> None:
        """Abort all of them."""
        for held in list(self.open.values()):
            await self.end(held, Ended.ABORTED)
        await self._alarms.close()

    async def _time_over(self, held: Holding) -> None:
        # A request that works with it renews it afterwards.
        if not held.uses:
            await self.end(held, Ended.TIMED_OUT)
