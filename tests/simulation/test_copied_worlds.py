"""Stores that are put back, cloned and cut off in seeded worlds; the worlds would notice a loss."""

from __future__ import annotations

from collections import Counter

import pytest

from dray.testing.promises import BrokenPromiseError
from tests.simulation.defences import (
    CountsNewMessagesAsOld,
    HealsUnsaid,
    MarksNoIncarnation,
    SendsTheWholeCopy,
    TrustsEveryPosition,
    TrustsWhatIsKnown,
    enough_notice,
)
from tests.worlds.copied_world import CopiedWorld
from tests.worlds.stream_node import Canary

WORLDS = 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(each, marks=pytest.mark.torture) for each in (2, 3))]
)
def test_copies_of_stores_lose_no_message_and_double_none_unless_a_person_decides(
    block, went_through
):
    met = Counter()
    for seed in range(block * WORLDS // 4, (block + 1) * WORLDS // 4):
        world = CopiedWorld(seed)
        try:
            world.run()
        except Exception:
            print(f"\nrun it again: python -m tests.worlds.copied_world {seed}")
            raise
        met += world.met
        went_through["worlds of streams with copied stores"] += 1
    assert set(met) == {"put back", "cut off", "clone", "empty", "two at once", "diverged"}


def test_two_copies_that_send_to_a_destination_put_back_double_nothing():
    """The destination stated a known position, which the other copy had reached meanwhile."""
    CopiedWorld(7615).run()
    with pytest.raises(BrokenPromiseError):
        CopiedWorld(54207, Canary(outgoing=TrustsWhatIsKnown)).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("canary", "least"),
    [
        (Canary(outgoing=TrustsEveryPosition), 20),
        (Canary(outgoing=MarksNoIncarnation), 20),
        (Canary(outgoing=SendsTheWholeCopy), 20),
        (Canary(outgoing=CountsNewMessagesAsOld), 20),
        (Canary(outgoing=HealsUnsaid), 1),
        (Canary(sends_to_strangers=True), 20),
        (Canary(takes_from_every_copy=True), 1),
    ],
    ids=[
        "trusts every position",
        "marks no incarnation",
        "sends the whole copy",
        "counts new messages as old",
        "heals unsaid",
        "sends to strangers",
        "takes from every copy",
    ],
)
def test_worlds_notice_when_a_defence_against_copies_is_out(canary, least):
    assert enough_notice(lambda seed: CopiedWorld(seed, canary).run(), 60, least)
