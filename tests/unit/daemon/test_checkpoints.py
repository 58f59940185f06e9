"""Checkpoints are written one after another; a full disk delays them, and a failure ends them."""

from __future__ import annotations

from random import Random

import pytest

from dray.daemon.pacing.checkpoints import Checkpoints
from dray.errors import StorePoisoned
from dray.store.limits import LOG_BYTES_MIN
from dray.store.log.checkpoint import Snapshots
from dray.store.store import Store
from dray.testing.disk import SimDisk


class Course:
    """Checkpoints of a real store; the worker and the timer wait until they are told to go on."""

    def __init__(self):
        self.disk = SimDisk(Random(0))
        self.store = Store(self.disk, log_bytes=LOG_BYTES_MIN)
        self.store.recover(lambda _history: ())
        self.state = b"state"
        self.jobs, self.timers, self.rooms, self.failures = [], [], 0, []
        self.checkpoints = Checkpoints(
            self.store,
            self,
            self,
            snapshot=lambda: Snapshots([self.state]),
            room_made=self.room_made,
            failed=self.failed,
        )

    def submit(self, job, outcome):
        self.jobs.append((job, outcome))

    def call_later(self, _seconds, callback):
        self.timers.append(callback)

    def room_made(self):
        self.rooms += 1

    def failed(self, error):
        self.failures.append(error)
        self.checkpoints.give_up()

    def work(self, error=None):
        job, outcome = self.jobs.pop()
        if error is None:
            job()
        outcome(error)

    def find_no_room(self):
        """Write one that is longer than the disk has room for."""
        self.state = bytes(300_000)
        self.disk.full_after(0)
        self.checkpoints.due()
        self.work()


@pytest.fixture
def course():
    return Course()


def test_one_checkpoint_is_under_way_at_a_time_and_then_the_next(course):
    course.checkpoints.due()
    course.checkpoints.due()
    assert (len(course.jobs), course.rooms) == (1, 0)
    course.work()
    assert (course.store.counters.checkpoints, course.rooms) == (1, 1)
    course.checkpoints.due()
    assert len(course.jobs) == 1


def test_a_full_disk_delays_the_next_one_until_it_is_looked_at_again(course, caplog):
    course.find_no_room()
    assert "there is no room for a checkpoint" in caplog.text
    assert (len(course.timers), course.rooms) == (1, 0)
    course.checkpoints.due()
    assert course.jobs == []
    (look_again,) = course.timers
    look_again()
    assert course.rooms == 1
    course.checkpoints.due()
    assert len(course.jobs) == 1


def test_a_failure_is_told_and_nothing_goes_on(course):
    course.checkpoints.due()
    error = StorePoisoned("the disk is gone")
    course.work(error)
    assert (course.failures, course.rooms) == ([error], 0)
    course.checkpoints.due()
    assert course.jobs == []


def test_one_that_ends_when_all_is_over_changes_nothing(course):
    course.checkpoints.due()
    course.checkpoints.give_up()
    course.work()
    assert (course.store.counters.checkpoints, course.rooms, course.failures) == (0, 0, [])


def test_a_look_that_comes_when_all_is_over_changes_nothing(course):
    course.find_no_room()
    course.checkpoints.give_up()
    (look_again,) = course.timers
    look_again()
    assert course.rooms == 0


def test_a_store_that_is_poisoned_begins_none(course):
    course.store.poison(StorePoisoned("the disk is gone"))
    course.checkpoints.due()
    (told,) = course.failures
    assert "the disk is gone" in str(told)
    assert course.jobs == []
