"""A process that runs one queue manager: signals end it, and one line says that it is ready."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from dray.daemon.config import ServeOptions, check_named
from dray.daemon.logs import log_to_stderr
from dray.daemon.pacing.time_slice import request_short_time_slice
from dray.daemon.server import Server
from dray.daemon.sockets.descriptors import raise_limit
from dray.daemon.sockets.runtime_link import RuntimeLink
from dray.errors import InvalidConfiguration
from dray.net.doors import runtime_link, socket_of
from dray.notify import ALIVE, READY, STOPPING, notify, watchdog_interval_s

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(options: ServeOptions, again: Callable[[], ServeOptions] | None = None) -> int:
    """Run a queue manager until a signal ends it; give the exit status, 0.

    At SIGHUP it follows the options that `again` gives. Without an address it listens on the
    socket in the data directory, and links the account's runtime link to it. An error that keeps it
    from starting or continuing is raised as a `DrayError`.
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
    return asyncio.run(_serve(options, again or (lambda: options), own_socket))


async def _serve(
    options: ServeOptions, again: Callable[[], ServeOptions], own_socket: Path | None
) -> int:
    loop = asyncio.get_running_loop()
    server = Server(loop, options)
    signalled: asyncio.Future[int] = loop.create_future()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _note, signalled, number)
    loop.add_signal_handler(signal.SIGHUP, server.follow, again)
    link = None if own_socket is None else RuntimeLink(runtime_link(), own_socket)
    sys.stdout.write(f"{server.describe()}\n")
    sys.stdout.flush()
    notify(READY)
    _say_alive(loop, watchdog_interval_s())
    ends: set[asyncio.Future[Any]] = {server.ended, signalled}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    notify(STOPPING)
    if link is not None:
        link.remove()
    await server.stop()
    if server.ended.done():
        raise server.ended.result()
    return 0


def _say_alive(loop: asyncio.AbstractEventLoop, every_s: float | None) -> None:
    """Tell the service manager from the loop itself that the loop still turns."""
    if every_s is not None:
        notify(ALIVE)
        loop.call_later(every_s, _say_alive, loop, every_s)


def _note(signalled: asyncio.Future[int], number: int) -> None:
    if not signalled.done():
        signalled.set_result(number)
