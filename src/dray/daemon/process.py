"""A process that runs one queue manager: signals end it, and one line says that it is ready."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from dray.daemon.config import ServeOptions, check_named
from dray.daemon.logs import log_to_stderr
from dray.daemon.pacing.time_slice import request_short_time_slice
from dray.daemon.server import Server
from dray.daemon.sockets.descriptors import raise_limit
from dray.daemon.sockets.runtime_link import RuntimeLink
from dray.daemon.sockets.tuning import tune
from dray.daemon.timekeeper import ClockedLoop
from dray.errors import ConnectionLost, InvalidConfiguration
from dray.forks import keep_from_children
from dray.model.callers import OWNER, Credential
from dray.net.doors import runtime_link, socket_of
from dray.notify import ALIVE, READY, STOPPING, notify, watchdog_interval_s

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class OwnDoor:
    """Connects threads of this process to its queue manager, as its owner."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: Server) -> None:
        """Take a server, and the loop that runs it."""
        self._loop = loop
        self._server = server

    def __str__(self) -> str:
        return "the queue manager in this process"

    def dial(self) -> socket.socket:
        """Give one end of a socket pair; raises `ConnectionLost`."""
        ours, theirs = socket.socketpair()
        keep_from_children(theirs)
        tune(theirs)
        theirs.setblocking(True)
        try:
            self._loop.call_soon_threadsafe(self._server.adopt, ours, OWNER)
        except RuntimeError as error:
            ours.close()
            theirs.close()
            raise ConnectionLost("the queue manager in this process is stopped") from error
        return theirs

    def credential(self) -> Credential:
        """Give no token: this process is the owner of its queue manager."""
        return Credential()


class Companion(Protocol):
    """Runs beside the queue manager, in threads or a process of its own."""

    told: str
    """The ready line says this about it."""

    def follow(self) -> None:
        """Read its files again: the queue manager has read its configuration again."""

    def close(self) -> None:
        """End it."""


def serve(
    options: ServeOptions,
    again: Callable[[], ServeOptions] | None = None,
    *,
    beside: Sequence[Callable[[OwnDoor], Companion]] = (),
) -> int:
    """Run a queue manager until a signal ends it; give the exit status, 0.

    At SIGHUP it follows the options that `again` gives. Without an address it listens on the
    socket in the data directory, and links the account's runtime link to it. `beside` starts what
    runs beside it. An error that keeps it from starting or continuing is raised as a
    `DrayError`.
    """
    if not __debug__:
        raise InvalidConfiguration(
            "dray does not run with python -O: its assertions guard your messages"
        )
    check_named(options.data)
    own_socket = socket_of(options.data) if not (options.listen or options.socket) else None
    if own_socket is not None:
        options = msgspec.structs.replace(options, socket=os.fspath(own_socket))
    log_to_stderr(options.log_level)
    raise_limit()
    request_short_time_slice()
    with asyncio.Runner(loop_factory=ClockedLoop) as runner:
        return runner.run(_serve(options, again or (lambda: options), own_socket, beside))


async def _serve(
    options: ServeOptions,
    again: Callable[[], ServeOptions],
    own_socket: Path | None,
    beside: Sequence[Callable[[OwnDoor], Companion]],
) -> int:
    loop = asyncio.get_running_loop()
    missed: list[int] = []
    # Its default would end a recovery, and a service manager would call that a clean end.
    signal.signal(signal.SIGHUP, lambda number, _: missed.append(number))
    server = Server(loop, options)
    signalled: asyncio.Future[int] = loop.create_future()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _note, signalled, number)
    companions: list[Companion] = []
    loop.add_signal_handler(signal.SIGHUP, _follow, server, again, companions)
    companions += await _started(server, beside)
    if missed:
        _follow(server, again, companions)
    # Objects that stay until the end are passed over by the garbage collector: a full collection
    # takes 15 ms less.
    gc.collect()
    gc.freeze()
    link = None if own_socket is None else RuntimeLink(runtime_link(), own_socket)
    sys.stdout.write("; ".join([server.describe(), *(each.told for each in companions)]) + "\n")
    sys.stdout.flush()
    notify(READY)
    _say_alive(loop, watchdog_interval_s())
    ends: set[asyncio.Future[Any]] = {server.ended, signalled}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    notify(STOPPING)
    if link is not None:
        link.remove()
    await _close(companions)
    await server.stop()
    if server.ended.done():
        raise server.ended.result()
    return 0


def _follow(
    server: Server, again: Callable[[], ServeOptions], companions: Iterable[Companion]
) -> None:
    if server.follow(again):
        for each in companions:
            each.follow()


def _say_alive(loop: asyncio.AbstractEventLoop, every_s: float | None) -> None:
    """Tell the service manager from the loop itself that the loop still turns."""
    if every_s is not None:
        notify(ALIVE)
        loop.call_later(every_s, _say_alive, loop, every_s)


async def _started(
    server: Server, beside: Sequence[Callable[[OwnDoor], Companion]]
) -> list[Companion]:
    """Start what runs beside the server; if one of it fails, all of it stops."""
    companions: list[Companion] = []
    loop = asyncio.get_running_loop()
    door = OwnDoor(loop, server)
    try:
        for each in beside:
            # A process beside us connects before it says that it is ready.
            companion = await loop.run_in_executor(None, each, door)
            companions.append(companion)
    except BaseException:
        await _close(companions)
        await server.stop()
        raise
    return companions


async def _close(companions: list[Companion]) -> None:
    loop = asyncio.get_running_loop()
    for each in companions:
        await loop.run_in_executor(None, each.close)


def _note(signalled: asyncio.Future[int], number: int) -> None:
    if not signalled.done():
        signalled.set_result(number)
