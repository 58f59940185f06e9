"""When a pass of the loop ends: at its end, or at once for a session that has the daemon alone."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.timekeeper import Timekeeper
from dray.daemon.turns import Turns
from dray.machine import Tick
from dray.manager.events import (
    Answer,
    ManagerConfig,
    Request,
)
from dray.store.store import Store
from dray.testing.disk import SimDisk
from dray.wire import message_frames, queue_frames
from dray.wire.stream import Frame
from tests.unit.daemon.echo_manager import EchoManager


class Listening:
    """Notes what is answered, and to whom."""

    def __init__(self) -> None:
        self.answered: list[int] = []

    def perform(self, effects) -> None:
        self.answered += [each.session for each in effects if isinstance(each, Answer)]

    def reconsider(self) -> None: ...

    def described(self, session: int) -> str: ...

    def failed(self, error: Exception) -> None:
        raise error


class TurnsDriver:
    """Turns over a simulated disk, in a loop that runs only when it is told to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.heard = Listening()
        store = Store(SimDisk(Random(1)))
        manager = EchoManager.load(store, ManagerConfig(manager_id="e" * 32), 0.0)
        backlog = DiskBacklog(lambda: store.unsynced_bytes, self.loop.call_soon)
        self.turns = Turns(
            self.loop,
            store,
            manager,
            clock=Timekeeper(),
            performer=self.heard,
            backlog=backlog,
        )

    def commit(self, session: int) -> None:
        """A commit comes, and nothing more on that connection."""
        self.turns.more_comes()
        self.turns.deliver(Request(session, Frame(message_frames.Commit(1, 0), 1, memoryview(b""))))
        self.turns.nothing_more()

    def go_on(self) -> None:
        self.loop.run_until_complete(self.turns.drain())

    def end(self) -> None:
        self.loop.run_until_complete(self.turns.stop())
        self.loop.close()


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNC_S", 3600.0)
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNCS", 1)
    monkeypatch.setattr("dray.daemon.pacing.pace.STALE_TURN_S", 3600.0)
    driver = TurnsDriver()
    yield driver
    driver.end()


def test_a_lone_session_is_answered_before_the_loop_looks_elsewhere(driver):
    driver.commit(1)
    assert driver.heard.answered == []
    driver.go_on()
    driver.commit(1)
    assert driver.heard.answered == [1, 1]


def test_a_lone_session_leaves_the_loop_nothing_to_come_back_to(driver, monkeypatch):
    driver.commit(1)
    driver.go_on()
    scheduled = []
    with monkeypatch.context() as patched:
        patched.setattr(driver.loop, "call_soon", lambda *each: scheduled.append(each))
        driver.commit(1)
    assert driver.heard.answered == [1, 1]
    assert scheduled == []


def test_what_was_decided_before_a_session_was_read_ends_with_its_pass(driver):
    driver.commit(1)
    driver.go_on()
    driver.turns.deliver(Tick())
    driver.commit(1)
    assert driver.heard.answered == [1, 1]
    driver.go_on()
    assert driver.heard.answered == [1, 1]


def test_what_several_sessions_say_in_one_pass_is_one_turn(driver):
    for session in (1, 2):
        driver.commit(session)
    driver.go_on()
    syncs = driver.turns._store.counters.syncs
    for session in (1, 2):
        driver.commit(session)
        assert driver.heard.answered == [1, 2]
    driver.go_on()
    assert driver.heard.answered == [1, 2, 1, 2]
    assert driver.turns._store.counters.syncs == syncs + 1


def test_nothing_is_done_where_nothing_came(driver):
    driver.commit(1)
    driver.go_on()
    driver.turns.nothing_more()
    assert driver.heard.answered == [1]


def test_a_pass_that_has_ended_does_not_end_again(driver, monkeypatch):
    driver.commit(1)
    driver.go_on()
    driver.commit(1)
    ended = []
    monkeypatch.setattr(driver.turns._pass, "_ended", lambda: ended.append(True))
    driver.loop.call_soon(driver.loop.stop)
    driver.loop.run_forever()
    assert ended == []


def test_a_lone_reader_is_answered_at_once_as_well(driver):
    for answers in range(1, 4):
        driver.turns.deliver(Request(1, Frame(queue_frames.Describe(), 1, memoryview(b""))))
        driver.turns.nothing_more()
        assert len(driver.heard.answered) == answers - (answers == 1)
        driver.go_on()
        assert len(driver.heard.answered) == answers
