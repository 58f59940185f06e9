"""`dray torture` as people run it, and its real kills for longer than they would wait."""

from __future__ import annotations

import re

import pytest

from dray.testing.kills import KillLoop, KillTally
from dray.testing.processes import ManagerProcess
from dray.testing.promises import BrokenPromiseError
from tests.integration.commands import dray


def run(folder, kills, seed):
    tally = KillTally()
    process = ManagerProcess("torture", folder)
    try:
        loop = KillLoop(process, seed, tally)
        runs = loop.runs()
        while tally.kills < kills:
            next(runs)
        loop.finish()
    finally:
        process.kill()
    return tally


@pytest.mark.slow
def test_torture_tells_what_it_did_and_that_all_of_it_held(tmp_path):
    said = dray(
        "torture", "--seconds", 2, "--seed", 5, "--states", 50, "--work", tmp_path, "--json"
    )
    value = said.assert_good().value
    assert value["holds"] is True
    assert value["seed"] == 5
    assert value["simulated"]["states"] == 50
    assert value["real"]["kills"] >= 1
    assert list(tmp_path.iterdir()) == [], "what it worked with is gone"


@pytest.mark.slow
def test_the_same_seed_is_the_same_torture(tmp_path):
    said = [
        dray("torture", "--seconds", 1, "--seed", 6, "--states", 300, "--work", tmp_path, "--json")
        for _ in range(2)
    ]
    first, second = (each.assert_good().value["simulated"] for each in said)
    assert first == second


def test_torture_says_where_it_cannot_work(tmp_path):
    said = dray("torture", "--seconds", 1, "--states", 0, "--work", tmp_path / "nowhere")
    said.assert_error("invalid-configuration")


@pytest.mark.slow
def test_ten_kills_under_traffic_lose_and_change_nothing(tmp_path, went_through):
    tally = run(tmp_path, 10, seed=1)
    went_through["kills"] = tally.kills
    assert tally.transactions > 0


@pytest.mark.slow
def test_a_lost_message_is_noticed(tmp_path):
    process = ManagerProcess("torture", tmp_path)
    loop = KillLoop(process, 2, KillTally())
    try:
        with process.connect() as manager, manager.transaction() as transaction:
            manager.queue("torture").send(b"nobody knows of me", transaction=transaction)
        process.kill()
        with pytest.raises(BrokenPromiseError, match=re.compile("more came out|holds what")):
            loop.finish()
    finally:
        process.kill()


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_kills_under_traffic_lose_and_change_nothing(tmp_path, seed, went_through):
    went_through["kills"] = run(tmp_path, 100, seed).kills
