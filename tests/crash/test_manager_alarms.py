"""Each defence that the manager's promises rest on is taken out once, and torture must notice."""

from __future__ import annotations

import pytest

from dray.delivery.incoming import IncomingStreams
from dray.errors import DrayError
from dray.manager import turn
from dray.manager.change import departures
from dray.manager.facts import unpack_lookups
from dray.manager.state import Outcomes, snapshots, state
from dray.manager.state.ledger import Ledger
from dray.manager.state.sequences import Sequences
from dray.manager.state.snapshots import write_state
from dray.store.log.checkpoint import Snapshots
from dray.store.recovery.recovery import Replay
from dray.store.store import Store
from dray.store.syncing import Checkpoint, Sync
from dray.testing.storage_syncs import StorageSyncs, StoreSyncs
from dray.testing.torture import Tally, torture_seed
from tests.crash.test_alarms import (
    leave_the_checkpoint_unsynced,
    reuse_at_once,
    sync_only_the_heap,
    sync_only_the_log,
    trust_the_log,
    write_the_checkpoint_first,
)

pytestmark = pytest.mark.slow
STATES_MAX = 12_000
POINTS_APART = 20
"""A few looks at each of many epochs find what a few whole ones may never come to."""


def look_everywhere() -> None:
    tally = Tally()
    seed = 0
    while tally.states < STATES_MAX:
        for _ in torture_seed(seed, tally, every=POINTS_APART):
            pass
        seed += 1


def sync_nothing(self):
    self.done = True


def forget_streams(self):
    return []


def forget_outcomes(self):
    return []


def draw_the_state_late(whole):
    """In the thread that writes it, when the state has gone on."""

    def drawn():
        yield from write_state(whole)

    return Snapshots(drawn(), whole.sequences.snapshot())


def draw_the_sequences_late(whole):
    def drawn():
        yield from Sequences.snapshot(whole.sequences)

    return Snapshots(write_state(whole), drawn())


def take_express_messages_too(queue, taken=snapshots._taken):
    return taken(queue)._replace(express=0)


def speak_before_the_sync(self, turn):
    self.ended(turn)
    StoreSyncs.begin(self, turn)


def find_room_for_everything(self, queue, requested):
    return True


def keep_its_old_class(tail, message_class):
    return tail


def forget_the_last_position(packed):
    return unpack_lookups(packed)[:-1]


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(Store, "release", reuse_at_once, marks=pytest.mark.torture),
        (Replay, "_misfits", trust_the_log),
        (Sync, "run", sync_nothing),
        (Sync, "run", sync_only_the_log),
        (Sync, "run", sync_only_the_heap),
        (Checkpoint, "run", leave_the_checkpoint_unsynced),
        pytest.param(Checkpoint, "run", write_the_checkpoint_first, marks=pytest.mark.torture),
        (turn, "take_snapshots", draw_the_state_late),
        (turn, "take_snapshots", draw_the_sequences_late),
        (IncomingStreams, "state", forget_streams),
        (Outcomes, "committed", forget_outcomes),
        (state, "unpack_lookups", forget_the_last_position),
        (StorageSyncs, "begin", speak_before_the_sync),
        (snapshots, "_taken", take_express_messages_too),
        (Ledger, "has_own_room", find_room_for_everything),
        (departures, "with_class", keep_its_old_class),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_manager_without_this_defence_is_caught(*, monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises((AssertionError, DrayError)) as caught:
        look_everywhere()
    assert any("see it again" in note for note in caught.value.__notes__)
