"""A queue manager killed while the command line is at work: no doubt is left to the user."""

import os
import threading

import pytest

from dray.cli.doubt import was_committed
from dray.errors import DrayError, InDoubt
from dray.model.classes import TransactionStatus
from dray.testing.processes import ManagerProcess
from tests.integration.commands import finish, started, until

pytestmark = pytest.mark.slow


@pytest.fixture
def manager(tmp_path):
    process = ManagerProcess("manager", tmp_path)
    process.start()
    try:
        with process.connect() as connected:
            for name in ("large", "statusq"):
                connected.create_queue(name)
        yield process
    finally:
        process.stop()


def test_a_send_through_a_kill_happens_once_or_is_told_that_it_did_not(manager, tmp_path):
    payload = tmp_path / "payload"
    payload.write_bytes(os.urandom(120 << 20))
    stored = manager.data
    before = _stored(stored)
    with started("send", "large", payload, "--large", url=manager.url) as process:
        until(lambda: _stored(stored) > before + (40 << 20) or process.poll() is not None)
        manager.kill()
        manager.start()
        said = finish(process)
    with manager.connect() as connected:
        count = connected.queue("large").info().message_count
    if said.status == 0:
        assert count == 2 + -(-payload.stat().st_size // 4_000_000)
    else:
        assert count == 0
        assert "Traceback" not in said.err
        assert said.err.startswith(("dray: transaction-aborted: ", "dray: connection-lost: "))


def test_a_commit_in_doubt_is_found_out_once_the_manager_is_back(manager):
    """Each of many commits, with the manager killed at some moment of it, has a true answer."""
    for _ in range(5):
        with manager.connect() as connected:
            before = connected.queue("large").info().message_count
            transaction = connected.transaction()
            raw = connected.queue("large", raw=True)
            raw.send(os.urandom(3 << 20), transaction=transaction)
            killer = threading.Thread(target=manager.kill)
            killer.start()
            try:
                transaction.commit()
                status = TransactionStatus.COMMITTED
            except InDoubt as doubt:
                status = doubt
            except DrayError as error:
                status = error
            killer.join()
        manager.start()
        happened = _happened(manager, status)
        with manager.connect() as connected:
            assert connected.queue("large").info().message_count == before + happened


def _happened(manager, status):
    if isinstance(status, InDoubt):
        return was_committed(manager.connect, status, 30.0)
    return status is TransactionStatus.COMMITTED


def _stored(folder):
    """Bytes of heap that the disk holds."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.mq"))
