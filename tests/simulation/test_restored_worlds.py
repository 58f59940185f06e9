"""Nodes that come back from backups in seeded worlds, and proof that the worlds would notice."""

from __future__ import annotations

import pytest

from dray.testing.promises import BrokenPromiseError
from tests.simulation.defences import (
    CountsNewMessagesAsOld,
    MarksNoIncarnation,
    SendsTheWholeCopy,
    TrustsEveryPosition,
    enough_notice,
)
from tests.worlds.restored_world import RestoredWorld
from tests.worlds.stream_node import Canary

WORLDS = 400
UNDECIDED = 4307
"""Both ends are put back several times, and nobody can tell which messages a third copy sent: the
stream diverges and loses nothing (docs/explanation/identity.md, *Failures*)."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(each, marks=pytest.mark.torture) for each in (2, 3))]
)
def test_a_restore_in_the_middle_of_traffic_duplicates_nothing_and_loses_only_what_it_may(
    block, went_through
):
    restores = 0
    for seed in range(block * WORLDS // 4, (block + 1) * WORLDS // 4):
        world = RestoredWorld(seed)
        try:
            world.run()
        except Exception:
            print(f"\nrun it again: python -m tests.worlds.restored_world {seed}")
            raise
        restores += world.restores
        went_through["worlds of streams with restores"] += 1
    assert restores > WORLDS // 4


def test_a_stream_of_which_nobody_can_tell_what_a_third_copy_sent_diverges():
    with pytest.raises(BrokenPromiseError, match="diverged without a copied store"):
        RestoredWorld(UNDECIDED).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "defence", [TrustsEveryPosition, MarksNoIncarnation, SendsTheWholeCopy, CountsNewMessagesAsOld]
)
def test_worlds_notice_when_a_defence_of_restoring_is_out(defence):
    canary = Canary(outgoing=defence)
    assert enough_notice(lambda seed: RestoredWorld(seed, canary).run(), 50, 10)
