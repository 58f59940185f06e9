"""Calls into a queue manager of this program: who decides, who syncs, who waits for whom."""

from __future__ import annotations

import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dray.daemon.limits import INTAKE_SMALL_BYTES_MAX
from dray.errors import ConnectionLost, DrayError, Misuse, StorePoisoned
from dray.manager.events import Request, SessionClosed
from dray.wire.file_frames import Copied, CopyPart, SendFile
from dray.wire.frames import Done, Failed, Lease
from dray.wire.large_frames import Range, ReadPart
from dray.wire.message_frames import Abort, Commit, Send
from dray.wire.queue_frames import Describe
from dray.wire.stream import Frame
from tests.unit.daemon.conftest import EchoDaemon

PATIENCE_S = 100
MAIN = threading.main_thread().name


class Asked:
    """One request and its answer."""

    def __init__(self):
        self.signal = None
        self.frame = None

    @property
    def settled(self):
        return self.frame is not None


class Program:
    """A program that calls; its threads may share it."""

    def __init__(self, daemon):
        self._asked = {}
        self._last = 0
        self._lock = threading.Lock()
        self.hung_up = threading.Event()
        self.calls = daemon.call_directly(self._take, self._end)

    def _take(self, frame):
        asked = self._asked.pop(frame.request_id)
        asked.frame = frame
        if asked.signal:
            asked.signal.set()

    def _end(self):
        self.hung_up.set()

    def begin(self, head, body=b"", file=None, *, waits=True):
        with self._lock:
            self._last += 1
            number = self._last
        asked = self._asked[number] = Asked()
        frame = Frame(head, number, memoryview(body))
        self.calls.say(frame, file, asked if waits else None)
        return asked

    def hear(self, asked):
        signal = threading.Event()
        while not self.calls.wait(asked, signal):
            assert signal.wait(PATIENCE_S)
            signal.clear()
        return asked.frame.head

    def ask(self, head, body=b"", file=None):
        return self.hear(self.begin(head, body, file))


@pytest.fixture
def echo(tmp_path):
    daemon = EchoDaemon(tmp_path / "data")
    yield daemon
    daemon.stop()


@pytest.fixture
def program(echo):
    return Program(echo.daemon)


def commit(number=1):
    return Commit(number, 0)


def test_a_lone_caller_runs_its_sync_itself_and_has_its_answer_at_once(echo, program):
    program.ask(commit())
    echo.servers[-1].turns.syncs._pace._overdrawn_s = 0.0
    echo.gate.threads.clear()
    asked = program.begin(commit())
    assert asked.settled
    assert set(echo.gate.threads) == {MAIN}


def test_a_log_that_is_synced_alone_is_synced_by_a_worker_too_on_a_busy_machine(echo, program):
    program.ask(commit())
    echo.servers[-1].turns.syncs._pace.took(1000.0, 0)
    echo.gate.threads.clear()
    assert program.begin(commit()).settled
    assert sorted(echo.gate.threads) == [MAIN, "dray-sync-1"]


def test_on_a_slow_disk_a_worker_syncs_the_log_at_the_same_time(echo, program):
    program.ask(commit())
    echo.servers[-1].turns.syncs._pace.took(1000.0, 0)
    echo.gate.threads.clear()
    assert program.begin(Send(1, 0, [4], [0]), b"abcd").settled
    assert sorted(echo.gate.threads) == [MAIN, "dray-sync-1"]


def test_on_a_quick_disk_the_caller_syncs_heap_and_log(echo, program):
    program.ask(commit())
    echo.servers[-1].turns.syncs._pace._overdrawn_s = 0.0
    echo.gate.threads.clear()
    assert program.begin(Send(1, 0, [4], [0]), b"abcd").settled
    assert echo.gate.threads == [MAIN, MAIN]


def assert_ended(echo, program, *answers):
    for head in answers:
        assert isinstance(head, Failed)
        assert head.error == "store-poisoned"
    assert program.hung_up.wait(PATIENCE_S)
    echo.gate.broken = False
    with pytest.raises(DrayError, match="the test broke it"):
        echo.daemon.stop()


def test_a_worker_that_fails_beside_a_caller_fails_the_sync(echo, program, wait_until):
    program.ask(commit())
    echo.servers[-1].turns.syncs._pace.took(1000.0, 0)
    echo.gate.broken = True
    assert_ended(echo, program, program.ask(Send(1, 0, [4], [0]), b"abcd"))


def test_an_answer_that_rests_on_no_fact_needs_no_sync(echo, program):
    before = echo.gate.passed
    assert program.begin(Describe()).settled
    assert echo.gate.passed == before


