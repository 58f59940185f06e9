"""The core of a connection, without a connection."""

from __future__ import annotations

import pytest

from dray.client.connections.session import ClientSession, same_error
from dray.errors import ConnectionLost, LargeMessageHole, ProtocolError, QueueNotFound
from dray.wire.frames import Done, Failed, Hello, Leased, Welcome, failure
from dray.wire.message_frames import Commit
from dray.wire.queue_frames import Describe
from dray.wire.stream import Frame, FrameStream

NO_BODY = memoryview(b"")


def decoded(data):
    stream = FrameStream()
    stream.buffer()[: len(data)] = data
    (frame,) = stream.received(len(data))
    return frame


def test_an_answer_settles_the_request_of_its_id_and_no_other():
    session = ClientSession()
    first, first_frame = session.request(Commit(1, 0))
    second, second_frame = session.request(Describe())
    answer = Frame(Done(3), decoded(second_frame).request_id, NO_BODY)
    assert session.take(answer) is second
    assert (first.settled, second.settled) == (False, True)
    assert second.outcome() is answer
    assert decoded(first_frame).request_id != decoded(second_frame).request_id


def test_a_failure_becomes_the_error_of_its_code_with_its_fields():
    session = ClientSession()
    pending, frame = session.request(Describe())
    error = LargeMessageHole("a hole", sequence_id="x\\1", missing=[[2, 3], "trailer"])
    session.take(Frame(failure(error), decoded(frame).request_id, NO_BODY))
    with pytest.raises(LargeMessageHole, match="a hole") as caught:
        pending.outcome()
    assert caught.value.missing == [[2, 3], "trailer"]


def test_failures_under_a_listening_id_go_to_the_listener_until_it_lets_go():
    session, heard = ClientSession(), []
    request_id = session.listen(heard.append)
    for _ in range(2):
        session.take(Frame(Failed("queue-not-found", "gone"), request_id, NO_BODY))
    session.listen_no_more(request_id)
    session.take(Frame(Failed("queue-not-found", "late"), request_id, NO_BODY))
    assert [str(error) for error in heard] == ["gone", "gone"]
    assert isinstance(heard[0], QueueNotFound)


def test_a_failure_of_no_request_is_the_reason_of_the_connection():
    session = ClientSession()
    session.take(Frame(Failed("protocol-error", "bad frame"), 0, NO_BODY))
    assert isinstance(session.reason, ProtocolError)


def test_an_answer_that_nobody_asked_for_breaks_the_protocol():
    with pytest.raises(ProtocolError, match="Done"):
        ClientSession().take(Frame(Done(), 5, NO_BODY))


def test_a_lost_connection_ends_requests_and_tells_listeners():
    session, heard = ClientSession(), []
    pending, _ = session.request(Describe())
    session.listen(heard.append)
    assert session.lost(ConnectionLost("gone")) == [pending]
    with pytest.raises(ConnectionLost, match="gone"):
        pending.outcome()
    assert [type(error) for error in heard] == [ConnectionLost]


def test_numbers_come_from_the_lease_in_rows_and_never_twice():
    session = ClientSession()
    assert decoded(session.hello()[1]).head == Hello("client")
    session.welcomed(Welcome("0f" * 16, "name", "1", 1, 100, 5))
    assert (session.manager_id, session.source) == ("0f" * 16, b"\x0f" * 16)
    assert [session.numbers(2), session.numbers(3), session.numbers(1)] == [100, 102, None]
    session.leased(Leased(900, 1))
    assert [session.numbers(2), session.numbers(1), session.numbers(1)] == [None, 900, None]


@pytest.mark.parametrize("head", [Done(), Welcome("not hexadecimal", "", "", 1)])
def test_another_answer_than_a_welcome_breaks_the_protocol(head):
    with pytest.raises(ProtocolError):
        ClientSession().welcomed(head)


def test_request_ids_wrap_around_without_meeting_one_in_use():
    session = ClientSession()
    _, used = session.request(Describe())
    session._last_request_id = (1 << 32) - 1
    _, next_frame = session.request(Describe())
    assert decoded(used).request_id == 1
    assert decoded(next_frame).request_id == 2


def test_each_thread_gets_an_error_of_its_own():
    error = QueueNotFound("gone", queue="q")
    again = same_error(error)
    assert again is not error
    assert (type(again), str(again), again.queue) == (QueueNotFound, "gone", "q")
