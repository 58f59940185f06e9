"""A queue manager inside somebody else's process: a thread of its own, and calls from others.

The thread runs the loop: timers, other managers, callers at an address, programs with a loop of
their own, which come over a socket pair. A blocking program calls in its own threads (`direct`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from dray.daemon.config import ServeOptions
from dray.daemon.direct.calls import CallDoor, DirectCalls
from dray.daemon.direct.lent_loop import LentLoop
from dray.daemon.direct.session import Take
from dray.daemon.pacing.time_slice import request_short_time_slice
from dray.daemon.server import Server
from dray.daemon.sockets.tuning import tune
from dray.errors import ConnectionLost
from dray.forks import check_process, is_here, keep_from_children, this_process
from dray.model.callers import OWNER

_BEGINS_S = 1.0
"""A thread that is to begin at all begins within this time."""


class EmbeddedDaemon:
    """Runs the same loop as `serve`. One per data directory, any number per process."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: ServeOptions | None = None,
        *,
        make: Callable[[asyncio.AbstractEventLoop, ServeOptions], Server] = Server,
    ) -> None:
        """Prepare to serve the data directory at `path`, whatever `options.data` says.

        `make` builds the server, for those who want another disk or manager in it.
        """
        data = os.fspath(path)
        self._options = (
            ServeOptions(data=data)
            if options is None
            else msgspec.structs.replace(options, data=data)
        )
        self._make = make
        self._path = data
        self._process = this_process()
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._loop: LentLoop | None = None
        self._door: CallDoor | None = None
        self._server: Server | None = None
        self._stop_wanted: asyncio.Event | None = None
        self._failure: BaseException | None = None

    @property
    def addresses(self) -> list[str]:
        """The other addresses at which it listens; empty unless the options say so."""
        return [] if self._server is None else self._server.addresses

    def start(self) -> None:
        """Lock, recover and serve. Raises here what stands in the way, such as `StoreLocked`."""
        assert self._thread is None, "an embedded daemon is started once"
        self._thread = threading.Thread(target=self._run, name="dray-daemon", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._server is None:
            self.stop()

    def connect(self) -> socket.socket:
        """Open a session; give the client's end, a blocking socket.

        Raises `ConnectionLost`, and `WrongProcess` in a process forked from the one that runs it.
        """
        self._check_process()
        ours, theirs = socket.socketpair()
        keep_from_children(theirs)
        tune(theirs)
        theirs.setblocking(True)
        server = self._server
        if server is None or not self._in_loop(server.adopt, ours, OWNER):
            ours.close()
            theirs.close()
            raise _stopped()
        return theirs

    def call_directly(self, take: Take, hung_up: Callable[[], None]) -> DirectCalls:
        """Open a session whose frames come by calls; answers go to `take`. Raises as `connect`."""
        self._check_process()
        door, server = self._door, self._server
        if door is None or server is None:
            raise _stopped()
        calls = DirectCalls.opened(door, lambda: server.adopt_direct(take, hung_up))
        if calls is None:
            raise _stopped()
        return calls

    def _check_process(self) -> None:
        check_process(
            self._process,
            f"the queue manager over {self._path}",
            "have it listen (`listen` or `dray serve`), and use dray.connect() in this process",
        )

    def stop(self) -> None:
        """Stop cleanly and wait for it; harmless when repeated. Raises what had gone wrong.

        After an interrupted `start` it waits for the recovery. Does nothing in a process forked
        from the one that runs it.
        """
        if self._thread is None or not is_here(self._process):
            return
        while not self._ready.wait(_BEGINS_S):
            if not self._thread.is_alive():
                # An interrupt came before the thread.
                return
        if self._stop_wanted is not None:
            self._in_loop(self._stop_wanted.set)
        self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _in_loop(self, act: Callable[..., object], *arguments: object) -> bool:
        """Have the loop do something; False if it has ended."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(act, *arguments)
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        request_short_time_slice()
        try:
            loop = self._loop = LentLoop()
        except BaseException as error:  # noqa: BLE001 - raised again by start
            self._failure = error
            self._ready.set()
            return
        try:
            # In debug mode asyncio lets no other thread borrow its turn.
            with asyncio.Runner(debug=False, loop_factory=lambda: loop) as runner:
                runner.run(self._serve(loop))
        except BaseException as error:  # noqa: BLE001 - raised again by start or stop
            self._failure = error
        finally:
            loop.turn.release()
            self._ready.set()

    async def _serve(self, loop: LentLoop) -> None:
        server = self._make(loop, self._options)
        self._stop_wanted = asyncio.Event()
        self._door = CallDoor(loop, server.turns)
        self._server = server
        self._ready.set()
        stop = loop.create_task(self._stop_wanted.wait())
        ends: set[asyncio.Future[Any]] = {server.ended, stop}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        await server.stop()
        if server.ended.done():
            raise server.ended.result()


def _stopped() -> ConnectionLost:
    return ConnectionLost("the queue manager in this process is stopped; open it again")
