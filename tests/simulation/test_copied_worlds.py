"""Stores that are put back, cloned and cut off in seeded worlds; the worlds would notice a loss."""

from __future__ import annotations

import pytest

from dray.testing.copied_world import CopiedWorld
from dray.testing.stream_node import BrokenPromiseError, Canary
from tests.simulation.defences import (
    CountsNewMessagesAsOld,
    HealsUnsaid,
    MarksNoLife,
    SendsTheWholeCopy,
    TrustsEveryPosition,
)

WORLDS = 400


def failing(canary, worlds):
    failures = 0
    for seed in range(worlds):
        try:
            CopiedWorld(seed, canary).run()
        except BrokenPromiseError:
            failures += 1
    return failures


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_copies_of_stores_lose_no_message_and_double_none_unless_a_person_decides(
    block, went_through
):
    met = [0, 0, 0, 0]
    for seed in range(block * WORLDS // 4, (block + 1) * WORLDS // 4):
        world = CopiedWorld(seed)
        try:
            world.run()
        except Exception:
            print(f"\nrun it again: python -m dray.testing.copied_world {seed}")
            raise
        troubles = world.put_back_count, world.cut_count, world.clone_count, world.diverged_count
        met = [sum(each) for each in zip(met, troubles, strict=True)]
        went_through["worlds of streams with copied stores"] += 1
    assert all(met), met


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defence", "least"),
    [
        (TrustsEveryPosition, 20),
        (MarksNoLife, 20),
        (SendsTheWholeCopy, 20),
        (CountsNewMessagesAsOld, 20),
        (HealsUnsaid, 1),
    ],
)
def test_worlds_notice_when_a_defence_against_copies_is_out(defence, least):
    assert failing(Canary(outgoing=defence), 60) >= least
