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
