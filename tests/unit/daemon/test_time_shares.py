"""The share of a round that the frames of one caller have."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from dray.daemon.limits import CALLER_S
from dray.daemon.sockets.time_shares import TimeShares
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


class Rounds:
    """Shares in a loop that comes round when it is told to, on a machine that delays its thread."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.ready = []
        self.shares = TimeShares(self, lambda: self.delay_s)

    def call_soon(self, callback) -> None:
        self.ready.append(callback)

    def come_round(self) -> None:
        while self.ready:
            self.ready.pop()()

    def decide(self, place, own_s, delay_s=0.0) -> bool:
        """Have a frame of a caller decided, if it has time left; whether it was."""
        self.shares.begin()
        if self.shares.is_spent(place):
            return False
        self.delay_s += delay_s
        self.shares.spend(place, own_s + delay_s)
        return True


@pytest.fixture
def rounds():
    return Rounds()


def test_time_in_which_others_had_the_processor_is_not_the_callers(rounds):
    frames_decided = [rounds.decide("ada", CALLER_S / 4, 10 * CALLER_S) for _ in range(5)]
    assert frames_decided == [True, True, True, True, False]


def test_a_delay_before_a_round_spares_nobody_in_it(rounds):
    for _ in range(3):
        assert rounds.decide("ada", CALLER_S)
        assert not rounds.decide("ada", CALLER_S)
        rounds.delay_s += 10 * CALLER_S
        rounds.come_round()


def test_a_delay_in_the_frames_of_one_caller_spares_no_other(rounds):
    assert rounds.decide("ada", CALLER_S)
    assert rounds.decide("bob", CALLER_S / 2, 10 * CALLER_S)
    rounds.delay_s += 10 * CALLER_S
    assert not rounds.decide("ada", 0.0)
    assert rounds.decide("bob", CALLER_S)
    assert not rounds.decide("bob", 0.0)


def test_frames_on_a_busy_machine_are_decided_in_one_round(echo, monkeypatch):
    """So they share a sync: each cut would have been a group of its own."""
    monkeypatch.setattr("dray.daemon.sockets.time_shares.CALLER_S", 1e-9)
    monkeypatch.setattr("dray.daemon.sockets.time_shares.DELAYED_S_MIN", 0.0)
    with echo.session_of("user:ada") as ada, echo.session_of("user:bob") as bob:
        for client in (ada, bob):
            client.ask(queue_frames.Describe())
        begin = len(echo.manager.events)
        times = echo.servers[0]._around.times
        delay = iter(range(1, 1_000_000))
        monkeypatch.setattr(times, "_delayed_s", lambda: float(next(delay)))

        def say():
            ada.socket.sendall(ASK * 50)
            bob.socket.sendall(ASK)

        echo.daemon._in_loop(say)
        for client, many in ((bob, 1), (ada, 50)):
            for _ in range(many):
                client.hear_head(frames.Done)
        decided = requests(echo, begin)
        assert len(decided) == 51
        assert len(list(groupby(decided))) == 2, "each caller's frames are decided in one go"
