"""When a sync begins and who waits for it, as learned from the turns before."""

from __future__ import annotations

from random import Random

import pytest

from dray.daemon.limits import (
    GATHER_S_MAX,
    GATHER_SESSIONS_MIN,
    GATHER_TURNS,
    QUICK_SYNC_BYTES,
    QUICK_SYNC_S,
    QUICK_SYNCS,
    SLOW_SYNCS,
    STALE_TURN_S,
)
from dray.daemon.pacing.pace import Gathering, SyncPace

MANY = 64


def turn(gathering: Gathering, sessions: range, now: float) -> None:
    for session in sessions:
        gathering.joined(session, now)
    gathering.began(now)


@pytest.fixture
def busy() -> Gathering:
    """Two cohorts of 32 sessions, which have committed by turns until time 0."""
    gathering = Gathering()
    for _ in range(2):
        turn(gathering, range(32), 0.0)
        turn(gathering, range(32, MANY), 0.0)
    return gathering


def test_nobody_is_waited_for_at_first():
    gathering = Gathering()
    gathering.joined(1, 0.0)
    assert not gathering.wait_s(0.0)


def test_a_lone_session_is_never_kept_waiting():
    gathering = Gathering()
    for number in range(100):
        turn(gathering, range(1), number / 1000)
        gathering.joined(0, number / 1000)
        assert not gathering.wait_s(number / 1000)


def test_a_few_sessions_are_never_kept_waiting():
    gathering = Gathering()
    few = 2 * GATHER_SESSIONS_MIN - 1
    for _ in range(10):
        turn(gathering, range(few), 0.0)
    gathering.joined(0, 0.0)
    assert not gathering.wait_s(0.0)


def test_of_many_sessions_half_are_waited_for(busy):
    for session in range(31):
        busy.joined(session, 0.001)
        assert busy.wait_s(0.001) == pytest.approx(GATHER_S_MAX)
    busy.joined(31, 0.001)
    assert not busy.wait_s(0.001)


def test_one_session_that_asks_often_is_counted_once(busy):
    for _ in range(MANY):
        busy.joined(7, 0.001)
    assert busy.wait_s(0.001)


def test_the_wait_is_bounded_from_when_the_first_came(busy):
    busy.joined(1, 0.001)
    busy.joined(2, 0.003)
    assert busy.wait_s(0.003) == pytest.approx(GATHER_S_MAX - 0.002)
    assert not busy.wait_s(0.001 + GATHER_S_MAX)


def test_sessions_that_are_over_are_not_waited_for(busy):
    for session in range(3, MANY):
        busy.left(session)
    busy.joined(0, 0.001)
    assert not busy.wait_s(0.001)


def test_what_was_long_ago_says_nothing(busy):
    now = 1.01 * STALE_TURN_S
    busy.joined(1, now)
    assert not busy.wait_s(now)


def test_turns_without_a_sync_are_not_learned_from(busy):
    for _ in range(10):
        busy.joined(1, 0.001)
        busy.dismissed(0.001)
    busy.joined(1, 0.001)
    assert busy.wait_s(0.001)


def test_small_turns_by_chance_do_not_make_all_turns_small(busy):
    turn(busy, range(2), 0.001)
    turn(busy, range(2, 4), 0.001)
    busy.joined(5, 0.001)
    assert busy.wait_s(0.001)


def test_a_session_is_lone_when_the_last_turns_were_all_its_own():
    gathering = Gathering()
    assert gathering.alone_until < 0.0
    turn(gathering, range(1), 0.0)
    assert gathering.alone_until >= STALE_TURN_S
    assert gathering.alone_until < 1.01 * STALE_TURN_S


def test_a_session_that_only_reads_is_lone_too_and_is_no_longer_when_another_comes():
    gathering = Gathering()
    gathering.joined(1, 0.0)
    gathering.dismissed(0.0)
    assert gathering.alone_until >= STALE_TURN_S
    gathering.dismissed(1.0)
    assert gathering.alone_until < 1.0
    for session in (1, 2):
        gathering.joined(session, 1.0)
        gathering.dismissed(1.0)
    assert gathering.alone_until < 1.0


