"""An event loop that lends its turn: while it waits, another thread may act in its place.

A lock says whose turn it is. The loop's thread holds it except while it waits for sockets and
timers. A thread that holds the lock may call whatever runs in the loop: it schedules callbacks,
sets timers and watches sockets as the loop's own thread does. The loop is woken when the borrower
gives the lock back, and only if something would otherwise come too late.

The lock is fair between the loop and all borrowers: nobody takes it twice while another one waits.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

from dray.daemon.timekeeper import ClockedLoop

_Arguments = TypeVarTuple("_Arguments")


class TurnLock:
    """Held by the thread whose turn it is."""

    def __init__(self) -> None:
        """Begin with nobody's turn."""
        self._entrance = threading.Lock()
        self._lock = threading.Lock()
        self.holder = 0
        """The thread whose turn it is, or was last."""

    def acquire(self) -> None:
        """Wait for the turn; whoever came before has it before."""
        self._entrance.acquire()
        try:
            self._lock.acquire()
        finally:
            self._entrance.release()
        self.holder = threading.get_ident()

    def release(self) -> None:
        """End the turn."""
        self.holder = 0
        self._lock.release()

    @property
    def is_mine(self) -> bool:
        """Whether it is the calling thread's turn."""
        return self.holder == threading.get_ident()


class LentLoop(ClockedLoop):
    """Runs in one thread; others borrow its turn."""

    def __init__(self) -> None:
        """Begin with the turn of the calling thread, which runs the loop."""
        self.turn = TurnLock()
        """Held by whoever has the turn; `give_back` releases it for a borrower."""
        self.turn.acquire()
        self._waiting = _LendingSelector(self.turn)
        self._late = False
        super().__init__(self._waiting)
        self._waiting.time = self.time

    def give_back(self) -> None:
        """End a borrower's turn; wake the loop if it would sleep past something."""
        late, self._late = self._late, False
        self.turn.release()
        if late and not self.is_closed():
            self.call_soon_threadsafe(_nothing)

    def call_soon(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See asyncio; a borrower may call it as well."""
        self._late = self._late or self._waiting.sleeps
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio; a borrower may call it as well."""
        if self._waiting.sleeps and when < self._waiting.until:
            self._late = True
        return super().call_at(when, callback, *args, context=context)


class _LendingSelector(selectors.DefaultSelector):
    """Gives the turn away while it waits."""

    def __init__(self, turn: TurnLock) -> None:
        super().__init__()
        self._turn = turn
        self.sleeps = False
        """Whether the loop's thread waits, so that another one may have the turn."""
        self.until = math.inf
        self.time: Callable[[], float] = float

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.until = math.inf if timeout is None else self.time() + timeout
        self.sleeps = True
        self._turn.release()
        try:
            ready = super().select(timeout)
        finally:
            self._turn.acquire()
            self.sleeps = False
        # A borrower may have stopped watching some of them meanwhile, or watch for something else.
        watched = self.get_map()
        found = [(watched[key.fd], mask) for key, mask in ready if key.fd in watched]
        return [(key, mask & key.events) for key, mask in found]


def _nothing() -> None:
    """Wake the loop."""
