"""Worlds in which a forger speaks under the ids of others, and proof that they would notice it."""

from __future__ import annotations

import pytest

from dray.delivery.keys import ConnectionKey
from dray.manager.peers import possession
from dray.manager.peers.bound_callers import BoundCallers
from dray.testing.promises import BrokenPromiseError
from tests.simulation.hash_seeds import digests_of
from tests.worlds.forged_world import ForgedWorld

WORLDS = 100
CANARY_WORLDS = 30
ENOUGH = 3


def broken_worlds():
    """How many worlds notice, up to the number that is enough."""
    broken = 0
    for seed in range(CANARY_WORLDS):
        try:
            ForgedWorld(seed).run()
        except BrokenPromiseError:
            broken += 1
        if broken == ENOUGH:
            break
    return broken


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_managers_keep_every_promise_beside_a_forger(block, went_through):
    for seed in range(block * WORLDS // 2, (block + 1) * WORLDS // 2):
        world = ForgedWorld(seed)
        world.run()
        went_through["worlds with a forger"] += 1


@pytest.mark.torture
def test_thousands_of_worlds_with_a_forger_keep_every_promise(went_through):
    for seed in range(WORLDS, 5_000):
        ForgedWorld(seed).run()
        went_through["worlds with a forger"] += 1


@pytest.mark.slow
def test_managers_that_take_any_proof_are_found_out(monkeypatch):
    monkeypatch.setattr(ConnectionKey, "proves", lambda *_: True)
    assert broken_worlds() == ENOUGH


@pytest.mark.slow
def test_destinations_that_ask_for_no_proof_are_found_out(monkeypatch):
    monkeypatch.setattr(possession, "check", lambda *_: None)
    assert broken_worlds() == ENOUGH


@pytest.mark.slow
def test_destinations_that_take_a_manager_by_any_caller_are_found_out(monkeypatch):
    why_not = BoundCallers._why_not

    def taken(self, session):
        why_not(self, session)
        return "", ""

    monkeypatch.setattr(BoundCallers, "_why_not", taken)
    assert broken_worlds() == ENOUGH


@pytest.mark.slow
def test_sources_that_ask_for_no_proof_are_found_out(monkeypatch):
    def taken(context, once, answer):
        return context.state.identity.key.calling(once, answer.public, answer.once)

    monkeypatch.setattr(possession, "key_of_answerer", taken)
    assert broken_worlds() == ENOUGH


@pytest.mark.slow
def test_a_seed_lives_the_same_forged_world_under_any_hash_seed():
    digests = digests_of("tests.worlds.forged_world", 11)
    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 16
