"""The operations that wait: the one difference between the blocking and the awaited API.

Every operation is written once, in `awaited/`, as a coroutine over a `Runtime`. `blocking` gives a
runtime in which no coroutine ever suspends, because whatever waits blocks its thread; `loops` one
in which asyncio waits. The wire is the same, and so is every decision.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, ClassVar, Protocol, TypeVar

from dray.client.connections.connection import Connection
from dray.model.callers import Credential
from dray.model.limits import KIB

_WORTH_A_THREAD_BYTES = 256 * KIB
"""Hashing or checking less takes about as long as handing it over."""
_Result = TypeVar("_Result")


class Dialer(Protocol):
    """Connects to a queue manager; its text names the queue manager in sentences."""

    def dial(self) -> socket.socket:
        """Give a connected, blocking stream socket; raises `ConnectionLost`."""
        ...

    def credential(self) -> Credential:
        """Say who connects; raises `InvalidConfiguration`."""
        ...


class Runtime(ABC):
    """The ways to wait for a connection, a lock, a thread."""

    cancellable: ClassVar[bool]
    """Whether giving up a single call is usual, so that it must cost neither message nor
    connection."""

    @abstractmethod
    async def connect(self, dialer: Dialer) -> Connection:
        """Give a connection on which nothing was said yet; raises `ConnectionLost`."""

    @abstractmethod
    def lock(self) -> AbstractAsyncContextManager[object]:
        """Give a lock."""

    @abstractmethod
    async def offload(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Run what may wait for a disk or take long; it ends before this does, cancelled or not."""

    @abstractmethod
    async def result(self, future: Future[_Result]) -> _Result:
        """Wait for what a thread is doing; it ends before this does, cancelled or not."""

    @abstractmethod
    async def arrives(self, future: Future[None], wait_s: float | None = None) -> bool:
        """Wait for what may never come; whether it came. Only the caller waits for the future."""

    @abstractmethod
    async def to_its_end(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Await what cannot be undone; a cancellation takes effect behind it."""

    @abstractmethod
    async def together(
        self, coroutines: Sequence[Coroutine[Any, Any, _Result]], give_up: Callable[[], object]
    ) -> list[_Result]:
        """Await coroutines side by side; all have ended before this does.

        If one raises, or this is interrupted, `give_up` is called, which has to end the others.
        """

    @abstractmethod
    async def let_others(self) -> None:
        """Let whatever else is ready have its turn, where all share one thread."""

    async def work(
        self, size: int, function: Callable[..., _Result], *arguments: object
    ) -> _Result:
        """Compute over `size` bytes, elsewhere if they are many."""
        if size < _WORTH_A_THREAD_BYTES:
            return function(*arguments)
        return await self.offload(function, *arguments)

    @asynccontextmanager
    async def within(self, blocking: AbstractContextManager[_Result]) -> AsyncIterator[_Result]:
        """Enter and leave a context that may wait for a disk."""
        entered = await self.offload(blocking.__enter__)
        try:
            yield entered
        except BaseException as error:
            if not await self.offload(blocking.__exit__, type(error), error, error.__traceback__):
                raise
        else:
            await self.offload(blocking.__exit__, None, None, None)
