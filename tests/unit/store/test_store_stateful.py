"""The store against a plain dict, with syncs, checkpoints, crashes and kills in any order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dray.errors import StoreFull
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import HEAP_BYTES, opened


class StoreMachine(RuleBasedStateMachine):
    """`history` is every state that a crash may leave, the newest last."""

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed):
        self.rng = Random(seed)
        self.disk = SimDisk(self.rng)
        self.open()

    def open(self):
        self.store, self.ledger = opened(self.disk)
        self.payloads = {
            key: self.store.read(extent) for key, (extent, _) in self.ledger.pieces.items()
        }
        self.history = [(self.ledger.turn, dict(self.payloads))]
        self.under_way = []
        self.checkpoint = None
        self.spare = []

    def reopen(self, disk):
        before = self.history
        self.disk = disk
        self.open()
        assert (self.ledger.turn, self.payloads) in before

    @rule(size=st.integers(0, HEAP_BYTES), byte=st.binary(min_size=1, max_size=1))
    def put(self, size, byte):
        key = self.rng.randrange(1 << 40)
        self.payloads[key] = byte * size
        self.ledger.put(self.store, key, byte * size)

    @precondition(lambda self: self.payloads)
    @rule(data=st.data())
    def take(self, data):
        key = data.draw(st.sampled_from(sorted(self.payloads)))
        del self.payloads[key]
        self.ledger.take(self.store, key)

    @rule(size=st.integers(1, HEAP_BYTES))
    def stage(self, size):
        self.spare.append(self.store.place(bytes(size)))

    @precondition(lambda self: self.spare)
    @rule()
    def abort(self):
        self.store.discard(self.spare.pop())

    @rule()
    def begin_sync(self):
        self.ledger.end_turn(self.store)
        self.history.append((self.ledger.turn, dict(self.payloads)))
        try:
            sync = self.store.begin_sync()
        except StoreFull:
            assert self.store.checkpoint_due
            self.end_checkpoint()
            self.store.checkpoint(self.ledger.snapshot())
            self.history = self.history[-1:]
            return
        self.under_way.append((self.ledger.turn, sync))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def end_sync(self, data):
        which = data.draw(st.integers(0, len(self.under_way) - 1))
        turn, sync = self.under_way.pop(which)
        if sync is not None:
            sync.run()
            self.store.end_sync(sync)
        self.history = [each for each in self.history if each[0] >= turn]

    @rule()
    def begin_checkpoint(self):
        self.begin_sync()
        if self.checkpoint is None:
            self.checkpoint = self.store.begin_checkpoint(self.ledger.snapshot())

    def end_checkpoint(self):
        if self.checkpoint is not None:
            self.checkpoint.run()
            self.store.end_checkpoint(self.checkpoint)
            self.checkpoint = None

    @rule()
    def finish_checkpoint(self):
        self.end_checkpoint()

    @rule()
    def flush(self):
        files = self.store.flush_hint()
        for file in files:
            file.sync()
        self.store.flushed(files)

    @rule()
    def seal(self):
        self.store.seal()

    @rule(fate=st.sampled_from(CrashEffect))
    def crash(self, fate):
        self.reopen(self.disk.crash(fate))

    @rule()
    def kill(self):
        self.reopen(self.disk.kill())

    @rule(snapshot=st.booleans())
    def close(self, snapshot):
        self.end_checkpoint()
        self.begin_sync()
        self.history = self.history[-1:]
        # Whose log is full can only close with a checkpoint.
        wanted = snapshot or self.store.checkpoint_due
        self.store.close(self.ledger.snapshot() if wanted else None)
        self.reopen(self.disk)

    @invariant()
    def every_piece_reads_back(self):
        for key, (extent, _) in self.ledger.pieces.items():
            assert self.store.read(extent) == self.payloads[key]


@pytest.mark.slow
def test_no_order_of_events_loses_or_invents_anything():
    budget = settings(max_examples=60, stateful_step_count=40)
    run_state_machine_as_test(StoreMachine, settings=budget)
