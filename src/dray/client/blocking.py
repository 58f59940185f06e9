"""The blocking runtime, and how blocking faces are made of awaited ones.

Nothing that is awaited here ever suspends: sockets, locks and disks block the calling thread
instead. A coroutine therefore runs to its end in one step, and `run` is a plain call.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from concurrent import futures
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from dray.client.runtime import Dialer, Runtime
from dray.client.thread_connection import ThreadConnection

if TYPE_CHECKING:
    from types import TracebackType

_PIECE_S = 3600.0
_Arguments = ParamSpec("_Arguments")
_Awaited = TypeVar("_Awaited")
_Face = TypeVar("_Face")
_Result = TypeVar("_Result")


def run(awaitable: Awaitable[_Result]) -> _Result:
    """Take what was written to be awaited to its end."""
    try:
        awaitable.__await__().send(None)
    except StopIteration as stop:
        result: _Result = stop.value
        return result
    raise AssertionError("a blocking runtime never suspends")


def iterate(pieces: AsyncGenerator[_Result, None]) -> Iterator[_Result]:
    """Iterate over what was written to be iterated over with `async for`."""
    try:
        while True:
            try:
                yield run(anext(pieces))
            except StopAsyncIteration:
                return
    finally:
        run(pieces.aclose())


class Face(Generic[_Awaited]):
    """A blocking face of something awaited."""

    def __init__(self, awaited: _Awaited) -> None:
        """Take what does the work."""
        self.awaited = awaited

    def __repr__(self) -> str:
        return repr(self.awaited)


def blocking(
    method: Callable[Concatenate[_Awaited, _Arguments], Awaitable[_Result]],
) -> Callable[Concatenate[Face[_Awaited], _Arguments], _Result]:
    """Make the blocking method of a face from the awaited one."""

    @functools.wraps(method)
    def call(
        self: Face[_Awaited], /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        return run(method(self.awaited, *arguments, **named))

    return call


def blocking_as(
    face: Callable[[_Result], _Face],
    method: Callable[Concatenate[_Awaited, _Arguments], Awaitable[_Result]],
) -> Callable[Concatenate[Face[_Awaited], _Arguments], _Face]:
    """Make the blocking method of a face; what it gives gets a face of its own."""

    @functools.wraps(method)
    def call(
        self: Face[_Awaited], /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Face:
        return face(run(method(self.awaited, *arguments, **named)))

    return call


class BlockingRuntime(Runtime):
    """Waits by blocking the calling thread."""

    cancellable = False

    async def connect(self, dialer: Dialer) -> ThreadConnection:
        """See `Runtime`."""
        return ThreadConnection(dialer.dial(), str(dialer))

    def lock(self) -> _Lock:
        """See `Runtime`."""
        return _Lock()

    async def offload(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call it here: the caller waits anyway."""
        return function(*arguments)

    async def result(self, future: Future[_Result]) -> _Result:
        """See `Runtime`."""
        return future.result()

    async def arrives(self, future: Future[None], wait_s: float | None = None) -> bool:
        """See `Runtime`."""
        if wait_s is None:
            # In pieces, so that an interrupt is heard.
            while not futures.wait((future,), _PIECE_S).done:
                continue
            return True
        return bool(futures.wait((future,), wait_s).done)

    async def to_its_end(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """See `Runtime`."""
        return await coroutine

    async def let_others(self) -> None:
        """See `Runtime`; other threads have theirs in any case."""


class _Lock:
    """A lock of threads in the shape of one that is awaited."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()
