"""`dray.open` and `dray.restore`: a queue manager of this machine, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.client.calls.public_calls import checked
from dray.model.platforms import require_linux

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, BinaryIO

    from dray.client.blocking.manager import Manager
    from dray.model.backup import BackupReport


@checked
def open(  # noqa: A001 - the name of the public face; `dray.open` reads as what it does
    path: str | Path,
    *,
    quota: int | str | None = "8GiB",
    journal_quota: int | str | None = "8GiB",
    name: str | None = None,
    listen: str | None = None,
    **config: Any,  # noqa: ANN401 - each option of the daemon has its own type
) -> Manager:
    """Run a queue manager in this process over a data directory; closing it stops it cleanly.

    Sizes are bytes or text such as "8GiB", None is no limit. With `socket="path"` or
    `listen="host:port"` others can connect, too. Raises `StoreLocked` if the directory belongs to a
    live process, `InvalidConfiguration` for an option that is none, and on systems other than
    Linux.
    """
    require_linux("a queue manager")
    from dray.embedded import open_embedded

    return open_embedded(
        path, quota=quota, journal_quota=journal_quota, name=name, listen=listen, **config
    )


@checked
def restore(
    archive: str | Path | BinaryIO,
    path: str | Path,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> BackupReport:
    """Make a data directory at `path`, missing or empty, from what `Manager.backup` wrote.

    Queues, messages and ids are what they were; delivery goes on exactly once. `progress` hears
    bytes done and bytes in all. Raises `BackupDamaged`, and then there is nothing at `path`.
    """
    require_linux("the data directory of a queue manager")
    from dray.embedded import restore_here

    return restore_here(archive, path, progress)
