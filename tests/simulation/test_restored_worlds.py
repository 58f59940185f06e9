"""Nodes that come back from backups in seeded worlds, and proof that the worlds would notice."""

from __future__ import annotations

import pytest

from dray.delivery.events import RestoreMark
from dray.delivery.outgoing import OutgoingStream
from dray.testing.restored_world import RestoredWorld
from dray.testing.stream_node import BrokenPromiseError, Canary

WORLDS = 400


class ForgetsThatItWasRestored(OutgoingStream):
    """Goes on as if the backup were the latest there is."""

    def came_from_backup(self, second):
        pass


class SendsTheWholeBackup(OutgoingStream):
    """Begins a new sequence with everything, whatever the peer has accepted already."""

    def _accepted_of_backup(self, _peer):
        return 0


class GivesUpTheWholeBackup(OutgoingStream):
    """Takes a higher sequence for proof that everything was delivered, whoever began it."""

    def _accepted_of_backup(self, peer):
        if peer.sequence_id > self.sequence_id:
            return self.restored[-1].last
        return super()._accepted_of_backup(peer)


class CountsTheNewMessagesAsOld(OutgoingStream):
    """Does not know where the backup ended."""

    def _accepted_of_backup(self, peer):
        self.restored = [RestoreMark(self.last, 0)]
        return super()._accepted_of_backup(peer)


def failing(canary, worlds):
    failures = 0
    for seed in range(worlds):
        try:
            RestoredWorld(seed, canary).run()
        except BrokenPromiseError:
            failures += 1
    return failures


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_a_restore_in_the_middle_of_traffic_duplicates_nothing_and_loses_only_what_it_may(
    block, went_through
):
    restores = 0
    for seed in range(block * WORLDS // 4, (block + 1) * WORLDS // 4):
        world = RestoredWorld(seed)
        try:
            world.run()
        except Exception:
            print(f"\nrun it again: python -m dray.testing.restored_world {seed}")
            raise
        restores += world.restores
        went_through["worlds of streams with restores"] += 1
    assert restores > WORLDS // 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("canary", "worlds", "least"),
    [
        (Canary(outgoing=ForgetsThatItWasRestored), 50, 10),
        (Canary(outgoing=SendsTheWholeBackup), 50, 10),
        (Canary(outgoing=GivesUpTheWholeBackup), 400, 2),
        (Canary(outgoing=CountsTheNewMessagesAsOld), 50, 10),
    ],
    ids=["no mark", "send all", "give up all", "no end"],
)
def test_worlds_notice_when_a_defence_of_restoring_is_out(canary, worlds, least):
    assert failing(canary, worlds) >= least
