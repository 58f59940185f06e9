"""The power fails behind every single operation of a workload, in several ways each."""

from __future__ import annotations

from random import Random

import pytest

from tests.crash.crash_states import crash_states
from tests.crash.workload import (
    Findings,
    check_every_crash,
    flip_what_is_newest,
    recorded_workload,
)

pytestmark = pytest.mark.slow
STATES = "crash states of a store"


@pytest.mark.parametrize("seed", range(3))
def test_every_crash_state_recovers_to_exactly_one_turn(seed, went_through):
    rng = Random(seed)
    findings = Findings()
    recording = recorded_workload(rng, turns=60)
    check_every_crash(recording, rng, findings, chances=2)
    went_through[STATES] = findings.crashes
    assert findings.crashes > 2000
    assert findings.cut_groups > 0
    assert findings.acts.keys() == {"FRESH", "REPLAY_ALL", "REPLAY_AFTER"}


@pytest.mark.parametrize("seed", range(3))
def test_a_second_crash_during_and_after_recovery_is_survived_as_well(seed, went_through):
    rng = Random(seed)
    findings = Findings()
    first = recorded_workload(rng, turns=20)
    states = list(crash_states(first.operations, rng))
    for state in rng.sample(states, 12):
        second = recorded_workload(rng, turns=6, base=state.disk)
        check_every_crash(second, rng, findings)
    went_through[STATES] = findings.crashes
    assert findings.crashes > 1000


@pytest.mark.parametrize("seed", range(3))
def test_a_bit_flipped_in_what_is_newest_never_drops_what_was_told(seed, went_through):
    rng = Random(seed)
    came = flip_what_is_newest(recorded_workload(rng, turns=60), rng, chances=2)
    went_through["killed stores with a flipped bit"] = came.total()
    assert came.total() > 1000
    assert came["refused"] > 10
    assert came["named"] > 5
    assert came["cut off, in doubt"] > 10


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 200))
def test_no_seed_finds_a_flipped_bit_that_drops_what_was_told(seed, went_through):
    rng = Random(seed)
    came = flip_what_is_newest(recorded_workload(rng, turns=120), rng, chances=6)
    went_through["killed stores with a flipped bit"] = came.total()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 400))
def test_no_seed_finds_a_crash_state_that_does_not_recover(seed, went_through):
    rng = Random(seed)
    findings = Findings()
    recording = recorded_workload(rng, turns=80)
    check_every_crash(recording, rng, findings, chances=5)
    for state in rng.sample(list(crash_states(recording.operations, rng)), 20):
        second = recorded_workload(rng, turns=10, base=state.disk)
        check_every_crash(second, rng, findings, chances=2)
    went_through[STATES] = findings.crashes
