"""Sessions: found by their cookie, forgotten after a day of work, and bounded in number."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from dray.console.http.limits import VISITOR_BODIES_MAX
from dray.console.http.refusal import HttpRefusal
from dray.console.visitors import Visitors
from dray.model.callers import Credential


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_session_is_found_by_its_cookie_alone():
    visitors = Visitors()
    cookie, other = visitors.admit(Credential("hers")), visitors.admit()
    assert [visitors.find(each).caller.token for each in (cookie, other)] == ["hers", ""]
    assert visitors.find(cookie[:-1]) is None
    visitors.dismiss(cookie)
    assert visitors.find(cookie) is None


def test_a_session_ends_after_twelve_idle_hours_and_not_while_it_is_used():
    clock = Clock()
    visitors = Visitors(clock)
    cookie = visitors.admit()
    for _ in range(5):
        clock.now += 11 * 3600
        assert visitors.find(cookie) is not None
    clock.now += 12 * 3600 + 1
    assert visitors.find(cookie) is None


def test_the_session_that_was_away_longest_makes_room():
    visitors = Visitors()
    first, second = visitors.admit(), visitors.admit()
    assert visitors.find(first) is not None
    for _ in range(255):
        visitors.admit()
    assert visitors.find(second) is None
    assert visitors.find(first) is not None


def test_a_caller_who_signs_in_without_end_ends_no_session_of_another():
    visitors = Visitors()
    hers = visitors.admit(Credential("hers"))
    his = [visitors.admit(Credential("his")) for _ in range(400)]
    assert visitors.find(hers) is not None
    assert [visitors.find(each) is None for each in his].count(True) == 145


def test_the_sessions_of_one_token_share_their_places():
    visitors = Visitors()
    with ExitStack() as stack:
        for cookie in [visitors.admit(Credential("his")) for _ in range(VISITOR_BODIES_MAX)]:
            stack.enter_context(visitors.find(cookie).bodies.one())
        again = visitors.find(visitors.admit(Credential("his")))
        with pytest.raises(HttpRefusal, match="of your files are on their way"):
            stack.enter_context(again.bodies.one())
        for caller in (Credential("hers"), Credential()):
            stack.enter_context(visitors.find(visitors.admit(caller)).bodies.one())


def test_a_sentence_is_said_once():
    visitors = Visitors()
    visitor = visitors.find(visitors.admit())
    visitor.tell("it was done", "good")
    assert visitor.hear() == [("good", "it was done")]
    assert visitor.hear() == []
