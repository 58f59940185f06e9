"""The server as a whole: sessions and a clean end."""

from __future__ import annotations

import pytest

from dray.errors import DrayError
from dray.manager.events import SessionClosed, SessionOpened
from dray.wire import frames, large_frames, message_frames, queue_frames
from tests.unit.daemon.raw_client import connected


def test_every_session_is_announced_and_signed_off_once(echo, wait_until):
    for _ in range(10):
        with echo.client() as client, echo.tcp_client() as other:
            client.ask(queue_frames.Describe())
            other.ask(queue_frames.Describe())
    wait_until(lambda: echo.manager.open_sessions == 0)
    opened = [each.session for each in echo.manager.events if isinstance(each, SessionOpened)]
    closed = [each.session for each in echo.manager.events if isinstance(each, SessionClosed)]
    assert len(set(opened)) == 20
    assert sorted(opened) == sorted(closed)


def test_a_stop_answers_what_it_had_taken_and_keeps_it(echo_daemon):
    with echo_daemon("d") as echo:
        client = echo.client()
        for number in range(1, 51):
            client.say(message_frames.Commit(1, 0), number)
        client.hear()
        echo.stop()
        answered = 1
        try:
            while client.hear():
                answered += 1
        except (EOFError, ConnectionResetError):
            client.socket.close()
        commits = sum(
            isinstance(getattr(each, "frame", (None,))[0], message_frames.Commit)
            for each in echo.manager.events
        )
        assert answered == commits
    with echo_daemon("d") as echo:
        assert echo.manager.facts == [b"everything"]


def test_a_stop_waits_for_the_sync_that_is_under_way(echo_daemon):
    with echo_daemon("d") as echo, echo.client() as client:
        echo.gate.close()
        client.say(message_frames.Commit(1, 0), 1)
        assert echo.gate.waiting.wait(100)
        echo.daemon._in_loop(echo.daemon._stop_wanted.set)
        echo.gate.open.set()
        assert client.hear().request_id == 1
        assert client.is_hung_up()


def test_too_many_sessions_are_turned_away(echo, monkeypatch):
    monkeypatch.setattr("dray.daemon.server.sessions_max", lambda: 1)
    monkeypatch.setattr("dray.daemon.server.SESSIONS_OF_EMBEDDED_MIN", 1)
    with echo.client() as first:
        first.ask(queue_frames.Describe())
        with echo.tcp_client() as second:
            assert second.is_hung_up()
        first.ask(queue_frames.Describe())


def test_one_who_never_spoke_makes_room_for_others_of_the_same_caller(echo, monkeypatch):
    """A peer took all sessions by saying nothing, and others were refused for ten seconds each."""
    monkeypatch.setattr("dray.daemon.server.sessions_max", lambda: 8)
    monkeypatch.setattr("dray.daemon.server.SESSIONS_OF_EMBEDDED_MIN", 2)
    with echo.tcp_client() as first:
        first.ask(queue_frames.Describe())
        with echo.tcp_client() as silent, echo.tcp_client() as third:
            third.ask(queue_frames.Describe())
            assert silent.is_hung_up()
            with echo.tcp_client() as fourth:
                assert fourth.is_hung_up()
            with echo.client() as owner:
                owner.ask(queue_frames.Describe())
            first.ask(queue_frames.Describe())


def test_an_answer_that_fits_no_frame_becomes_a_failure(echo):
    with echo.client() as client:
        client.ask(message_frames.Send(0, 0, [], []), 1, b"x" * (3 << 20))
        extent = echo.manager.records[0]
        echo.manager.records[0] = extent._replace(length=5 << 20)
        failed = client.ask(large_frames.ReadPart(0, 0, 0, 5 << 20), 2).head
        assert isinstance(failed, frames.Failed)
        echo.manager.records[0] = extent
        assert len(client.ask(large_frames.ReadPart(0, 0, 0, 3 << 20), 3).body) == 3 << 20


def test_the_ready_line_names_who_and_where(echo):
    (server,) = echo.servers
    assert server.describe() == (
        f'dray: manager "echo" ({"e" * 32}) ready at {echo.daemon.addresses[0]}'
    )
    with connected(echo.daemon.addresses[0]) as client:
        client.ask(queue_frames.Describe())


def test_what_nobody_foresaw_ends_the_daemon_and_leaves_nobody_waiting(echo, caplog):
    with echo.client() as client:
        client.ask(queue_frames.Describe())
        echo.gate.close()
        client.say(message_frames.Commit(1, 0), 2)
        assert echo.gate.waiting.wait(100)

        def fail() -> None:
            raise ZeroDivisionError

        echo.daemon._in_loop(fail)
        frame = client.hear()
        assert frame.request_id == 2
        assert isinstance(frame.head, frames.Failed)
        echo.gate.open.set()
        assert client.is_hung_up()
    with pytest.raises(DrayError, match="failed unexpectedly"):
        echo.daemon.stop()
    assert "ZeroDivisionError" in caplog.text


def test_a_caller_that_says_nothing_gives_its_place_back(echo, monkeypatch):
    monkeypatch.setattr("dray.daemon.server.HELLO_S", 0.05)
    with echo.tcp_client() as silent, echo.tcp_client() as half:
        half.socket.sendall(b"DRAY")
        for client in (silent, half):
            with pytest.raises((EOFError, ConnectionResetError)):
                client.hear()


def one_that_spoke_in_time(echo):
    """A client whose first frame was there before its time was over: on a busy machine not all."""
    for _ in range(1_000):
        client = echo.tcp_client()
        try:
            client.ask(queue_frames.Describe())
        except (EOFError, ConnectionResetError, BrokenPipeError):
            client.socket.close()
        else:
            return client
    raise AssertionError("nobody can speak in time")


def test_a_caller_that_has_spoken_may_be_silent_for_ever(echo, monkeypatch, wait_until):
    monkeypatch.setattr("dray.daemon.server.HELLO_S", 0.05)
    with one_that_spoke_in_time(echo) as spoken, echo.tcp_client() as silent:
        with pytest.raises((EOFError, ConnectionResetError)):
            silent.hear()
        wait_until(lambda: echo.manager.open_sessions == 1)
        spoken.ask(queue_frames.Describe())
