"""Promises about quotas and backups of a running queue manager."""

from __future__ import annotations

import io

import pytest

import dray


def test_a_queues_quota_can_be_changed_and_what_is_stored_stays(manager, queue):
    queue.send(bytes(4000))
    manager.set_quota(queue.name, quota=1000, journal_quota=None)
    assert queue.info().quota == 1000
    with pytest.raises(dray.QuotaExceeded):
        queue.send(b"more")
    assert len(queue.receive(0).body) == 4000


def test_a_quota_that_is_not_named_stays_as_it_is(manager, make_queue):
    queue = make_queue(quota="1 KiB", journal_quota="2 KiB")
    manager.set_quota(queue.name, quota=None)
    manager.set_quota(queue.name, journal_quota="3 KiB")
    assert (queue.info().quota, queue.info().journal_quota) == (None, 3 << 10)
    before = manager.info()
    manager.set_quota(journal_quota="1 GiB")
    after = manager.info()
    assert (after.quota, after.journal_quota) == (before.quota, 1 << 30)
    manager.set_quota(journal_quota=before.journal_quota)


@pytest.mark.parametrize("size", [1.5, "much", -1, [], True])
def test_a_quota_that_is_no_size_is_refused(manager, queue, size):
    with pytest.raises(dray.InvalidConfiguration):
        manager.set_quota(queue.name, quota=size)
    assert queue.info().quota is None


def test_a_quota_that_would_have_no_effect_is_refused(manager, make_queue):
    name = make_queue(journal=True).name
    manager.queue(f"{name};retry").info()
    for other in (f"{name};retry", f"{name};journal"):
        with pytest.raises(dray.Misuse, match=name):
            manager.set_quota(other, quota=1)
    with pytest.raises(dray.AccessDenied):
        manager.set_quota("order_queue$", quota=1)
    manager.set_quota("system$;deadletter", quota="1 TiB")
    manager.set_quota("system$;deadletter", quota=None)


def test_a_backup_restores_what_was_there_and_traffic_goes_on(face, manager, queue, tmp_path):
    queue.send_many([b"1", b"2"])
    told = []
    report = manager.backup(tmp_path / "backup", progress=lambda *done: told.append(done))
    queue.send(b"after")
    assert told[-1][0] == told[-1][1] == report.record_bytes
    dray.restore(tmp_path / "backup", tmp_path / "data")
    with face.open(tmp_path / "data") as restored:
        assert restored.info().id == manager.info().id
        bodies = [message.body for message in restored.queue(queue.name).messages()]
    assert bodies == [b"1", b"2"]


def test_a_backup_goes_to_whatever_takes_bytes(manager):
    archive = io.BytesIO()
    report = manager.backup(archive)
    assert len(archive.getvalue()) == report.archive_bytes


def test_a_backup_that_cannot_be_written_leaves_nothing(manager, tmp_path):
    with pytest.raises(dray.TargetUnwritable):
        manager.backup(tmp_path / "missing" / "backup")
    assert list(tmp_path.iterdir()) == []
