"""What a test leaves behind can be backed up and restored; asked of all tests with `EACH`."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from crc32c import crc32c

from dray.errors import StoreCorrupt
from dray.manager.entries import entries_in
from dray.manager.events import ManagerConfig, SessionClosed
from dray.manager.requests import BACKUP_CHECK
from dray.manager.turn import QueueManager
from dray.offline.restoring import restore
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.store import Store
from dray.wire import backup_frames, frames
from dray.wire.archive import About, ArchiveWriter
from tests.inspection import look_into

if TYPE_CHECKING:
    from dray.manager.state import State
    from tests.unit.manager.conftest import Caller, ManagerDriver

EACH = "DRAY_RESTORE_EACH"
_NOBODYS_NUMBER = 100_000


def check_restore(driver: ManagerDriver) -> None:
    """A backup holds every message and every prepared transaction, if no record is damaged."""
    driver.sessions = max(driver.sessions, _NOBODYS_NUMBER)
    caller = driver.session()
    before = _contents(look_into(driver.manager).state)
    archive = _backed_up(caller)
    driver.turn(SessionClosed(caller.number))
    if archive is None:
        return
    path = driver.path.parent / f"{driver.path.name}.restored"
    now = driver.now + 1000
    restore(io.BytesIO(archive), path, now=now, log_bytes=driver.store.log_capacity)
    disk = type(driver.disk)(path)
    try:
        store = Store(disk, heap_file_bytes=driver.store.heap_file_bytes)
        manager = QueueManager.load(store, ManagerConfig(manager_id=""), now)
        assert _contents(look_into(manager).state) == before, "not the same after a restore"
    finally:
        disk.close()


def _contents(state: State) -> tuple[object, ...]:
    return (
        {queue.name: sorted(entries_in(queue.index.durable())) for queue in state.queues},
        {queue.name: sorted(queue.purge_pending) for queue in state.queues},
        dict(state.prepared),
        dict(state.heard),
        state.outcomes.committed(),
    )


def _backed_up(caller: Caller) -> bytes | None:
    """The archive; None if a record is damaged, which the daemon tells whoever asked for it."""
    request = caller.ask(backup_frames.Backup())
    for _ in range(10_000):
        if caller.answers(request):
            break
        caller.driver.advance(0.0)
    (answer,) = caller.answers(request)
    if isinstance(answer.head, frames.Failed):
        assert answer.head.error == "store-corrupt"
        return None
    assert isinstance(answer.head, backup_frames.BackupBegun)
    try:
        return draw(caller, answer.head)
    except StoreCorrupt:
        return None


def draw(caller: Caller, begun: backup_frames.BackupBegun) -> bytes:
    """Read a backup to its end; the archive. Raises `StoreCorrupt` for a damaged record."""
    out = io.BytesIO()
    writer = ArchiveWriter(out.write, About(*(getattr(begun, f) for f in About.__struct_fields__)))
    while True:
        head, body = caller.call_whole(backup_frames.BackupRead())
        assert isinstance(head, backup_frames.BackupPiece)
        if not body:
            break
        if head.runs:
            _check_records(head, body)
            writer.records(head.runs, body)
        else:
            writer.state(body)
    writer.end()
    return out.getvalue()


def _check_records(head: backup_frames.BackupPiece, body: bytes) -> None:
    at = 0
    for length, crc in BACKUP_CHECK.iter_unpack(head.checks):
        if crc32c(body[at : at + length]) != crc:
            raise StoreCorrupt("a record is damaged", event=MESSAGE_FILE_UNREADABLE, file="")
        at += length


def is_asked_of_each() -> bool:
    """Whether each test is asked."""
    return bool(os.environ.get(EACH))
