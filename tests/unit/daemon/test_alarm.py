"""The timer that wakes the manager: set often, set off seldom."""

from __future__ import annotations

import asyncio

import pytest

from dray.daemon.pacing.alarm import Alarm


class Clock:
    """Tells the time of the loop."""

    def __init__(self, loop):
        self.now = loop.time


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def timers_of(loop, *deadlines):
    """How many timers an alarm sets for deadlines that follow each other."""
    alarm = Alarm(loop, Clock(loop), lambda: None)
    made = []
    call_later = loop.call_later
    loop.call_later = lambda *arguments: made.append(call_later(*arguments)) or made[-1]
    for each in deadlines:
        alarm.set(each)
    alarm.stop()
    return [each for each in made if not each.cancelled()], made


def test_a_later_deadline_leaves_the_timer_as_it_is(loop):
    now = loop.time()
    _, made = timers_of(loop, now + 10, now + 20, None, now + 10)
    assert len(made) == 1


def test_an_earlier_deadline_sets_the_timer_anew(loop):
    now = loop.time()
    _, made = timers_of(loop, now + 20, now + 10)
    assert [each.cancelled() for each in made][:1] == [True]
    assert made[1].when() < made[0].when()


def test_after_it_went_off_any_deadline_sets_it(loop):
    went_off = []
    alarm = Alarm(loop, Clock(loop), lambda: went_off.append(1) or loop.stop())
    for _ in range(2):
        alarm.set(loop.time())
        loop.run_forever()
    assert len(went_off) == 2
    alarm.stop()
