"""Each defence of the store is taken out once, and the crash states must notice."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreCorrupt
from dray.store.decisions import Act
from dray.store.heap.heap import Heap
from dray.store.heap.witness import note_end
from dray.store.log.checkpoint import ORIGIN, PAIRS, Snapshots
from dray.store.log.qmlog import Log, LogReader
from dray.store.recovery.opening import StoreOpening
from dray.store.recovery.recovery import Replay
from dray.store.recovery.survey import Survey
from dray.store.store import Store
from dray.store.syncing import Checkpoint, Sync
from tests.crash.crash_states import crash_states
from tests.crash.workload import (
    Findings,
    check_every_crash,
    flip_what_is_newest,
    recorded_workload,
)
from tests.unit.store.ledger import Ledger

pytestmark = pytest.mark.slow
whole_copies = Heap.copies


def look_everywhere(first: int = 0) -> None:
    for seed in range(first, first + 20):
        rng = Random(seed)
        recording = recorded_workload(rng, turns=40)
        check_every_crash(recording, rng, Findings())
        for state in rng.sample(list(crash_states(recording.operations, rng)), 10):
            second = recorded_workload(rng, turns=6, base=state.disk)
            check_every_crash(second, rng, Findings())


def reuse_at_once(self, extent):
    self._heap.free(extent)


def trust_the_log(self, to_verify, chain):
    return []


def sync_only_the_log(self):
    self._log.sync()
    self.done = True


def sync_only_the_heap(self):
    for capture in self.captures:
        capture.file.sync()
    self.done = True


def forget_new_names(self):
    for capture in self.captures:
        capture.file.sync()
    self._log.sync()
    self.done = True


def write_the_checkpoint_first(self):
    self._write()
    self._finish()
    self._sync_files()
    self.sync.run()
    self.done = True


def leave_the_checkpoint_unsynced(self):
    self._write()
    self.sync.run()
    self._finish()
    self.done = True


def draw_the_state_late(self):
    return Snapshots(self.state_snapshot(), [b"%d" % self.puts])


def mix_generations(self):
    if self.row.act is not Act.REPLAY_AFTER:
        return dict.fromkeys(PAIRS, ORIGIN)
    return {pair: self.whole(pair)[0] for pair in PAIRS}


def begin_without_an_opening(self, flag):
    return True


def put_nothing_back(self, replay):
    pass


def leave_copied_files_unsynced(self, *, copied=False):
    return [each.capture(self._file(each)) for each in self.dirty.values() if each.uncovered_bytes]


def copy_into_files_without_a_name(self, ranges):
    self.names_synced = self.names_made
    for each in ranges:
        self._files[each.file].settled = True
    return whole_copies(self, ranges)


def make_only_the_log_durable(self, log, chain):
    log.file.sync()
    self._disk.sync_directory()


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Store, "release", reuse_at_once),
        (Replay, "_misfits", trust_the_log),
        (Sync, "run", sync_only_the_log),
        (Sync, "run", sync_only_the_heap),
        (Sync, "run", forget_new_names),
        (Checkpoint, "run", write_the_checkpoint_first),
        (Checkpoint, "run", leave_the_checkpoint_unsynced),
        (Ledger, "snapshot", draw_the_state_late),
        (Log, "write_mark", begin_without_an_opening),
        (StoreOpening, "_put_back", put_nothing_back),
        (Heap, "capture", leave_copied_files_unsynced),
        (Heap, "copies", copy_into_files_without_a_name),
        (StoreOpening, "_make_durable", make_only_the_log_durable),
        pytest.param(Survey, "chosen", mix_generations, marks=pytest.mark.torture),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_store_without_this_defence_is_caught(monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises((AssertionError, StoreCorrupt, KeyError)):
        look_everywhere()


def test_a_epoch_that_reuses_its_epoch_is_caught(monkeypatch):
    whole_chain = LogReader.chain

    def forgetful_chain(self, start, known_facts, epoch, **how):
        return whole_chain(self, start, known_facts, 0, **how)._replace(epoch=0)

    monkeypatch.setattr(LogReader, "chain", forgetful_chain)
    with pytest.raises((AssertionError, StoreCorrupt)):
        # Few histories show it; the first that does is that of seed 6.
        look_everywhere(first=6)


def test_a_note_of_what_is_not_durable_yet_is_caught(monkeypatch):
    begin_sync = Store.begin_sync

    def boastful(self):
        sync = begin_sync(self)
        note_end(self._witness, self._log.head)
        return sync

    monkeypatch.setattr(Store, "begin_sync", boastful)
    with pytest.raises(StoreCorrupt):
        look_everywhere()


def test_a_store_that_notes_no_sync_is_caught_by_a_flipped_bit(monkeypatch):
    monkeypatch.setattr("dray.store.store.note_end", lambda *_: None)
    rng = Random(1)
    recording = recorded_workload(rng, turns=60)
    with pytest.raises(AssertionError):
        flip_what_is_newest(recording, rng, chances=4)
