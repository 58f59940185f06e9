"""Memory for frames that are not whole yet: one share for all, and nobody keeps it for ever."""

from __future__ import annotations

from collections import deque

import pytest

from dray.daemon.limits import (
    BACKLOG_BYTES_MAX,
    FRAME_LOOK_S,
    FRAME_S,
    INTAKE_BYTES_MAX,
    INTAKE_BYTES_OF_SMALL,
    INTAKE_SHARE,
)
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.sockets import intake
from dray.daemon.sockets.intake import Intake
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.wire import frames, message_frames, queue_frames
from dray.wire.stream import READ_BYTES
from tests.cost import Costs

BODY = 200_000
"""Large: its memory is that of the largest body."""
HOLDERS = INTAKE_BYTES_MAX // FRAME_BODY_BYTES_MAX
SMALL = 100_000


class Loop:
    """As much of a loop as an intake needs, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.unsynced = 0
        self.soon: deque = deque()
        self.timers: list = []

    def time(self):
        return self.now

    def call_soon(self, what):
        self.soon.append(what)

    def call_at(self, at, what):
        self.timers.append((at, what))

    def advance(self, seconds):
        self.now += seconds
        due = [what for at, what in self.timers if at <= self.now]
        self.timers = [(at, what) for at, what in self.timers if at > self.now]
        for what in due:
            what()


class Caller:
    def __init__(self, taking: Intake, size: int, place: str = "", progress: float = 0.0) -> None:
        self.intake, self.size = taking, size
        self.place, self.progress = place, progress
        self.told: list[str] = []
        self.served = taking.grant(self, size)

    def room_came(self):
        self.served = self.intake.grant(self, self.size)

    def hold_up(self, reason):
        self.told.append(reason)
        self.intake.forget(self)

    def finish(self):
        self.intake.holds(self, 0, anew=True)


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def taking(loop):
    return Intake(loop, DiskBacklog(lambda: loop.unsynced, loop.call_soon))


def test_little_is_read_ahead_while_some_wait_for_memory(taking):
    assert taking.read_bytes == READ_BYTES
    callers = large(taking, HOLDERS + 1)
    assert taking.read_bytes < READ_BYTES
    taking.forget(callers[-1])
    assert taking.read_bytes == READ_BYTES


def run(loop):
    while loop.soon:
        loop.soon.popleft()()


def large(taking, count):
    return [Caller(taking, FRAME_BODY_BYTES_MAX) for _ in range(count)]


def test_who_finds_no_room_is_served_in_line_when_there_is_some(loop, taking):
    callers = large(taking, HOLDERS + 2)
    assert [caller.served for caller in callers] == [True] * HOLDERS + [False, False]
    assert taking.bytes_held == INTAKE_BYTES_MAX
    for number, caller in enumerate(callers[:2]):
        caller.finish()
        run(loop)
        assert [each.served for each in callers[HOLDERS:]] == [True, number > 0]
    assert taking.bytes_held == INTAKE_BYTES_MAX


def test_small_frames_pass_while_large_ones_stand_in_line(taking):
    large(taking, HOLDERS + 1)
    small = [Caller(taking, SMALL) for _ in range(INTAKE_BYTES_OF_SMALL // SMALL + 1)]
    assert [caller.served for caller in small] == [True] * (len(small) - 1) + [False]


def test_nobody_overtakes_in_the_line(loop, taking):
    callers = large(taking, HOLDERS + 1)
    callers[0].intake.holds(callers[0], FRAME_BODY_BYTES_MAX // 2, anew=False)
    late = Caller(taking, FRAME_BODY_BYTES_MAX // 2)
    assert not late.served, "it would fit, but another one was there first"


def test_who_goes_away_leaves_its_room_and_its_place_in_the_line(loop, taking):
    callers = large(taking, HOLDERS + 2)
    taking.forget(callers[HOLDERS])
    taking.forget(callers[0])
    run(loop)
    assert callers[-1].served
    for caller in callers:
        taking.forget(caller)
    assert taking.bytes_held == 0


def test_who_goes_away_when_its_turn_has_come_passes_it_on(loop, taking):
    callers = large(taking, HOLDERS + 2)
    callers[0].finish()
    taking.forget(callers[HOLDERS])
    loop.soon.popleft()
    run(loop)
    assert callers[-1].served


def test_who_holds_its_room_too_long_is_ended_if_others_wait(loop, taking):
    callers = large(taking, HOLDERS)
    loop.advance(10 * FRAME_S)
    waiting = Caller(taking, FRAME_BODY_BYTES_MAX)
    for caller in callers[1:]:
        taking.holds(caller, FRAME_BODY_BYTES_MAX, anew=True)
        caller.progress = 0.5
    loop.advance(FRAME_S / 2)
    run(loop)
    assert len(callers[0].told) == 1
    assert waiting.served
    assert not any(caller.told for caller in callers[1:])


def test_slow_holders_of_half_bodies_give_their_room_up_after_seconds(loop, taking):
    """They kept it for half a minute, and an honest sender of 40 MB waited all that time."""
    slow, quick = large(taking, HOLDERS - 1), Caller(taking, FRAME_BODY_BYTES_MAX)
    waiting = Caller(taking, FRAME_BODY_BYTES_MAX)
    for _ in range(5):
        loop.advance(FRAME_LOOK_S)
        quick.progress += FRAME_LOOK_S / FRAME_S
        run(loop)
    assert waiting.served
    assert slow[0].told
    assert not quick.told


def test_a_caller_has_its_share_and_others_do_not_wait_for_it(loop, taking):
    share = HOLDERS // INTAKE_SHARE
    mallory = [Caller(taking, FRAME_BODY_BYTES_MAX, "mallory") for _ in range(HOLDERS)]
    others = [Caller(taking, FRAME_BODY_BYTES_MAX, "alice"), Caller(taking, FRAME_BODY_BYTES_MAX)]
    assert [caller.served for caller in mallory] == [True] * share + [False] * (HOLDERS - share)
    assert all(caller.served for caller in others)
    mallory[0].finish()
    run(loop)
    assert [caller.served for caller in mallory].count(True) == share + 1


def test_frames_cost_the_same_however_many_connections_of_a_caller_wait_for_memory(loop, taking):
    """Each small frame looked at every connection in the line: 1,001 hostile ones, 7,000 calls."""
    honest = Caller(taking, SMALL)

    def cost():
        costs = Costs()
        costs.of("whole", lambda: taking.holds(honest, SMALL, anew=True))
        costs.of("new", lambda: Caller(taking, SMALL))
        return costs.most

    mallory = [Caller(taking, FRAME_BODY_BYTES_MAX, "mallory") for _ in range(HOLDERS)]
    few = cost()
    mallory += [Caller(taking, FRAME_BODY_BYTES_MAX, "mallory") for _ in range(500)]
    costs = Costs(lines_max=300)
    costs.of("room", mallory[0].finish)
    costs.check()
    assert cost() == few


def test_a_caller_that_proves_who_it_is_gives_back_where_it_took(loop, taking):
    """A token moved a connection to another place, and what it held was counted there as less."""
    caller = Caller(taking, FRAME_BODY_BYTES_MAX, "nobody at 192.0.2.1")
    mallory = [Caller(taking, FRAME_BODY_BYTES_MAX, "mallory") for _ in range(HOLDERS)]
    share = HOLDERS // INTAKE_SHARE
    caller.place = "mallory"
    caller.finish()
    run(loop)
    assert [each.served for each in mallory].count(True) == share


def test_without_a_line_nobody_is_hurried(loop, taking):
    callers = large(taking, HOLDERS)
    waiting = Caller(taking, FRAME_BODY_BYTES_MAX)
    taking.forget(waiting)
    loop.advance(10 * FRAME_S)
    assert not any(caller.told for caller in callers)
    assert not loop.timers


def test_large_bodies_wait_for_the_disk_and_small_ones_do_not(loop, taking):
    loop.unsynced = BACKLOG_BYTES_MAX + 1
    callers, small = large(taking, 3), Caller(taking, SMALL)
    assert [caller.served for caller in callers] == [False] * 3
    assert small.served
    taking.forget(callers[0])
    loop.unsynced = 0
    taking._backlog.shrank()
    run(loop)
    assert [caller.served for caller in callers] == [False, True, True]


def test_who_waits_for_the_disk_hurries_nobody_who_holds_memory(loop, taking):
    (holder,) = large(taking, 1)
    loop.unsynced = BACKLOG_BYTES_MAX + 1
    large(taking, 3)
    loop.advance(10 * FRAME_S)
    assert not holder.told


# ------------------------------------------------------------------------- in a daemon that runs


def begin(client, kept):
    """Send all of a large frame but its last `kept` bytes."""
    said = frames.encode_frame(message_frames.Send(0, 0, [], []), 1, BODY) + bytes(BODY)
    client.socket.sendall(said[: len(said) - kept])
    return said[len(said) - kept :]


@pytest.mark.slow
def test_half_received_frames_of_many_callers_hold_bounded_memory(echo, wait_until):
    """Those beyond the bound wait in the kernel, nobody is turned away, and requests pass."""
    server = echo.servers[-1]
    clients = [echo.client() for _ in range(3 * HOLDERS)]
    rests = [begin(client, 150_000) for client in clients]
    most = INTAKE_BYTES_MAX + len(clients) * READ_BYTES
    wait_until(lambda: INTAKE_BYTES_MAX <= server._around.intake.bytes_held <= most)
    with echo.client() as small:
        assert isinstance(small.ask(queue_frames.Describe()).head, frames.Done)
    assert INTAKE_BYTES_MAX <= server._around.intake.bytes_held <= most
    assert echo.manager.records == []
    for client, rest in zip(clients, rests, strict=True):
        client.socket.sendall(rest)
        assert isinstance(client.hear().head, frames.Done)
        client.socket.close()
    assert len(echo.manager.records) == len(clients)
    wait_until(lambda: server._around.intake.bytes_held == 0)


@pytest.mark.slow
def test_callers_who_never_finish_are_ended_when_others_need_the_room(echo, monkeypatch):
    monkeypatch.setattr(intake, "FRAME_S", 0.1)
    monkeypatch.setattr(intake, "FRAME_GRACE_S", 0.0)
    monkeypatch.setattr(intake, "FRAME_LOOK_S", 0.02)
    stalled = [echo.client() for _ in range(HOLDERS)]
    for client in stalled:
        begin(client, 1)
    with echo.client() as honest:
        for number in range(3):
            honest.say(message_frames.Send(0, 0, [], []), number, bytes(BODY))
            assert isinstance(honest.hear().head, frames.Done)
    for client in stalled:
        client.socket.close()
