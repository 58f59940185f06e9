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
from dray.wire import frames
from dray.wire.stream import Frame
from tests.unit.daemon.echo_manager import EchoManager


class Listening:
    """Notes what is answered, and to whom."""

    def __init__(self) -> None:
        self.answered: list[int] = []

    def perform(self, effects) -> None:
        self.answered += [each.session for each in effects if isinstance(each, Answer)]

    def reconsider(self) -> None: ...

    def failed(self, error: Exception) -> None:
        raise error


class Desk:
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
        self.turns.deliver(Request(session, Frame(frames.Commit(1, 0), 1, memoryview(b""))))
        self.turns.nothing_more()

    def go_on(self) -> None:
        self.loop.run_until_complete(self.turns.drain())

    def end(self) -> None:
        self.loop.run_until_complete(self.turns.stop())
        self.loop.close()


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNC_S", 3600.0)
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNCS", 1)
    monkeypatch.setattr("dray.daemon.pacing.pace.STALE_TURN_S", 3600.0)
    desk = Desk()
    yield desk
    desk.end()


def test_a_lone_session_is_answered_before_the_loop_looks_elsewhere(desk):
    desk.commit(1)
    assert desk.heard.answered == []
    desk.go_on()
    desk.commit(1)
    assert desk.heard.answered == [1, 1]


def test_a_lone_session_leaves_the_loop_nothing_to_come_back_to(desk, monkeypatch):
    desk.commit(1)
    desk.go_on()
    scheduled = []
    with monkeypatch.context() as patched:
        patched.setattr(desk.loop, "call_soon", lambda *each: scheduled.append(each))
        desk.commit(1)
    assert desk.heard.answered == [1, 1]
    assert scheduled == []


def test_what_was_decided_before_a_session_was_read_ends_with_its_pass(desk):
    desk.commit(1)
    desk.go_on()
    desk.turns.deliver(Tick())
    desk.commit(1)
    assert desk.heard.answered == [1, 1]
    desk.go_on()
    assert desk.heard.answered == [1, 1]


def test_what_several_sessions_say_in_one_pass_is_one_turn(desk):
    for session in (1, 2):
        desk.commit(session)
    desk.go_on()
    syncs = desk.turns._store.counters.syncs
    for session in (1, 2):
        desk.commit(session)
        assert desk.heard.answered == [1, 2]
    desk.go_on()
    assert desk.heard.answered == [1, 2, 1, 2]
    assert desk.turns._store.counters.syncs == syncs + 1


def test_nothing_is_done_where_nothing_came(desk):
    desk.commit(1)
    desk.go_on()
    desk.turns.nothing_more()
    assert desk.heard.answered == [1]


def test_a_pass_that_has_ended_does_not_end_again(desk, monkeypatch):
    desk.commit(1)
    desk.go_on()
    desk.commit(1)
    ended = []
    monkeypatch.setattr(desk.turns._pass, "_ended", lambda: ended.append(True))
    desk.loop.call_soon(desk.loop.stop)
    desk.loop.run_forever()
    assert ended == []


def test_a_lone_reader_is_answered_at_once_as_well(desk):
    for answers in range(1, 4):
        desk.turns.deliver(Request(1, Frame(frames.Describe(), 1, memoryview(b""))))
        desk.turns.nothing_more()
        assert len(desk.heard.answered) == answers - (answers == 1)
        desk.go_on()
        assert len(desk.heard.answered) == answers
