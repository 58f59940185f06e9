"""A loop whose turn another thread may have while it waits."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future

import pytest

from dray.daemon.direct.lent_loop import LentLoop, TurnLock

PATIENCE_S = 100


class Running:
    """A lent loop in a thread of its own."""

    def __init__(self):
        ready = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        self.loop = ready.result(PATIENCE_S)

    def _run(self, ready):
        loop = LentLoop()
        loop.call_soon(ready.set_result, loop)
        loop.run_forever()
        loop.close()
        loop.turn.release()

    def borrow(self, act):
        """Act in the turn of the loop, in this thread."""
        self.loop.turn.acquire()
        try:
            return act()
        finally:
            self.loop.give_back()

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)


@pytest.fixture
def running():
    running = Running()
    yield running
    running.stop()


def test_a_borrower_has_the_turn_while_the_loop_waits(running):
    ran = []
    running.loop.turn.acquire()
    assert running.loop.turn.is_mine
    running.loop.call_soon_threadsafe(ran.append, 1)
    assert not ran
    running.loop.give_back()
    assert not running.loop.turn.is_mine
    passed = Future()
    running.borrow(lambda: running.loop.call_soon(passed.set_result, None))
    passed.result(PATIENCE_S)
    assert ran == [1]


def test_a_callback_of_a_borrower_wakes_a_loop_that_waits_for_nothing(running):
    came = Future()
    running.borrow(lambda: running.loop.call_soon(lambda: came.set_result(threading.get_ident())))
    assert came.result(PATIENCE_S) != threading.get_ident()


def test_a_timer_of_a_borrower_goes_off_though_the_loop_waits_for_a_later_one(running):
    came = Future()
    running.borrow(lambda: running.loop.call_later(PATIENCE_S, lambda: None))
    running.borrow(lambda: running.loop.call_later(0.01, came.set_result, "first"))
    assert came.result(PATIENCE_S / 2) == "first"


def test_a_timer_behind_the_next_one_does_not_wake_the_loop(running):
    running.borrow(lambda: running.loop.call_later(PATIENCE_S, lambda: None))
    passed = Future()
    running.borrow(lambda: running.loop.call_soon(passed.set_result, None))
    passed.result(PATIENCE_S)
    running.loop.turn.acquire()
    running.loop.call_later(2 * PATIENCE_S, lambda: None)
    assert not running.loop._late
    running.loop.give_back()


def test_a_socket_that_a_borrower_watches_is_read_by_the_loop(running):
    here, there = socket.socketpair()
    came = Future()
    with here, there:
        running.borrow(lambda: running.loop.add_reader(there, came.set_result, "readable"))
        here.send(b"x")
        assert came.result(PATIENCE_S) == "readable"
        running.borrow(lambda: running.loop.remove_reader(there))


def test_a_socket_that_a_borrower_stopped_watching_is_not_read(running):
    """Not even if it was readable already when the borrower had the turn."""
    here, there = socket.socketpair()
    read = []
    with here, there:
        running.borrow(lambda: running.loop.add_reader(there, read.append, 1))
        running.loop.turn.acquire()
        here.send(b"x")
        running.loop.remove_reader(there)
        running.loop.give_back()
        passed = Future()
        running.borrow(lambda: running.loop.call_soon(passed.set_result, None))
        passed.result(PATIENCE_S)
    assert not read


def test_what_is_given_back_to_a_closed_loop_wakes_nobody():
    loop = LentLoop()
    loop._waiting.sleeps = True
    loop.call_soon(lambda: None)
    loop._waiting.sleeps = False
    loop.close()
    loop.give_back()
    assert not loop.turn.is_mine


def test_a_busy_loop_lets_a_borrower_in(running):
    """Each takes the turn in its turn, so that neither waits for ever."""
    stop = threading.Event()

    def again():
        if not stop.is_set():
            running.loop.call_soon(again)

    running.loop.call_soon_threadsafe(again)
    for _ in range(100):
        running.borrow(lambda: None)
    stop.set()


def test_nobody_takes_the_turn_twice_while_another_waits():
    turn, order = TurnLock(), []
    turn.acquire()
    waits = threading.Event()

    def other():
        waits.set()
        turn.acquire()
        order.append("other")
        turn.release()

    thread = threading.Thread(target=other)
    thread.start()
    waits.wait()
    while not turn._entrance.locked():
        continue
    turn.release()
    turn.acquire()
    order.append("mine")
    turn.release()
    thread.join(PATIENCE_S)
    assert order == ["other", "mine"]


def test_a_task_runs_in_it_as_in_any_loop():
    loop = LentLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(asyncio.sleep(0.001, "done")) == "done"
    loop.turn.release()
