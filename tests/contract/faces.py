"""Both faces in one shape, so that every promise is tested through each.

The awaited one runs in an event loop of its own, in a thread, and everything it gives is wrapped
so that a test can call it as it calls the blocking one.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor

import dray
import dray.aio
from dray.client.awaited.large_message_file import LargeMessageFile
from dray.client.connections.threads import run

_WRAPPED = (
    dray.aio.Manager,
    dray.aio.Queue,
    dray.aio.Transaction,
    dray.aio.LargeMessageQueue,
    dray.aio.LargeMessage,
    LargeMessageFile,
    dray.aio.Cursor,
    dray.aio.Offer,
    dray.aio.Incoming,
    dray.aio.RunningTransfer,
)
DEADLINE_S = 100
THREADS = 6


class BlockingFace:
    """`dray` as it is."""

    open = staticmethod(dray.open)
    connect = staticmethod(dray.connect)
    restore = staticmethod(dray.restore)
    LargeMessageQueue = dray.LargeMessageQueue
    Receiver = dray.Receiver

    def wait(self, awaitable):
        return run(awaitable)

    def close(self):
        """Nothing to end."""


class AwaitedFace:
    """`dray.aio`, called from outside of its loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(all_started())
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def open(self, path, **options):
        return self.wait(dray.aio.open(path, **options))

    def connect(self, url, **options):
        return self.wait(dray.aio.connect(url, **options))

    def restore(self, archive, path, **options):
        return self.wait(dray.aio.restore(archive, path, **options))

    def LargeMessageQueue(self, queue, **options):  # noqa: N802 - the name of the class
        return Outside(self, dray.aio.LargeMessageQueue(inside(queue), **options))

    def Receiver(self, queue, **options):  # noqa: N802 - the name of the class
        return OutsideReceiver(self, dray.aio.Receiver(inside(queue), **options))

    def wait(self, awaitable):
        """Await something in the loop; give what it gives, to be used from outside."""

        async def waited():
            return await awaitable

        future = asyncio.run_coroutine_threadsafe(waited(), self._loop)
        return self.outside(future.result(DEADLINE_S))

    def outside(self, value):
        if isinstance(value, _WRAPPED):
            return Outside(self, value)
        if isinstance(value, AsyncIterator):
            return self._iterate(value)
        if isinstance(value, Awaitable):
            return self.wait(value)
        return value

    def close(self):
        self.wait(self._loop.shutdown_asyncgens())
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    def _iterate(self, pieces) -> Iterator[object]:
        try:
            while True:
                try:
                    yield self.wait(anext(pieces))
                except StopAsyncIteration:
                    return
        finally:
            self.wait(pieces.aclose())


class Outside:
    """One object of `dray.aio`, used from outside of its loop."""

    def __init__(self, face, wrapped) -> None:
        self._face = face
        self._wrapped = wrapped

    def __repr__(self):
        return repr(self._wrapped)

    def __getattr__(self, name):
        found = getattr(self._wrapped, name)
        if not inspect.ismethod(found):
            return self._face.outside(found)

        def call(*arguments, **named):
            arguments = [inside(each) for each in arguments]
            named = {key: inside(value) for key, value in named.items()}
            return self._face.outside(found(*arguments, **named))

        return call

    def __iter__(self):
        return self._face.outside(aiter(self._wrapped))

    def __enter__(self):
        return self._face.wait(self._wrapped.__aenter__())

    def __exit__(self, kind, error, trace):
        self._face.wait(self._wrapped.__aexit__(kind, error, trace))


class OutsideReceiver(Outside):
    """A receiver whose handler calls from outside, too."""

    def handle_next(self, handler, timeout=None):
        async def handle(message, transaction):
            message = self._face.outside(message)
            await asyncio.to_thread(handler, message, Outside(self._face, transaction))

        handled = self._face.wait(self._wrapped.handle_next(handle, timeout))
        return handled._replace(message=self._face.outside(handled.message))

    def run(self, handler, stop, **options):
        async def handle(message, transaction):
            message = self._face.outside(message)
            await asyncio.to_thread(handler, message, Outside(self._face, transaction))

        handle = handle if callable(handler) else handler
        return self._face.wait(self._wrapped.run(handle, inside(stop), **options))


def all_started() -> ThreadPoolExecutor:
    """Threads that all run from the start, so that no test is the one that started one."""
    executor = ThreadPoolExecutor(THREADS)
    together = threading.Barrier(THREADS, timeout=DEADLINE_S)
    for waiting in [executor.submit(together.wait) for _ in range(THREADS)]:
        waiting.result(DEADLINE_S)
    return executor


def inside(value):
    """What `dray.aio` itself gave."""
    return value._wrapped if isinstance(value, Outside) else value
