"""Rates of a queue from two looks at it."""

from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.rates import rates_between


def look(reached, depth, *, born=1):
    return QueueInfo(
        name="orders",
        kind=QueueKind.PRIVATE,
        transactional=True,
        last_position=reached,
        message_count=depth,
        born=born,
    )


def test_positions_tell_how_many_joined_and_the_depth_how_many_left():
    assert rates_between(look(100, 10), look(130, 20), 10.0) == (3.0, 2.0)


def test_a_queue_that_was_made_in_between_has_no_rates_yet():
    assert rates_between(None, look(5, 5), 1.0) == (0.0, 0.0)
    assert rates_between(look(9, 9, born=1), look(5, 5, born=2), 1.0) == (0.0, 0.0)


def test_two_looks_at_one_moment_have_no_rates():
    assert rates_between(look(1, 1), look(5, 5), 0.0) == (0.0, 0.0)


def test_a_queue_whose_messages_were_lost_by_a_restart_shows_no_negative_rate():
    assert rates_between(look(100, 10), look(90, 0), 1.0) == (0.0, 10.0)
