"""Who is connected, by which rules, and what callers did: for callers that may manage."""

from __future__ import annotations

import pytest

from dray.errors import AccessDenied
from dray.wire import queue_frames, token_frames
from tests.unit.manager.rights.test_table import ADA, BOB, allowing, driver_with, refused


@pytest.fixture
def driver(tmp_path):
    return driver_with(tmp_path, allowing(ADA.name, "manage"), allowing(BOB.name, "see", "orders"))


def test_callers_that_may_manage_see_rules_connections_and_acts(driver):
    ada, bob = driver.session(ADA), driver.session(BOB)
    ada.create("new")
    for _ in range(3):
        assert isinstance(refused(bob, queue_frames.ListPeers()), AccessDenied)
    info = ada.call(token_frames.DescribeAccess()).info
    assert not info.is_open
    assert info.rules[0] == f'who = ["{ADA.name}"], queues = ["*"], may = ["manage"]'
    assert {(each.caller, each.role) for each in info.sessions} >= {
        (ADA.name, "client"),
        (BOB.name, "client"),
    }
    assert info.session_count == len(info.sessions)
    newest, created = info.acts[:2]
    assert (newest.act, newest.caller, newest.frame, newest.times) == (
        "refused", BOB.name, "ListPeers", 3,
    )  # fmt: skip
    assert (created.act, created.caller, created.subject) == ("manage", ADA.name, "new")


def test_the_overview_is_for_callers_that_manage_everything(driver):
    assert isinstance(refused(driver.session(BOB), token_frames.DescribeAccess()), AccessDenied)


def test_only_the_last_acts_are_remembered(driver):
    ada = driver.session(ADA)
    for number in range(205):
        ada.create(f"q{number}")
    acts = ada.call(token_frames.DescribeAccess()).info.acts
    assert len(acts) == 200
    assert acts[0].subject == "q204"
