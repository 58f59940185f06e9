"""A queue manager as a store of messages, against plain lists: whatever is done in whatever order.

Hypothesis draws sends, receives, transactions, large messages, checkpoints, restarts, kills and
power failures, and shrinks what fails to its shortest story. The model is two dictionaries: what
the queues hold, and what open transactions hold back. A power failure loses what was not synced;
here everything is synced before it is believed, so nothing may be lost at all.
"""

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
)

from dray.errors import ReceiveTimeout
from dray.model.queue import QueueOptions
from dray.testing.disk import CrashEffect, SimDisk
from dray.testing.harness import ManagerHarness, Sizes
from dray.testing.storage_model import Contents, Known
from dray.testing.storage_records import Letters, sizes_and_crcs
from dray.wire import large_frames, message_frames, queue_frames

SIZES = Sizes(heap_file_bytes=16 << 10, log_bytes=24 << 10, queue_files=True)
QUEUES = ("first", "second")
LARGE = "large"
queues = st.sampled_from(QUEUES)


class Transaction:
    """What an open transaction would do."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sends: dict[str, list] = {}
        self.takes: dict[str, list] = {}
        self.frames = 0


class MessageStore(RuleBasedStateMachine):
    """The manager, one client of it, and the model."""

    @initialize(seed=st.integers(0, 1 << 16))
    def begin(self, seed):
        self.rng = Random(seed)
        self.disk = SimDisk(self.rng)
        self.known = Known()
        self.contents = Contents(self.known)
        self.open: list[Transaction] = []
        self.letters = None
        self.start()
        for name in (*QUEUES, LARGE):
            self.harness.ask(self.client, queue_frames.CreateQueue(name, QueueOptions()))
            self.contents.add_queue(name)
        self.settle()

    def start(self):
        self.harness = ManagerHarness(self.disk, SIZES)
        self.harness.store.sync()
        self.client, welcome = self.harness.client()
        self.letters = Letters(self.rng, self.known, welcome.first_number)
        self.open.clear()
        self.contents.held.clear()

    def settle(self):
        if self.harness.store.checkpoint_due:
            self.harness.store.checkpoint(self.harness.manager.snapshot())
        self.harness.store.sync()

    def queue(self, name):
        return self.harness.number(self.client, name)

    def say(self, transaction, name, records):
        sizes, crcs = sizes_and_crcs(records)
        number = transaction.number if transaction else 0
        send = message_frames.Send(self.queue(name), number, sizes, crcs)
        self.harness.say(self.client, send, b"".join(records.values()))

    # ---------------------------------------------------------------- outside transactions

    @rule(name=queues)
    def send(self, name):
        records = self.letters.plain()
        self.say(None, name, records)
        self.settle()
        self.contents.admit(name, records)

    @rule(name=queues, count=st.integers(1, 5))
    def receive(self, name, count):
        seen = self.harness.messages(self.client, self.queue(name), count=count, peek=False)
        self.settle()
        keys = [each.key for each in seen]
        assert keys == self.contents.available(name)[:count]
        self.contents.remove(name, keys)

    @rule(name=queues)
    @precondition(lambda self: not self.open)
    def purge(self, name):
        self.harness.ask(self.client, queue_frames.PurgeQueue(self.queue(name)))
        self.settle()
        self.contents.remove(name, self.contents.available(name))

    # ----------------------------------------------------------------- inside transactions

    @rule()
    @precondition(lambda self: len(self.open) < 3)
    def begin_transaction(self):
        self.open.append(Transaction(self.letters.number()))

    @rule(name=st.sampled_from((*QUEUES, LARGE)), which=st.integers(0, 2))
    @precondition(lambda self: self.open)
    def send_in(self, name, which):
        transaction = self.open[which % len(self.open)]
        records = self.letters.large() if name == LARGE else self.letters.plain()
        self.say(transaction, name, records)
        transaction.frames += 1
        transaction.sends.setdefault(name, []).extend(records)

    @rule(name=queues, which=st.integers(0, 2), count=st.integers(1, 5))
    @precondition(lambda self: self.open)
    def receive_in(self, name, which, count):
        transaction = self.open[which % len(self.open)]
        seen = self.harness.messages(
            self.client,
            self.queue(name),
            transaction=transaction.number,
            count=count,
            peek=False,
        )
        keys = [each.key for each in seen]
        assert keys == self.contents.available(name)[:count]
        self.hold(transaction, name, keys)

    @rule(which=st.integers(0, 2))
    @precondition(lambda self: self.open)
    def receive_large_in(self, which):
        transaction = self.open[which % len(self.open)]
        head = large_frames.LargeReceive(self.queue(LARGE), transaction.number, 0.0)
        expected = self.contents.available(LARGE)
        try:
            found, _ = self.harness.ask(self.client, head)
        except ReceiveTimeout:
            assert not expected
            return
        key = (found.source, found.sequence)
        assert key == expected[0]
        self.hold(transaction, LARGE, self.known.parts_of[key])

    def hold(self, transaction, name, keys):
        transaction.takes.setdefault(name, []).extend(keys)
        self.contents.held.update((name, key) for key in keys)

    @rule(which=st.integers(0, 2))
    @precondition(lambda self: self.open)
    def commit(self, which):
        transaction = self.open.pop(which % len(self.open))
        self.harness.ask(self.client, message_frames.Commit(transaction.number, transaction.frames))
        self.settle()
        for name, keys in transaction.sends.items():
            self.contents.admit(name, keys)
        for name, keys in transaction.takes.items():
            self.contents.remove(name, keys)

    @rule(which=st.integers(0, 2))
    @precondition(lambda self: self.open)
    def abort(self, which):
        transaction = self.open.pop(which % len(self.open))
        self.harness.ask(self.client, message_frames.Abort(transaction.number))
        self.settle()
        for name, keys in transaction.takes.items():
            self.contents.held.difference_update((name, key) for key in keys)

    # ------------------------------------------------------------------------ life and death

    @rule()
    def write_a_checkpoint(self):
        self.settle()
        self.harness.store.checkpoint(self.harness.manager.snapshot())

    @rule(with_checkpoint=st.booleans())
    def restart(self, with_checkpoint):
        self.harness.store.close(self.harness.manager.snapshot() if with_checkpoint else None)
        self.start()

    @rule()
    def be_killed(self):
        self.disk = self.disk.kill()
        self.start()

    @rule(fate=st.sampled_from(CrashEffect))
    def lose_power(self, fate):
        self.disk = self.disk.crash(fate)
        self.start()

    @rule()
    def lose_the_client(self):
        self.harness.close(self.client)
        self.client, _ = self.harness.client()
        self.settle()
        self.open.clear()
        self.contents.held.clear()

    # --------------------------------------------------------------------------- what holds

    @invariant()
    def everything_is_there_in_order_and_to_the_byte(self):
        if not hasattr(self, "harness"):
            return
        for name in (*QUEUES, LARGE):
            seen = self.harness.messages(self.client, self.queue(name), peek=True)
            assert [each.key for each in seen] == self.contents.available(name)
            assert all(each.record == self.known.records[each.key] for each in seen)

    @invariant()
    def bytes_are_counted_exactly(self):
        if not hasattr(self, "harness"):
            return
        infos = {info.name: info for info in self.harness.queues(self.client)}
        for name in (*QUEUES, LARGE):
            assert infos[name].byte_count == self.contents.used(name)
            assert infos[name].message_count == len(self.contents.queues[name])


@pytest.mark.slow
class TestMessageStore(MessageStore.TestCase):
    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.torture
@pytest.mark.timeout(1800)
class TestMessageStoreForLonger(MessageStore.TestCase):
    settings = settings(max_examples=2000, stateful_step_count=80, deadline=None)