def test_the_answer_is_not_there_before_the_sync(echo, program):
    echo.gate.close()
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(program.begin, commit())
        assert echo.gate.waiting.wait(PATIENCE_S)
        assert not waits.done()
        assert not any(each.settled for each in program._asked.values())
        echo.gate.open.set()
        assert waits.result(PATIENCE_S).settled


def test_callers_decide_while_another_syncs_and_share_the_next_sync(echo, program, wait_until):
    """The first syncs for itself; all others, who come meanwhile, are synced for by one of them."""
    program.ask(commit())
    pace = echo.servers[-1].turns.syncs._pace
    pace.is_quick = lambda _: True
    echo.gate.close()
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(program.ask, commit())
        assert echo.gate.waiting.wait(PATIENCE_S)
        decided = len(echo.manager.events)
        others = [threads.submit(program.ask, commit()) for _ in range(7)]
        wait_until(lambda: len(echo.manager.events) == decided + 7)
        echo.gate.passed = 0
        echo.gate.threads.clear()
        echo.gate.open.set()
        assert all(isinstance(each.result(PATIENCE_S), Done) for each in (first, *others))
    assert echo.gate.passed == 2
    assert all(name.startswith("ThreadPoolExecutor") for name in echo.gate.threads)


def test_what_was_begun_and_not_waited_for_is_synced_by_the_workers(echo, program, wait_until):
    asked = program.begin(commit(), waits=False)
    wait_until(lambda: asked.settled)


def test_the_sync_for_one_who_went_away_is_run_by_the_workers(echo, program, wait_until):
    echo.gate.close()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(program.ask, commit())
        assert echo.gate.waiting.wait(PATIENCE_S)
        asked = program.begin(commit())
        assert not program.calls.wait(asked, threading.Event())
        program.calls.give_up(asked)
        echo.gate.open.set()
        assert isinstance(first.result(PATIENCE_S), Done)
        wait_until(lambda: asked.settled)


def test_one_who_was_woken_to_sync_and_goes_away_leaves_it_to_another(echo, program, wait_until):
    echo.gate.close()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(program.ask, commit())
        assert echo.gate.waiting.wait(PATIENCE_S)
        woken = threading.Event()
        asked = program.begin(commit())
        assert not program.calls.wait(asked, woken)
        echo.gate.open.set()
        assert isinstance(first.result(PATIENCE_S), Done)
        assert woken.wait(PATIENCE_S)
        assert not asked.settled
        program.calls.give_up(asked)
        wait_until(lambda: asked.settled)


def test_a_socket_and_a_caller_share_a_sync(echo, program, wait_until):
    with echo.client() as client:
        client.ask(commit())
        echo.gate.close()
        with ThreadPoolExecutor() as threads:
            called = threads.submit(program.ask, commit())
            assert echo.gate.waiting.wait(PATIENCE_S)
            decided = len(echo.manager.events)
            client.say(commit())
            wait_until(lambda: len(echo.manager.events) == decided + 1)
            echo.gate.open.set()
            assert isinstance(called.result(PATIENCE_S), Done)
            client.hear_head(Done)


def test_a_failed_sync_of_a_caller_is_the_answer_of_all_and_the_end(echo, program, wait_until):
    program.ask(commit())
    echo.gate.close()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(program.ask, commit())
        assert echo.gate.waiting.wait(PATIENCE_S)
        decided = len(echo.manager.events)
        second = threads.submit(program.ask, commit())
        wait_until(lambda: len(echo.manager.events) == decided + 1)
        echo.gate.broken = True
        echo.gate.open.set()
    assert_ended(echo, program, first.result(PATIENCE_S), second.result(PATIENCE_S))


def test_an_interrupt_waits_for_the_end_of_the_decision_and_of_the_sync(echo, program):
    class StoppedHereError(Exception):
        pass

    def interrupt(_number, _frame):
        raise StoppedHereError

    program.ask(commit())
    handle, seen = echo.manager.handle, []

    def interrupted(event, now):
        signal.raise_signal(signal.SIGUSR1)
        effects = handle(event, now)
        seen.append(event)
        return effects

    echo.manager.handle = interrupted
    before = signal.signal(signal.SIGUSR1, interrupt)
    facts = len(echo.manager.facts)
    try:
        with pytest.raises(StoppedHereError):
            program.ask(commit())
    finally:
        signal.signal(signal.SIGUSR1, before)
        echo.manager.handle = handle
    assert len(seen) == 1
    assert not program._asked, "it was answered before the handler ran"
    assert isinstance(program.ask(commit()), Done)
    assert len(echo.manager.facts) == facts or facts == 0


