"""The runtime of threads: whatever waits blocks its thread.

Nothing that is awaited here ever suspends: sockets, locks and disks block the calling thread
instead. A coroutine therefore runs to its end in one step, and `run` is a plain call.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from dray.client.connections.connection import Connection
from dray.client.connections.runtime import Dialer, Runtime
from dray.client.connections.thread_connection import ThreadConnection
from dray.errors import Misuse

_PIECE_S = 3600.0
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


class BlockingRuntime(Runtime):
    """Waits by blocking the calling thread."""

    cancellable = False

    async def connect(self, dialer: Dialer) -> Connection:
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

    async def together(
        self, coroutines: Sequence[Coroutine[Any, Any, _Result]], give_up: Callable[[], object]
    ) -> list[_Result]:
        """See `Runtime`; a single one runs in the calling thread."""
        if len(coroutines) == 1:
            return [await coroutines[0]]
        with futures.ThreadPoolExecutor(len(coroutines), "dray-worker") as workers:
            running = [workers.submit(run, each) for each in coroutines]
            try:
                futures.wait(running, return_when=futures.FIRST_EXCEPTION)
            finally:
                if not all(each.done() for each in running):
                    give_up()
        return [each.result() for each in running]

    async def let_others(self) -> None:
        """See `Runtime`; other threads have theirs in any case."""


class _Lock:
    """A lock of threads in the shape of one that is awaited.

    A thread that has it already is refused: a signal handler or a finalizer would wait for itself.
    An exception of a signal handler can end a block before `__aexit__` runs, so the lock knows the
    frame of its block: once that is gone, the thread has the lock for its next block.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._block: FrameType | None = None

    async def __aenter__(self) -> None:
        me, block = threading.get_ident(), sys._getframe(1)  # noqa: SLF001 - `inspect` loads long
        if self._owner != me:
            try:
                self._lock.acquire()
                self._owner = me
            except BaseException:
                # An interrupt comes before the lock is taken, or after it.
                with suppress(RuntimeError):
                    self._lock.release()
                raise
        elif any(each is self._block for each in _frames_from(block)):
            raise Misuse(
                "a signal handler or a finalizer interrupted a call with another one that waits for"
                " it; make the call in another thread"
            )
        self._block = block

    async def __aexit__(self, *_: object) -> None:
        # Interrupted behind its release, it is called again.
        if self._owner == threading.get_ident():
            self._owner = self._block = None
            self._lock.release()


def _frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
