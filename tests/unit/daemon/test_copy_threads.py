"""Threads that copy: each job is told once, and one that hangs holds up nobody but itself."""

from __future__ import annotations

import asyncio
import os
import queue
import threading

import pytest

from dray.daemon.files.copy_threads import CopyThreads, FileHungError
from dray.daemon.limits import COPIES_STUCK_MAX, COPY_S, COPY_THREADS

PATIENCE_S = 60


class ManualLoop:
    """As much of a loop as the threads need, with a clock that a test sets forward."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, object]] = []
        self.calls: queue.SimpleQueue[tuple[object, tuple[object, ...]]] = queue.SimpleQueue()
        self.closed = False

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: object) -> asyncio.TimerHandle:
        self.timers.append((self.now + delay, call))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def call_soon(self, call: object, *arguments: object) -> None:
        self.calls.put((call, arguments))

    def call_soon_threadsafe(self, call: object, *arguments: object) -> None:
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.calls.put((call, arguments))

    def turn(self) -> None:
        """Make the next call, which a thread may still have to ask for."""
        call, arguments = self.calls.get(timeout=PATIENCE_S)
        call(*arguments)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.timers if each[0] <= self.now]
        self.timers = [each for each in self.timers if each[0] > self.now]
        for _, call in due:
            call()


class Job:
    """One that hangs until it is let go, and what became of it."""

    def __init__(self, threads: CopyThreads, *, hangs: bool = False) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        if not hangs:
            self.go_on.set()
        self.told: list[object] = []
        reader, self.writer = os.pipe()
        self.reader = reader
        threads.submit(self.work, (reader,), self.told.append, lambda: self.told.append("freed"))

    def work(self) -> None:
        self.entered.set()
        assert self.go_on.wait(PATIENCE_S)

    @property
    def file_is_closed(self) -> bool:
        """A pipe without a reader cannot be written to."""
        try:
            os.write(self.writer, b"x")
        except BrokenPipeError:
            return True
        return False


@pytest.fixture
def loop():
    return ManualLoop()


@pytest.fixture
def threads(loop):
    threads = CopyThreads(loop)
    yield threads
    threads.stop()


@pytest.fixture
def job(threads):
    made: list[Job] = []

    def make(*, hangs: bool = False) -> Job:
        made.append(Job(threads, hangs=hangs))
        return made[-1]

    yield make
    for each in made:
        each.go_on.set()
        os.close(each.writer)


def hung(job, loop, count):
    """So many that hang, each in a thread of its own, given up."""
    found = []
    for _ in range(count):
        found.append(job(hangs=True))
        assert found[-1].entered.wait(PATIENCE_S)
        loop.advance(COPY_S * 2)
        loop.advance(COPY_S * 2)
    return found


def test_what_was_done_is_freed_and_told_once_and_its_file_closed(loop, job):
    done = job()
    loop.turn()
    assert done.told == ["freed", None]
    assert done.file_is_closed


def test_an_error_is_told(loop, threads):
    told = []
    threads.submit(lambda: 1 // 0, (), told.append)
    loop.turn()
    assert [type(each) for each in told] == [ZeroDivisionError]


def test_nobody_is_given_up_before_his_time(loop, job):
    slow = job(hangs=True)
    assert slow.entered.wait(PATIENCE_S)
    for _ in range(5):
        loop.advance(COPY_S / 6)
    assert slow.told == []
    slow.go_on.set()
    loop.turn()
    assert slow.told == ["freed", None]


def test_one_that_hangs_is_told_of_and_freed_when_it_returns(loop, threads, job):
    (stuck,) = hung(job, loop, 1)
    (error,) = stuck.told
    assert isinstance(error, FileHungError)
    assert "did not answer within 30 s" in str(error)
    assert threads.stuck == 1
    assert not stuck.file_is_closed
    stuck.go_on.set()
    loop.turn()
    assert stuck.told == [error, "freed"]
    assert threads.stuck == 0
    assert stuck.file_is_closed


def test_what_comes_behind_those_that_hang_is_served(loop, job):
    hung(job, loop, COPY_THREADS + COPIES_STUCK_MAX - 1)
    behind = job()
    loop.turn()
    assert behind.told == ["freed", None]


def test_when_all_hang_the_others_are_refused_until_one_returns(loop, threads, job):
    stuck = hung(job, loop, COPY_THREADS + COPIES_STUCK_MAX - 1)
    stuck.append(job(hangs=True))
    assert stuck[-1].entered.wait(PATIENCE_S)
    waiting = job()
    loop.advance(COPY_S * 2)
    assert threads.stuck == COPY_THREADS + COPIES_STUCK_MAX
    late = job()
    loop.turn()
    for refused in (waiting, late):
        freed, error = refused.told
        assert freed == "freed"
        assert isinstance(error, FileHungError)
        assert refused.file_is_closed
    stuck[0].go_on.set()
    loop.turn()
    again = job()
    loop.turn()
    assert again.told == ["freed", None]


def test_threads_made_for_those_that_hung_end_with_them(loop, threads, job):
    stuck = hung(job, loop, 4)
    made = list(threads._threads)
    assert len(made) == COPY_THREADS + 4
    for each in stuck:
        each.go_on.set()
        loop.turn()
    threads.stop()
    for each in made:
        each.join(PATIENCE_S)
        assert not each.is_alive()


def test_a_thread_that_returns_when_the_daemon_is_gone_just_ends(loop, threads, job):
    (stuck,) = hung(job, loop, 1)
    loop.closed = True
    stuck.go_on.set()
    threads.stop()
    for thread in threads._threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert stuck.told[1:] == []


def test_idle_waits_for_what_is_done_and_not_for_what_hangs():
    async def main() -> list[object]:
        threads = CopyThreads(asyncio.get_running_loop())
        told: list[object] = []
        for number in range(20):
            threads.submit(lambda: None, (), lambda _, number=number: told.append(number))
        await threads.idle()
        assert not threads.busy
        threads.stop()
        return told

    assert sorted(asyncio.run(main())) == list(range(20))
