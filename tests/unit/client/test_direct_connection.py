"""A connection whose requests are calls: frames, answers, and every way in which it can end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dray.client.connections.direct_connection import DirectConnection
from dray.client.connections.threads import run
from dray.errors import (
    ConnectionLost,
    InvalidArgument,
    ProtocolError,
    ReceiveTimeout,
    StorePoisoned,
)
from dray.wire.frames import Done, Failed, Hello, Welcome, encode_frame, failure
from dray.wire.message_frames import Abort, Outcome, Send
from dray.wire.queue_frames import Describe, OpenQueue
from dray.wire.stream import Frame

PATIENCE_S = 100
NOTHING = memoryview(b"")


class Manager:
    """Answers with what a test lays out; a frame without an answer waits."""

    def __init__(self):
        self.heard = []
        self.files = []
        self.answers = {
            Hello: Welcome(
                "e" * 32, "echo", "0", 1, first_number=1, number_count=100, takes_files=True
            )
        }
        self.ended = 0
        self.signals = {}
        self.given_up = []
        self.stands_in_line = threading.Event()

    def open(self, take, hung_up):
        self.take, self.hung_up = take, hung_up
        return self

    def say(self, frame, file, until):
        assert until is None or not until.settled
        self.heard.append(frame._replace(body=bytes(frame.body)))
        self.files.append(file)
        answer = self.answers.get(type(frame.head))
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None and frame.request_id:
            self.take(Frame(answer, frame.request_id, NOTHING))

    def wait(self, pending, signal):
        pending.signal = signal
        self.stands_in_line.set()
        return pending.settled

    def give_up(self, pending):
        self.given_up.append(pending)

    def end(self):
        self.ended += 1


@pytest.fixture
def manager():
    return Manager()


@pytest.fixture
def connection(manager):
    connection = DirectConnection(manager.open, "the manager of the test")
    run(connection.greet())
    return connection


def test_a_greeting_tells_whose_manager_it_is_and_what_it_takes(connection):
    assert connection.manager_id == "e" * 32
    assert connection.takes_files
    assert run(connection.numbers(2)) == 1


def test_a_request_is_answered_by_the_call(manager, connection):
    manager.answers[Outcome] = Done(3)
    assert run(connection.ask(Outcome("x"), Done)).count == 3


def test_a_body_in_pieces_is_heard_as_one(manager, connection):
    manager.answers[Send] = Done(1)
    run(connection.call(Send(1, 0, [5], [0]), Done, body=[b"ab", b"", b"cde"]))
    assert manager.heard[-1].body == b"abcde"


def test_frames_before_a_request_are_heard_before_it(manager, connection):
    manager.answers[Outcome] = Done()
    connection.leave(Abort(7))
    before = [encode_frame(Send(1, 2, [3], [0]), 0, 3), b"abc", b""]
    run(connection.call(Outcome("x"), Done, before=before))
    assert [type(each.head) for each in manager.heard] == [Hello, Abort, Send, Outcome]
    assert manager.heard[2].body == b"abc"


def test_what_is_posted_is_heard_whole(manager, connection):
    run(connection.post([encode_frame(Send(1, 2, [4], [0]), 9, 4), b"a", b"bcd"]))
    assert (manager.heard[-1].request_id, manager.heard[-1].body) == (9, b"abcd")


def test_a_file_is_lent_with_its_frame_only(manager, connection):
    run(connection.start(Describe(), file=5))
    run(connection.start(Describe()))
    assert manager.files[-2:] == [5, None]


def test_a_refusal_is_raised(manager, connection):
    manager.answers[Outcome] = failure(ReceiveTimeout("nothing came"))
    with pytest.raises(ReceiveTimeout):
        run(connection.ask(Outcome("x"), Done))
    assert connection.alive


def test_a_value_of_a_wrong_type_is_refused_before_it_is_heard(manager, connection):
    heard = len(manager.heard)
    with pytest.raises(InvalidArgument):
        run(connection.ask(OpenQueue(5), Done))
    assert len(manager.heard) == heard
    assert connection.alive


def test_an_answer_that_comes_later_wakes_the_thread_that_waits(manager, connection):
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(lambda: run(connection.ask(Outcome("x"), Done)))
        assert manager.stands_in_line.wait(PATIENCE_S)
        manager.take(Frame(Done(4), manager.heard[-1].request_id, NOTHING))
        assert waits.result(PATIENCE_S) == Done(4)


def test_silence_past_its_time_ends_the_connection(manager, connection):
    with pytest.raises(ConnectionLost, match="did not answer in time"):
        run(connection.ask(Outcome("x"), Done, 0.01))
    assert not connection.alive
    assert (len(manager.given_up), manager.ended) == (1, 1)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), ProtocolError("damaged")])
def test_a_call_that_breaks_off_gives_the_connection_up(manager, connection, interrupt):
    manager.answers[Outcome] = interrupt
    with pytest.raises(type(interrupt)):
        run(connection.ask(Outcome("x"), Done))
    assert not connection.alive
    with pytest.raises(
        ConnectionLost if isinstance(interrupt, KeyboardInterrupt) else ProtocolError
    ):
        run(connection.ask(Describe(), Done))


def test_the_end_of_the_session_is_told_to_those_who_wait_with_its_reason(manager, connection):
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(lambda: run(connection.ask(Outcome("x"), Done)))
        assert manager.stands_in_line.wait(PATIENCE_S)
        manager.take(Frame(Failed("store-poisoned", "the disk broke"), 0, NOTHING))
        manager.hung_up()
        with pytest.raises(StorePoisoned, match="the disk broke"):
            waits.result(PATIENCE_S)


def test_an_answer_to_nothing_ends_the_connection(manager, connection):
    manager.take(Frame(Done(), 99, NOTHING))
    assert isinstance(connection.lost, ProtocolError)


def test_closing_ends_the_session(manager, connection):
    connection.close()
    connection.close()
    assert manager.ended == 1
    with pytest.raises(ConnectionLost, match="closed the connection"):
        run(connection.ask(Describe(), Done))


def test_a_session_that_ends_while_it_opens_leaves_a_lost_connection(manager):
    def opened(take, hung_up):
        hung_up()
        return manager

    assert not DirectConnection(opened, "the manager of the test").alive
    assert manager.ended == 0
