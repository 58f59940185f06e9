"""The board on which the thread of a transfer states its progress; others wait for news there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from dray.errors import DrayError
from dray.model.transfer import TransferStatus

Told = Callable[[TransferStatus], object]


class Board:
    """The latest status of the whole and of each consumer. Any thread may look at it."""

    def __init__(self, status: TransferStatus, told: Told | None = None) -> None:
        """Begin with a status of the whole; `told` hears changes, in the thread that posts them."""
        self._told = told
        self._lock = threading.Lock()
        self._whole = status
        self._consumers: dict[str, tuple[int, TransferStatus]] = {}
        self._version = 0
        self._whole_version = 0
        self._waiting: list[Future[None]] = []
        self._ending: list[Future[None]] = []
        self.error: DrayError | None = None
        self.over = False
        """Whether nothing will change any more."""

    @property
    def status(self) -> TransferStatus:
        """The whole."""
        return self._whole

    @property
    def consumers(self) -> list[TransferStatus]:
        """Each consumer."""
        with self._lock:
            return [status for _, status in self._consumers.values()]

    def post(self, whole: TransferStatus, consumers: list[TransferStatus]) -> None:
        """Say how it stands; nobody is woken if that is no news."""
        with self._lock:
            before = self._version
            if whole != self._whole:
                self._version += 1
                self._whole, self._whole_version = whole, self._version
            for status in consumers:
                known = self._consumers.get(status.consumer_id)
                if known is None or known[1] != status:
                    self._version += 1
                    self._consumers[status.consumer_id] = (self._version, status)
            woken = self._take_waiting() if self._version != before else []
        _wake(woken)
        if self._told is not None:
            for status in self.since(before)[1]:
                self._told(status)

    def end(self, error: DrayError | None) -> None:
        """Say that it is over."""
        with self._lock:
            if self.over:
                return
            self.over, self.error = True, error
            self._version += 1
            woken = self._take_waiting()
            woken += self._ending
        _wake(woken)

    def since(self, version: int) -> tuple[int, list[TransferStatus]]:
        """The version now, and what changed after an older one: consumers first, or the whole."""
        with self._lock:
            changed = sorted(
                (each for each in self._consumers.values() if each[0] > version),
                key=lambda each: each[0],
            )
            found = [status for _, status in changed]
            if not found and self._whole_version > version:
                found = [self._whole]
            return self._version, found

    def news(self, version: int) -> Future[None]:
        """Done when there is something newer than that version."""
        future: Future[None] = Future()
        with self._lock:
            if self._version > version or self.over:
                future.set_result(None)
            else:
                self._waiting = [each for each in self._waiting if not each.done()]
                self._waiting.append(future)
        return future

    def ending(self) -> Future[None]:
        """Done when it is over."""
        future: Future[None] = Future()
        with self._lock:
            if self.over:
                future.set_result(None)
            else:
                self._ending = [each for each in self._ending if not each.done()]
                self._ending.append(future)
        return future

    def _take_waiting(self) -> list[Future[None]]:
        waiting, self._waiting = self._waiting, []
        return waiting


class Rate:
    """Bytes a second, lately: over the last few looks."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        self._last = 0.0

    def of(self, done: int, *, moving: bool) -> float:
        """The rate, now that `done` bytes are there; when it is over, the last one."""
        if not moving:
            return self._last
        self._seen = [*self._seen[-19:], (time.monotonic(), done)]
        (began, before), (now, _) = self._seen[0], self._seen[-1]
        self._last = max(0.0, (done - before) / (now - began)) if now > began else 0.0
        return self._last


def settle(future: Future[None]) -> None:
    """Let whoever waits go on, unless nobody waits any more or it was done before."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_result(None)


def _wake(waiting: list[Future[None]]) -> None:
    for future in waiting:
        settle(future)
