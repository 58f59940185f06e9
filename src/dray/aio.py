"""The awaited face of Dray: the names of `dray`, in asyncio.

    async with dray.aio.connect("dray://127.0.0.1:7340") as manager:
        async with manager.transaction() as transaction:
            await manager.queue("orders").send(b"...", transaction=transaction)

A context manager of `dray` can be awaited here or used with `async with`, and an iterator of `dray`
is one for `async for`. Messages, errors and constants are the same. A call may be cancelled: its
message is then given back, never lost, and the connection stays.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from dray.client.awaited.cursor import Cursor
from dray.client.awaited.large import LargeMessageQueue
from dray.client.awaited.large_message import LargeMessage
from dray.client.awaited.manager import Manager
from dray.client.awaited.opening import Opening
from dray.client.awaited.queue import Queue
from dray.client.awaited.receiver import Receiver
from dray.client.awaited.transaction import Transaction
from dray.client.awaited.transfer import Incoming, Offer, RunningTransfer
from dray.client.calls.public_calls import checked
from dray.client.connections.address import parse_address
from dray.client.connections.link import Link
from dray.client.connections.loops import LoopRuntime
from dray.model.platforms import require_linux
from dray.net.doors import default_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, BinaryIO

    from dray.model.backup import BackupReport

__all__ = [
    "Cursor",
    "Incoming",
    "LargeMessage",
    "LargeMessageQueue",
    "Manager",
    "Offer",
    "Queue",
    "Receiver",
    "RunningTransfer",
    "Transaction",
    "connect",
    "open",
    "restore",
]


@checked
def connect(
    url: str | None = None,
    *,
    ca: str | os.PathLike[str] | None = None,
    cert: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    token: str | os.PathLike[str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    caller: str | None = None,
) -> Opening[Manager]:
    """Connect to a daemon; see `dray.connect`."""
    address = default_url() if url is None else url
    who = {"token": token, "token_file": token_file, "caller": caller}
    link = partial(parse_address, address, ca, cert, key, **who)  # type: ignore[arg-type]
    return Opening(lambda: Manager.connected(Link(link(), LoopRuntime())))


@checked
def open(  # noqa: A001 - the name of the public face, as in dray
    path: str | Path,
    *,
    quota: int | str | None = "8GiB",
    journal_quota: int | str | None = "8GiB",
    name: str | None = None,
    listen: str | None = None,
    **config: Any,  # noqa: ANN401 - each option of the daemon has its own type
) -> Opening[Manager]:
    """Run a queue manager in this process over a data directory; see `dray.open`."""
    require_linux("a queue manager")
    from dray.embedded import open_awaited

    return Opening(
        lambda: open_awaited(
            path, quota=quota, journal_quota=journal_quota, name=name, listen=listen, **config
        )
    )


@checked
async def restore(
    archive: str | Path | BinaryIO,
    path: str | Path,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> BackupReport:
    """Make a data directory from a backup without stopping the event loop; see `dray.restore`.

    `progress` is called in another thread. Once begun it goes on to its end, cancelled or not.
    """
    require_linux("the data directory of a queue manager")
    from dray.embedded import restore_here

    return await LoopRuntime().offload(restore_here, archive, path, progress)
