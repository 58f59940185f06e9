"""Heap files are synced as payload comes: by a file's worth, one flush at a time, until the end."""

from random import Random

import pytest

from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.pacing.flushing import Flushing
from dray.errors import StorePoisoned
from dray.store.kinds import Kind
from dray.store.limits import HEAP_FILE_BYTES
from dray.store.store import Store
from dray.testing.disk import SimDisk

BODY = memoryview(b"x" * HEAP_FILE_BYTES)


class Line:
    """A worker whose jobs are done when the test says so."""

    def __init__(self):
        self.jobs = []

    def submit(self, job, outcome):
        self.jobs.append((job, outcome))

    def end_one(self, error=None):
        job, outcome = self.jobs.pop(0)
        if error is None:
            job()
        outcome(error)


class FlushingDriver:
    """A store, and payload that comes to it."""

    def __init__(self):
        self.store = Store(SimDisk(Random(1)))
        self.line, self.errors = Line(), []
        backlog = DiskBacklog(lambda: self.store.unsynced_bytes, lambda told: told())
        self.flushing = Flushing(
            self.store, backlog, self.line, time=lambda: 0.0, failed=self.errors.append
        )

    def comes(self, size):
        self.store.place(BODY[:size], Kind.RECOVERABLE)
        self.flushing.bytes += size
        self.flushing.go_on()


@pytest.fixture
def driver():
    driver = FlushingDriver()
    yield driver
    driver.store.close()


def test_nothing_is_flushed_before_a_file_full_has_come(driver):
    driver.comes(HEAP_FILE_BYTES - 1)
    assert not driver.line.jobs
    driver.comes(1)
    assert len(driver.line.jobs) == 1


def test_the_next_flush_begins_where_the_last_has_ended(driver):
    driver.comes(HEAP_FILE_BYTES)
    driver.comes(HEAP_FILE_BYTES)
    assert len(driver.line.jobs) == 1
    driver.line.end_one()
    assert len(driver.line.jobs) == 1
    driver.line.end_one()
    assert not driver.line.jobs
    assert driver.store.unsynced_bytes == 0


def test_a_flush_that_failed_is_told_and_is_the_last(driver):
    driver.comes(HEAP_FILE_BYTES)
    gone = StorePoisoned("the disk is gone")
    driver.line.end_one(gone)
    assert driver.errors == [gone]
    driver.comes(HEAP_FILE_BYTES)
    assert not driver.line.jobs


def test_behind_the_end_none_begins_and_only_a_failure_is_told(driver):
    driver.comes(HEAP_FILE_BYTES)
    driver.flushing.give_up()
    gone = StorePoisoned("the disk is gone")
    driver.line.end_one(gone)
    assert driver.errors == [gone]
    driver.comes(HEAP_FILE_BYTES)
    assert not driver.line.jobs


def test_behind_the_end_a_flush_that_succeeds_is_passed_over(driver):
    driver.comes(HEAP_FILE_BYTES)
    driver.flushing.give_up()
    unsynced = driver.store.unsynced_bytes
    driver.line.end_one()
    assert driver.store.unsynced_bytes == unsynced