def test_an_exception_that_comes_through_ends_the_queue_manager_and_writes_nothing(
    echo, program, tmp_path
):
    """What a debugger throws into a thread is held back by nothing."""
    program.ask(commit())

    class ThrownInError(BaseException):
        pass

    def broken_off(event, now):
        if isinstance(event, Request):
            echo.manager.store.append(b"half a decision")
            raise ThrownInError
        return []

    echo.manager.handle = broken_off
    with pytest.raises(ThrownInError):
        program.begin(commit())
    assert program.hung_up.wait(PATIENCE_S)
    with pytest.raises(StorePoisoned, match="broken off by ThrownInError"):
        echo.daemon.stop()
    again = EchoDaemon(tmp_path / "data")
    assert b"half a decision" not in again.manager.facts
    again.stop()


def test_a_call_out_of_a_decision_is_refused_and_not_waited_for_for_ever(echo, program):
    refused = []

    class Calls(logging.Handler):
        def emit(self, _record):
            try:
                program.ask(commit())
            except Misuse as error:
                refused.append(str(error))

    handler = Calls(logging.ERROR)
    logging.getLogger("dray").addHandler(handler)
    try:
        assert isinstance(program.ask(Lease()), Failed)
    finally:
        logging.getLogger("dray").removeHandler(handler)
    assert len(refused) == 1
    assert "make the call in another thread" in refused[0]


def test_a_session_that_the_manager_closes_has_its_last_answer_first(echo, program):
    asked = program.begin(Abort(1))
    assert isinstance(asked.frame.head, Done)
    assert program.hung_up.is_set()
    program.begin(commit())
    assert any(isinstance(each, SessionClosed) for each in echo.manager.events)


def test_the_end_of_a_session_is_told_once(echo, program):
    program.calls.end()
    program.calls.end()
    assert sum(isinstance(each, SessionClosed) for each in echo.manager.events) == 1


def test_a_stopped_daemon_has_ended_all_sessions_and_opens_none(echo, program):
    echo.stop()
    assert program.hung_up.is_set()
    program.begin(commit())
    with pytest.raises(ConnectionLost, match="open it again"):
        Program(echo.daemon)


def test_a_caller_waits_while_the_turns_are_overfull(echo, program, wait_until, monkeypatch):
    server, room = echo.servers[-1], program.calls._session.room
    overfull = type(server).overfull
    monkeypatch.setattr(type(server), "overfull", True)
    room.set()
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(program.ask, Describe())
        wait_until(lambda: not room.is_set())
        assert not waits.done()

        def go_on():
            monkeypatch.setattr(type(server), "overfull", overfull)
            server.reconsider()

        echo.servers[-1]._loop.call_soon_threadsafe(go_on)
        assert waits.result(PATIENCE_S)


def test_a_large_body_waits_while_the_disk_has_enough(echo, program, wait_until):
    intake = echo.servers[-1]._around.intake
    backlog = intake._backlog
    unsynced = backlog._unsynced_bytes
    backlog._unsynced_bytes = lambda: 1 << 40
    body = bytes(INTAKE_SMALL_BYTES_MAX + 1)
    with ThreadPoolExecutor() as threads:
        assert not program.begin(Send(1, 1, [1], [0]), b"x").settled
        large = threads.submit(program.begin, Send(1, 1, [len(body)], [0]), body)
        wait_until(lambda: backlog.waiting)
        assert not large.done()
        backlog._unsynced_bytes = unsynced
        echo.servers[-1]._loop.call_soon_threadsafe(backlog.shrank)
        large.result(PATIENCE_S)


def test_a_lent_file_is_read_by_the_queue_manager(echo, program, tmp_path):
    path = tmp_path / "lent"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        head = program.ask(SendFile(1, 1, 3 + 4, 0, 2), b"abc", file.fileno())
    assert head == Done(7)
    assert echo.manager.store.read(echo.manager.records[-1]) == b"abc2345"


def test_a_record_is_copied_into_a_lent_file(echo, program, tmp_path):
    program.ask(Send(1, 0, [10], [0]), b"0123456789")
    number = len(echo.manager.records) - 1
    path = tmp_path / "lent"
    path.write_bytes(b"")
    with path.open("r+b") as file:
        asked = program.begin(CopyPart(1, number, 2, 8, 3), b"", file.fileno(), waits=False)
        head = program.hear(asked)
    assert isinstance(head, Copied)
    assert bytes(asked.frame.body) == b"01"
    assert path.read_bytes() == b"\0\0\0" + b"23456789"
    assert not [
        each for each in Path("/proc/self/fd").iterdir() if os.path.realpath(each) == str(path)
    ]


def test_bytes_of_records_come_with_the_answer(echo, program):
    program.ask(Send(1, 0, [10], [0]), b"0123456789")
    number = len(echo.manager.records) - 1
    asked = program.begin(ReadPart(1, number, 0, 10))
    assert isinstance(asked.frame.head, Range)
    assert bytes(asked.frame.body) == b"0123456789"
