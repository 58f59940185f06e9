"""The power fails at every point of a whole queue manager's work, in every way worth telling apart.

Seeds make workloads; `dray.testing.torture` recovers a manager from every crash state of each and
asks it for everything it holds. Here as many states as fit a minute, in `make torture` millions.
"""

from __future__ import annotations

import pytest

from dray.testing.torture import Tally, torture_seed

STATES_EACH = 3_000
STATES_A_SEED = 1_000
"""One workload alone may never have a manager that lives on and fails again; three do."""

pytestmark = pytest.mark.slow
STATES = "crash states of a manager"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "first",
    [
        0,
        100,
        *(pytest.param(each, marks=pytest.mark.torture) for each in range(150, 550, 50)),
    ],
)
def test_what_was_answered_stays_and_nothing_else_appears_in_3000_crash_states(first, went_through):
    tally = Tally()
    seed = first
    while tally.states < STATES_EACH:
        wanted = min(STATES_A_SEED, STATES_EACH - tally.states)
        for _ in torture_seed(seed, tally, states=wanted):
            pass
        seed += 1
    went_through[STATES] = tally.states
    assert tally.states == STATES_EACH
    assert tally.second_states > 0, "some managers live on and fail again"
    assert 0 < tally.older < tally.states, "some failures come before the newest turn is durable"


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(1_000, 41_000, 1_000))
def test_what_was_answered_stays_and_nothing_else_appears_in_50000_crash_states(
    first, went_through
):
    tally = Tally()
    seed = first
    while tally.states < 50_000:
        for _ in torture_seed(seed, tally):
            pass
        seed += 1
    went_through[STATES] = tally.states
