"""Whole queue managers in seeded worlds, and proof that the worlds notice a missing defence."""

from __future__ import annotations

import pytest

from dray.delivery.incoming import IncomingStreams, Position
from dray.testing.promises import BrokenPromiseError
from tests.simulation.defences import enough_notice
from tests.simulation.hash_seeds import digests_of
from tests.worlds.world import Canary, World

WORLDS = 500
BLOCKS = 10
CANARY_WORLDS = 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        *range(BLOCKS // 2),
        *(pytest.param(each, marks=pytest.mark.torture) for each in range(BLOCKS // 2, BLOCKS)),
    ],
)
def test_managers_keep_every_promise_through_every_trouble(block, went_through):
    for seed in range(block * WORLDS // BLOCKS, (block + 1) * WORLDS // BLOCKS):
        World(seed).run()
        went_through["worlds of managers"] += 1


@pytest.mark.slow
def test_managers_that_speak_before_the_sync_are_found_out():
    # Few crashes fall between a word and its sync: one world of twenty shows it.
    canary = Canary(speak_first=True)
    least = CANARY_WORLDS // 10
    assert enough_notice(lambda seed: World(seed, canary).run(), 3 * CANARY_WORLDS, least)


@pytest.mark.slow
def test_managers_that_accept_whatever_comes_are_found_out(monkeypatch):
    remember = IncomingStreams.accepted

    def forget_first(self, key, *position):
        self._positions[key] = Position()
        remember(self, key, *position)

    monkeypatch.setattr(IncomingStreams, "admissible", lambda *_: 0)
    monkeypatch.setattr(IncomingStreams, "accepted", forget_first)
    assert enough_notice(lambda seed: World(seed).run(), CANARY_WORLDS, CANARY_WORLDS // 5)


def test_a_failing_world_says_how_to_run_it_again(monkeypatch):
    monkeypatch.setattr("tests.worlds.world.STEPS_MAX", 10)
    with pytest.raises(BrokenPromiseError) as failure:
        World(3).run()
    assert failure.value.__notes__ == ["run it again: python -m tests.worlds.world 3"]


@pytest.mark.slow
def test_a_seed_lives_the_same_world_under_any_hash_seed():
    digests = digests_of("tests.worlds.world", 11)
    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "what_went_wrong"),
    [
        (0, "parts a raw reader had received stayed held, so the hole was never told"),
        (211, "a transaction that was called aborted was committed by a frame that came late"),
    ],
)
def test_a_seed_that_once_failed_stays_mended(seed, what_went_wrong):
    World(seed).run()
