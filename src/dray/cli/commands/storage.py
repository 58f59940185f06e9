"""`dray storage`: work on a data directory itself, not on the queues in it.

These commands need no queue manager; all but `audit` want it stopped.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dray.cli.output import print_json, print_table
from dray.cli.progress import progress
from dray.cli.settings import CommandGroup, Settings, takes_json
from dray.errors import StoreCorrupt
from dray.model.words import counted

if TYPE_CHECKING:
    from dray.store.chain import ChainReport


@click.group(cls=CommandGroup)
def command() -> None:
    """Move a store, audit it, rebuild its queue files."""


_data = click.option("--data", required=True, metavar="DIR", type=Path, help="The data directory.")


@command.command()
@click.argument("new", metavar="NEWDIR", type=Path)
@_data
@takes_json
def move(settings: Settings, new: Path, *, data: Path) -> None:
    """Move the store of a stopped queue manager to NEWDIR, on any file system.

    The command copies, syncs and reads back every file before the old directory gives up the store.
    If it is interrupted, run it again.
    """
    from dray.offline.move import StoreMove, move_store

    wanted = StoreMove(data, new, uuid.uuid4().hex, time.time())
    with progress(f"moving {data}", None) as shown:

        def tell(what: str, done: int, total: int) -> None:
            shown.describe(what)
            shown.update(done, total)

        report = move_store(wanted, tell)
    line = f"moved {counted(report.files, 'file')} with {report.bytes} bytes to {new}"
    if report.finished:
        line = f"the store was moved to {new} before; what was left in {data} is gone"
    settings.tell({"from": str(data), "to": str(new), **report._asdict()}, line)


@command.command()
@_data
@takes_json
def audit(settings: Settings, *, data: Path) -> None:
    """List changes that other programs made to the storage folder, and verify the audit log."""
    from dray.errors import StoreError
    from dray.store.audit import AUDIT_NAME, read_entries
    from dray.store.manifest import verify_audit

    path = data / AUDIT_NAME
    report = verify_audit(data)
    if report.intact and not path.exists():
        raise StoreError(
            f"{data} has no {AUDIT_NAME}; a queue manager writes it if its option `audit` is true"
        )
    entries = list(read_entries(path))
    columns = ["number ", "time", "seen", "change", "file", "detail"]
    rows = ([str(e.number), e.time, e.seen, e.change, e.file, e.detail] for e in entries)
    tell_chain(settings, path, report, {"entries": entries}, columns=columns, rows=rows)


def tell_chain(
    settings: Settings,
    file: Path,
    report: ChainReport,
    told: dict[str, object],
    *,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> None:
    """Print entries of a chained file, and that its chain is whole, or raise `StoreCorrupt`."""
    if settings.as_json:
        print_json({**report._asdict(), "intact": report.intact, **told})
    else:
        print_table(columns, rows)
        if report.intact:
            number = counted(report.entries, "entry")
            click.echo(f"{number}, the chain is whole; digest {report.digest}")
    if not report.intact:
        sentence = f"{file}, line {report.line}: {report.problem}"
        raise StoreCorrupt(sentence, event=0, file=file.name)


@command.command()
@_data
@takes_json
def rebuild(settings: Settings, *, data: Path) -> None:
    """Rebuild missing files from the log, so that the queue manager starts again.

    Use it if a store refuses to start for one of two reasons: files of internal queues are missing
    (event 2020, 2051 or 2052), or both files of a checkpoint pair are missing while the log is
    complete (event 2053 or 2064). Queues and messages do not change.
    """
    from dray.daemon.watcher import AuditedDisk
    from dray.errors import StoreError
    from dray.manager.events import ManagerConfig
    from dray.manager.turn import QueueManager
    from dray.store.decisions import LOG_NAME
    from dray.store.location import check_location
    from dray.store.store import Store

    check_location(data)
    if not (data / "storage" / LOG_NAME).exists():
        raise StoreError(f"there is no store in {data}; name the directory of `dray serve`")
    store = Store(AuditedDisk(data), queue_files=True, rebuild=True)
    try:
        config = ManagerConfig(manager_id="", rebuild_internal_files=True)
        manager = QueueManager.load(store, config, time.time())
        store.sync()
    except BaseException:
        store.close()
        raise
    store.close(manager.snapshot())
    missing = [*store.report.missing, *manager.files_report.missing]
    settings.tell(
        msgspec.structs.replace(manager.files_report, missing=missing),
        *map(str, manager.notices()),
        f"wrote {counted(len(missing), 'missing file')} anew",
    )
