"""Promises about the list of all queues."""

from __future__ import annotations

import pytest

import dray
from dray.model.limits import LISTED_QUEUES_MAX
from dray.wire import queue_frames
from tests.cost import LINES_MAX, Costs

PAGE = 40


@pytest.fixture(autouse=True)
def page(monkeypatch):
    """Pages of a few queues, so that a test needs few."""
    monkeypatch.setattr("dray.manager.queue.queues.LISTED_QUEUES_MAX", PAGE)


def create(caller, count):
    names = [f"q{number}" for number in range(count)]
    for name in names:
        caller.create(name)
    return names


def test_a_list_of_many_queues_comes_in_pages_and_a_whole_page_does_not_hold_the_loop(driver):
    caller = driver.session()
    names = create(caller, 3 * PAGE)
    costs = Costs(LINES_MAX * PAGE // LISTED_QUEUES_MAX)
    listed, following = [], 0
    while costs.events == 0 or following:
        asked = queue_frames.ListQueues(following)
        page = costs.of("a page", lambda asked=asked: caller.call(asked))
        assert len(page.queues) <= PAGE
        listed += [each.name for each in page.queues]
        following = page.next
    assert costs.events >= 3
    assert len(listed) == len(set(listed))
    assert set(names) <= set(listed)
    costs.check()


def test_a_queue_that_goes_or_comes_between_two_pages_moves_no_other(driver):
    caller = driver.session()
    names = create(caller, PAGE)
    first = caller.call(queue_frames.ListQueues())
    caller.call(queue_frames.DeleteQueue(names[0]))
    caller.create("later")
    rest = caller.call(queue_frames.ListQueues(first.next))
    listed = [each.name for each in (*first.queues, *rest.queues)]
    assert len(listed) == len(set(listed))
    assert {*names, "later"} <= set(listed)


def test_a_client_lists_every_queue(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        names = {f"q{number}" for number in range(2 * PAGE)}
        for name in names:
            manager.create_queue(name)
        assert {each.name for each in manager.queues()} >= names
        assert len(manager.queues()) == len({each.name for each in manager.queues()})
