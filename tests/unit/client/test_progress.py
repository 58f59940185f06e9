"""Progress is told now and then, and at the end."""

from __future__ import annotations

from dray.client.files.progress import Reporter


def test_progress_is_told_seldom_and_its_end_always():
    told = []
    report = Reporter(lambda done, total: told.append((done, total)), None)
    for _ in range(1000):
        report.advance(10)
    report.finish()
    assert told[0] == (10, None)
    assert told[-1] == (10_000, 10_000)
    assert len(told) < 10


def test_nobody_needs_to_listen():
    report = Reporter(None, 5)
    report.advance(5)
    report.finish()