def test_a_session_is_lone_again_when_the_turns_of_others_are_over():
    gathering = Gathering()
    turn(gathering, range(2), 0.0)
    for _ in range(GATHER_TURNS - 1):
        turn(gathering, range(1), 0.0)
        assert gathering.alone_until < 0.0
    turn(gathering, range(1), 0.0)
    assert gathering.alone_until >= 0.0


def syncs_until_trusted(pace: SyncPace, seconds: float) -> int:
    for count in range(10_000):
        if pace.is_quick(0):
            return count
        pace.took(seconds, 1024)
    raise AssertionError("the disk is never trusted")


def trusted() -> SyncPace:
    pace = SyncPace()
    syncs_until_trusted(pace, 0.0)
    return pace


def test_a_disk_earns_trust_by_quick_syncs():
    assert QUICK_SYNCS - 1 <= syncs_until_trusted(SyncPace(), 0.0) <= QUICK_SYNCS
    assert QUICK_SYNCS < syncs_until_trusted(SyncPace(), QUICK_SYNC_S / 2) <= 2 * QUICK_SYNCS
    assert trusted().is_quick(QUICK_SYNC_BYTES)


def test_a_disk_that_is_never_quick_earns_none():
    pace = SyncPace()
    for _ in range(1000):
        pace.took(QUICK_SYNC_S, 1024)
        assert not pace.is_quick(0)


def test_a_slow_sync_is_made_good_by_as_many_quick_ones_as_it_was_slow():
    for times in (3, 10, 1000):
        pace = trusted()
        pace.took(times * QUICK_SYNC_S, 1024)
        assert times - 2 <= syncs_until_trusted(pace, 0.0) <= times


@pytest.mark.parametrize("slow_one_in", [2, 3, 10, 50])
def test_the_loop_is_held_up_no_longer_than_it_may_be_on_the_whole(slow_one_in):
    """A disk of which some syncs are slow, whoever waits for them; the loop, when it is trusted."""
    dice, pace = Random(slow_one_in), SyncPace()
    held_up_s, longest_s = 0.0, 0.0
    for count in range(1, 5000):
        slow = dice.randrange(slow_one_in) == 0
        seconds = dice.uniform(2, 40) * QUICK_SYNC_S if slow else QUICK_SYNC_S / 8
        if pace.is_quick(1024):
            held_up_s, longest_s = held_up_s + seconds, max(longest_s, seconds)
        pace.took(seconds, 1024)
        assert held_up_s <= count * QUICK_SYNC_S + longest_s


def test_a_disk_that_is_slow_now_and_then_is_trusted_most_of_the_time():
    """One sync in ten that takes three times too long, as on a machine that others use."""
    pace, here = trusted(), 0
    for count in range(1000):
        here += pace.is_quick(1024)
        pace.took(3 * QUICK_SYNC_S if count % 10 == 0 else QUICK_SYNC_S / 8, 1024)
    assert here > 700


def test_much_to_write_is_never_quick_and_says_nothing_about_little():
    pace = trusted()
    assert not pace.is_quick(QUICK_SYNC_BYTES + 1)
    pace.took(1.0, QUICK_SYNC_BYTES + 1)
    assert pace.is_quick(0)


def test_a_disk_is_slow_while_none_of_the_last_syncs_was_quick():
    pace = SyncPace()
    for _ in range(SLOW_SYNCS):
        assert not pace.is_slow
        pace.took(2 * QUICK_SYNC_S, 0)
    assert pace.is_slow
    # Much to write takes its time on any disk.
    pace.took(0.0, QUICK_SYNC_BYTES + 1)
    assert pace.is_slow
    pace.took(QUICK_SYNC_S / 2, 0)
    for _ in range(SLOW_SYNCS - 1):
        pace.took(1.0, 0)
        assert not pace.is_slow
    pace.took(1.0, 0)
    assert pace.is_slow
