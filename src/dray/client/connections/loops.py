"""The asyncio runtime.

Cancelling a call must cost neither a message nor the connection, which other tasks share: what was
only asked is left behind and its answer dropped, what was taken is given back by an abort, and
what cannot be undone is awaited to its end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from dray.client.connections.loop_connection import LoopConnection
from dray.client.connections.runtime import Dialer, Runtime

_Result = TypeVar("_Result")


class LoopRuntime(Runtime):
    """Waits in the running event loop; files and digests go to its threads."""

    cancellable = True

    async def connect(self, dialer: Dialer) -> LoopConnection:
        """See `Runtime`."""
        dialling = _to_its_end(asyncio.to_thread(dialer.dial))
        try:
            sock = await asyncio.shield(dialling)
        except asyncio.CancelledError:
            dialling.add_done_callback(_hang_up)
            raise
        return LoopConnection(sock, str(dialer))

    def lock(self) -> asyncio.Lock:
        """See `Runtime`."""
        return asyncio.Lock()

    async def offload(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """See `Runtime`."""
        return await _ended(_to_its_end(asyncio.to_thread(function, *arguments)))

    async def result(self, future: Future[_Result]) -> _Result:
        """See `Runtime`."""
        return await _ended(asyncio.wrap_future(future))

    async def arrives(self, future: Future[None], wait_s: float | None = None) -> bool:
        """See `Runtime`."""
        waiting = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait((waiting,), timeout=wait_s)
        finally:
            # Nobody else waits for this one.
            waiting.cancel()
        return bool(done)

    async def to_its_end(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """See `Runtime`."""
        task = _to_its_end(coroutine)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await _wait_out(task)
        _cancel_soon()
        return task.result()

    async def together(
        self, coroutines: Sequence[Coroutine[Any, Any, _Result]], give_up: Callable[[], object]
    ) -> list[_Result]:
        """See `Runtime`."""
        running = [asyncio.ensure_future(each) for each in coroutines]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            for each in running:
                each.cancel()
            raise
        finally:
            if not all(each.done() for each in running):
                give_up()
            for each in running:
                await _wait_out(each)
        return [each.result() for each in running]

    async def let_others(self) -> None:
        """See `Runtime`."""
        await asyncio.sleep(0)


class _ToItsEnd(asyncio.Task[_Result]):
    """A task that goes on when all tasks are cancelled, as `asyncio.run` does at its end."""

    def cancel(self, msg: object = None) -> bool:
        """Refuse: whoever waits for this task is cancelled behind it."""
        del msg
        return False


def _to_its_end(coroutine: Coroutine[Any, Any, _Result]) -> _ToItsEnd[_Result]:
    return _ToItsEnd(coroutine, loop=asyncio.get_running_loop())


async def _ended(future: asyncio.Future[_Result]) -> _Result:
    """Wait for a thread's work, to its end also when cancelled: it uses our memory and files."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await _wait_out(future)
        if not future.cancelled():
            # Looked at, so that nobody reports it as never retrieved.
            future.exception()
        raise


async def _wait_out(future: asyncio.Future[Any]) -> None:
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue


def _cancel_soon() -> None:
    """Deliver a cancellation again where the task waits next, unless it was a timeout's by then.

    `asyncio.timeout` counts down the cancellation that it asked for when its block is left; a
    block that was left with a message in hand was in time.
    """
    task = asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        if task.cancelling():
            task.uncancel()
            task.cancel()

    asyncio.get_running_loop().call_soon(cancel)


def _hang_up(dialling: asyncio.Future[socket.socket]) -> None:
    if not dialling.cancelled() and dialling.exception() is None:
        dialling.result().close()
