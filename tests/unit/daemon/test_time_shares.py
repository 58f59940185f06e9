"""The share of a round that the frames of one caller have."""

from __future__ import annotations

from collections import Counter

from dray.manager.events import LinkFrame, Request
from dray.wire import frames, peer_frames, queue_frames
from tests.unit.daemon.test_links import accepted, dial, listening

ASK = frames.encode_frame(queue_frames.Describe(), 1)


def requests(echo, begin):
    """The sessions of the requests that were decided, in that order."""
    return [each.session for each in echo.manager.events[begin:] if isinstance(each, Request)]


def test_frames_of_a_caller_that_had_its_time_wait_and_those_of_others_do_not(echo, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.time_shares.CALLER_S", 1e-9)
    with (
        echo.session_of("user:ada") as ada,
        echo.session_of("user:ada") as again,
        echo.session_of("user:bob") as bob,
    ):
        for client in (ada, again, bob):
            client.ask(queue_frames.Describe())
        first, second, his = requests(echo, 0)
        begin = len(echo.manager.events)

        def say():
            ada.socket.sendall(ASK * 50)
            again.socket.sendall(ASK * 50)
            bob.socket.sendall(ASK)

        # The loop finds all of it at once.
        echo.daemon._in_loop(say)
        for client, many in ((bob, 1), (ada, 50), (again, 50)):
            for _ in range(many):
                client.hear_head(frames.Done)
        decided = requests(echo, begin)
        assert decided.index(his) <= 1
        assert Counter(decided) == {first: 50, second: 50, his: 1}


def test_a_caller_that_hangs_up_with_frames_that_wait_leaves_nothing(echo, monkeypatch, wait_until):
    monkeypatch.setattr("dray.daemon.sockets.time_shares.CALLER_S", 1e-9)
    with echo.session_of("user:ada") as ada:
        ada.ask(queue_frames.Describe())
        ada.socket.sendall(ASK * 2_000)
    wait_until(lambda: echo.manager.open_sessions == 0)
    wait_until(lambda: not echo.servers[0]._around.times._spent)


def test_the_owner_has_no_share_of_time(echo, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.time_shares.CALLER_S", 0.0)
    with echo.client() as owner:
        owner.socket.sendall(ASK * 50)
        for _ in range(50):
            owner.hear_head(frames.Done)


def test_frames_of_a_destination_that_had_its_time_wait_too(echo, monkeypatch, wait_until):
    monkeypatch.setattr("dray.daemon.sockets.time_shares.CALLER_S", 1e-9)
    server, peer = listening()
    with server, echo.client() as client:
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            begin = len(echo.manager.events)

            def say():
                other.socket.sendall(frames.encode_frame(peer_frames.StreamState(1, 2, 3), 0) * 50)
                client.socket.sendall(ASK)

            echo.daemon._in_loop(say)
            client.hear_head(frames.Done)
            wait_until(lambda: echo.manager.count(LinkFrame) == 50)
            said = [type(each) for each in echo.manager.events[begin:]]
            assert [each for each in said if each in (LinkFrame, Request)].index(Request) <= 1
