"""Repeats: some at once, the others with a count. `test_notice_log` and others try the rest."""

from __future__ import annotations

import pytest

from dray.daemon.limits import NOTICE_S
from dray.daemon.repeats import Repeats
from tests.unit.daemon.test_notice_log import Time


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def said():
    return []


@pytest.fixture
def repeats(time, said):
    return Repeats(time, time, lambda *what: said.append(what))


def add(repeats, key, item, group="a group", **options):
    own = {"group": group, "of_group": (group, f"more of {group}")}
    repeats.add(key, item, **own, shared=("others", "others"), **options)


def test_so_many_are_said_at_once_and_the_others_when_the_minute_is_over(repeats, time, said):
    for number in range(5):
        add(repeats, "a", number, most=2)
    assert said == [(0, 1, 0.0), (1, 1, 0.0)]
    time.pass_by(NOTICE_S)
    assert said[2:] == [(4, 3, NOTICE_S)]


def test_the_numbers_add_up_at_the_stop(repeats, time, said):
    for number in range(5):
        add(repeats, "a", number, times=10)
    time.pass_by(NOTICE_S / 2)
    repeats.stop()
    assert said == [(0, 10, 0.0), (4, 40, NOTICE_S / 2)]


def test_a_key_that_was_quiet_for_a_minute_is_forgotten(repeats, time, said):
    add(repeats, "a", 1)
    time.pass_by(NOTICE_S + 1)
    assert not repeats._keys
    add(repeats, "a", 2)
    assert said == [(1, 1, 0.0), (2, 1, 0.0)]


def test_a_group_has_its_share_of_the_keys_and_its_other_items_stand_for_each_other(
    repeats, time, said, monkeypatch
):
    monkeypatch.setattr("dray.daemon.repeats.NOTICE_SUBJECTS_MAX", 8)
    for number in range(5):
        add(repeats, f"key {number}", number, "greedy")
    assert said == [(0, 1, 0.0), (1, 1, 0.0), ("more of greedy", 1, 0.0)]
    add(repeats, "honest", "honest", "other")
    assert said[3:] == [("honest", 1, 0.0)]
    time.pass_by(NOTICE_S)
    assert said[4:] == [("more of greedy", 2, NOTICE_S)]
    time.pass_by(2 * NOTICE_S)
    assert not repeats._keys
    assert not repeats._of


def test_without_a_place_the_shared_item_stands_in(repeats, said, monkeypatch):
    monkeypatch.setattr("dray.daemon.repeats.NOTICE_SUBJECTS_MAX", 1)
    for key in "abc":
        add(repeats, key, key, f"group of {key}")
    repeats.stop()
    assert said == [("a", 1, 0.0), ("others", 1, 0.0), ("others", 1, 0.0)]
