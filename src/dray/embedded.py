"""`dray.open`: a queue manager in this process.

The one place where client and daemon meet. A blocking program calls it in its own threads, in the
frames of the wire; a program with an event loop speaks to it over a socket pair.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from dray.client.awaited.manager import Manager as AwaitedManager
from dray.client.blocking.manager import Manager
from dray.client.connections.direct_connection import DirectConnection
from dray.client.connections.link import Link
from dray.client.connections.loops import LoopRuntime
from dray.client.connections.threads import BlockingRuntime
from dray.daemon.config import check_named, read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.errors import InvalidConfiguration
from dray.forks import is_here, this_process
from dray.model.callers import Credential

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from dray.client.connections.connection import Connection
    from dray.client.connections.runtime import Dialer
    from dray.model.backup import BackupReport


class EmbeddedDialer:
    """Connects to a daemon in this process."""

    def __init__(self, daemon: EmbeddedDaemon, path: str) -> None:
        """Take a daemon that is started, and its data directory for sentences."""
        self._daemon = daemon
        self._path = path

    def __str__(self) -> str:
        return f"the queue manager over {self._path}"

    def dial(self) -> socket.socket:
        """Give one end of a socket pair."""
        return self._daemon.connect()

    def call(self) -> DirectConnection:
        """Give a connection without a socket."""
        return DirectConnection(self._daemon.call_directly, str(self))

    def credential(self) -> Credential:
        """Give no token: the program that holds the queue manager is its owner."""
        return Credential()


class EmbeddedStop:
    """Ends a daemon; if nobody calls it, its end warns, as that of an open file does."""

    def __init__(self, daemon: EmbeddedDaemon, manager: str) -> None:
        """Take a daemon that is started, and what to call its manager."""
        self._daemon = daemon
        self._manager = manager
        self._process = this_process()
        self._called = False

    def __call__(self) -> None:
        """Stop the daemon and wait for it."""
        self._called = True
        self._daemon.stop()

    def __del__(self) -> None:
        if not self._called and is_here(self._process):
            warnings.warn(
                f"{self._manager} was dropped without being closed, and runs until this process"
                " ends; use dray.open in a `with` block",
                ResourceWarning,
                stacklevel=2,
            )


class EmbeddedRuntime(BlockingRuntime):
    """Blocks the calling thread, which also does the queue manager's work meanwhile."""

    async def connect(self, dialer: Dialer) -> Connection:
        """See `Runtime`."""
        if isinstance(dialer, EmbeddedDialer):
            return dialer.call()
        return await super().connect(dialer)


def open_embedded(path: str | Path, **config: Any) -> Manager:  # noqa: ANN401 - see dray.open
    """Start a queue manager over `path` and connect to it; closing the manager stops it."""
    dialer, daemon = _prepared(path, config)
    stop = EmbeddedStop(daemon, str(dialer))
    try:
        daemon.start()
        return Manager(dialer, stop=stop, runtime=EmbeddedRuntime())
    except BaseException:
        stop()
        raise


async def open_awaited(path: str | Path, **config: Any) -> AwaitedManager:  # noqa: ANN401 - see dray.open
    """Do the same without stopping the event loop."""
    runtime = LoopRuntime()
    dialer, daemon = await runtime.offload(_prepared, path, config)
    stop = EmbeddedStop(daemon, str(dialer))
    try:
        await runtime.offload(daemon.start)
        return await AwaitedManager.connected(Link(dialer, runtime), stop)
    except BaseException:
        await runtime.offload(stop)
        raise


def _prepared(path: str | Path, config: dict[str, Any]) -> tuple[EmbeddedDialer, EmbeddedDaemon]:
    data = str(path)
    check_named(data)
    if "data" in config:
        raise InvalidConfiguration("dray.open takes no option 'data'; give its path instead")
    for name in ("http", "console", "console_also"):
        if config.get(name) is not None:
            raise InvalidConfiguration(
                f"dray.open takes no option {name!r}; `dray serve --{name.replace('_', '-')}` does"
            )
    unlimited = {name: "unlimited" for name in ("quota", "journal_quota") if config[name] is None}
    daemon = EmbeddedDaemon(data, read_options(data=data, **{**config, **unlimited}))
    return EmbeddedDialer(daemon, data), daemon


def restore_here(
    archive: str | Path | BinaryIO,
    path: str | Path,
    progress: Callable[[int, int], object] | None,
) -> BackupReport:
    """Restore a backup, now."""
    from dray.daemon.timekeeper import Timekeeper
    from dray.offline.restoring import restore

    return restore(archive, path, now=Timekeeper().now(), told=progress)
