"""A workload for one queue manager whose every disk operation is recorded, with syncs that overlap.

Sends and receives in transactions that commit, abort, are left open or lose their client; large
messages; a queue with a journal, one with a tight quota, one with priorities; a stream from another
manager and an outgoing queue to one; queues that come and go; checkpoints at any time. The
recording carries marks: `begun n` before the group of turn n may be in the log, `ended n` when its
sync has ended and somebody may have been told. `Recording.turns` has the contents after each turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from dray.errors import StoreFull
from dray.manager.events import LinkFrame, LinkSend, LinkUp
from dray.model.queue import QueueOptions
from dray.store.disk import File
from dray.store.syncing import Checkpoint, Sync
from dray.testing.desk import PEER_ID, Desk, Refused, Seen, Sizes
from dray.testing.disk import Fate, Operation, SimDisk
from dray.testing.shadow import BrokenPromiseError
from dray.testing.storage_model import Contents, Frozen, Key, Known
from dray.testing.storage_records import Letters, sizes_and_crcs
from dray.wire import frames
from dray.wire.stream import Frame

BEGUN, ENDED = "begun", "ended"
PLAIN, JOURNALED, TIGHT, PRIORITIES, LARGE = "plain", "journaled", "tight", "priorities", "large"
GUEST = "guest"
"""A queue that comes and goes."""
OUTGOING = "dray://peer:7340/there"
JOURNAL, COMPUTER_JOURNAL, ORDERS = "journaled;journal", "system$;journal", "order_queue$"
SYSTEM = {COMPUTER_JOURNAL, ORDERS}
TIGHT_BYTES = 6_000
CHECKPOINTS, SYNCS_END, CHECKPOINTS_END, FLUSHES = 0.08, 0.8, 0.4, 0.5
"""How often in a turn a checkpoint begins, and what is under way ends."""
GOES_ON, ABORTS, REPEATS = 0.15, 0.3, 0.2
"""Below these a transaction sends more, or aborts; how often a peer says something twice."""
STREAM, SEQUENCE = 77, 1_700_000_000 << 32
OPTIONS = {
    PLAIN: QueueOptions(),
    JOURNALED: QueueOptions(journal=True),
    TIGHT: QueueOptions(quota=TIGHT_BYTES),
    PRIORITIES: QueueOptions(transactional=False),
    LARGE: QueueOptions(),
}


@dataclass
class Recording:
    """What was done to the disk, and the contents after each turn."""

    known: Known
    sizes: Sizes
    base: SimDisk | None = None
    first: Frozen | None = None
    operations: list[Operation] = field(default_factory=list)
    turns: dict[int, Frozen] = field(default_factory=dict)
    peers: list[tuple[int, tuple[int, int, int]]] = field(default_factory=list)
    """What the peer has accepted, from how many operations on."""

    def peer_at(self, done: int) -> tuple[int, int, int]:
        """What the peer had accepted behind so many operations."""
        return [peer for at, peer in self.peers if at <= done][-1]


@dataclass
class Open:
    """A transaction that was begun: what it sends and takes, by queue."""

    number: int
    session: int
    sends: dict[str, list[Key]] = field(default_factory=dict)
    takes: dict[str, list[Key]] = field(default_factory=dict)
    frames: int = 0


class Workload:
    """One life of a manager."""

    def __init__(self, rng: Random, disk: SimDisk, recording: Recording) -> None:
        """Recover from `disk`, which holds what `recording.first` says."""
        self._rng = rng
        self._recording = recording
        self._disk = disk.recorded(recording.operations)
        self._contents = Contents(recording.known, recording.first)
        self._open: list[Open] = []
        self._syncs: list[tuple[int, Sync]] = []
        self._checkpoint: tuple[int, Checkpoint] | None = None
        self._flushing: list[File] = []
        self._peer_session = 0
        self._gathered: list[tuple[int, LinkSend]] = []
        self._released: list[LinkSend] = []
        self._note_peer()
        self._contents.turn += 1
        recording.turns[self._contents.turn] = self._contents.frozen()
        self._desk = Desk(self._disk, recording.sizes)
        self._begin()
        self._client, first_number = self._welcomed()
        self._letters = Letters(rng, recording.known, first_number)
        self._numbers: dict[str, int] = {}
        self._prepare()

    def run(self, turns: int) -> None:
        """Do something in each turn, then end every sync."""
        for _ in range(turns):
            for _ in range(self._rng.randrange(4)):
                self._act()
            if self._checkpoint is None and (
                self._desk.store.checkpoint_due or self._rng.random() < CHECKPOINTS
            ):
                self._begin_checkpoint()
            self._begin()
            self._go_on()
        self._end_everything()

    def close(self) -> None:
        """End well, with or without a last checkpoint."""
        self._begin_turn()
        snapshot = self._desk.manager.snapshot() if self._rng.randrange(2) else None
        self._desk.store.close(snapshot)
        self._ended(self._contents.turn)

    # ------------------------------------------------------------------------------ the turn

    def _mark(self, what: str, turn: int) -> None:
        self._disk.record(Operation("mark", what, turn))

    def _begin_turn(self) -> None:
        """From here on the contents of now may be what a crash brings back."""
        self._contents.turn += 1
        self._recording.turns[self._contents.turn] = self._contents.frozen()
        self._gathered += [(self._contents.turn, each) for each in self._desk.sent]
        self._desk.sent.clear()
        self._mark(BEGUN, self._contents.turn)

    def _ended(self, turn: int) -> None:
        """Everything up to this turn is durable: now others may hear of it."""
        self._mark(ENDED, turn)
        self._released += [each for at, each in self._gathered if at <= turn]
        self._gathered = [(at, each) for at, each in self._gathered if at > turn]

    def _begin(self) -> None:
        self._begin_turn()
        try:
            sync = self._desk.store.begin_sync()
        except StoreFull:
            if not self._desk.store.checkpoint_due:
                raise BrokenPromiseError("the log is full and no checkpoint is due") from None
            self._end_everything()
            self._desk.store.checkpoint(self._desk.manager.snapshot())
            sync = self._desk.store.begin_sync()
        if sync is not None:
            self._syncs.append((self._contents.turn, sync))

    def _begin_checkpoint(self) -> None:
        self._begin_turn()
        checkpoint = self._desk.store.begin_checkpoint(self._desk.manager.snapshot())
        if checkpoint is not None:
            self._checkpoint = (self._contents.turn, checkpoint)

    def _go_on(self) -> None:
        """End a sync, a checkpoint or an early flush that is under way, or let it run on."""
        if self._syncs and self._rng.random() < SYNCS_END:
            self._end_sync(self._rng.randrange(len(self._syncs)))
        if self._checkpoint and self._rng.random() < CHECKPOINTS_END:
            self._end_checkpoint()
        if self._rng.random() < FLUSHES:
            for file in self._flushing:
                file.sync()
            self._desk.store.flushed(self._flushing)
            self._flushing = self._desk.store.flush_hint()

    def _end_sync(self, which: int) -> None:
        turn, sync = self._syncs.pop(which)
        sync.run()
        self._desk.store.end_sync(sync)
        self._ended(turn)

    def _end_checkpoint(self) -> None:
        assert self._checkpoint is not None
        (turn, checkpoint), self._checkpoint = self._checkpoint, None
        checkpoint.run()
        self._desk.store.end_checkpoint(checkpoint)
        self._ended(turn)

    def _end_everything(self) -> None:
        while self._syncs:
            self._end_sync(0)
        if self._checkpoint:
            self._end_checkpoint()

    # --------------------------------------------------------------------------- what is done

    def _prepare(self) -> None:
        for name, options in OPTIONS.items():
            if name not in self._contents.queues:
                self._desk.ask(self._client, frames.CreateQueue(name, options))
                self._contents.add_queue(name)
        for name in (OUTGOING, JOURNAL, *SYSTEM, *OPTIONS):
            self._numbers[name] = self._desk.number(self._client, name)
            if name not in self._contents.queues:
                self._contents.add_queue(name)
        if GUEST in self._contents.queues:
            self._numbers[GUEST] = self._desk.number(self._client, GUEST)

    def _welcomed(self) -> tuple[int, int]:
        session, welcome = self._desk.client()
        if welcome.first_number < self._contents.leased:
            raise BrokenPromiseError(f"numbers from {welcome.first_number} were leased before")
        self._contents.leased = welcome.first_number + welcome.number_count
        return session, welcome.first_number

    def _act(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._begin_transaction),
            (6, self._go_on_with_one),
            (2, self._send_at_once),
            (4, self._receive_at_once),
            (3, self._arrive),
            (2, self._deliver),
            (1, self._administrate),
            (1, self._lose_client),
            (1, self._drain),
        ]
        weights = [weight for weight, _ in actions]
        self._rng.choices([action for _, action in actions], weights)[0]()

    def _begin_transaction(self) -> None:
        number = self._letters.number()
        self._recording.known.tried.append(number)
        transaction = Open(number, self._client)
        self._open.append(transaction)
        for _ in range(self._rng.randrange(1, 4)):
            ways: list[Callable[[Open], object]] = [self._send_in, self._send_in]
            ways += [self._take_in, self._take_large_in]
            self._rng.choice(ways)(transaction)

    def _go_on_with_one(self) -> None:
        if not self._open:
            return
        transaction = self._open[self._rng.randrange(len(self._open))]
        fate = self._rng.random()
        if fate < GOES_ON:
            self._send_in(transaction)
        elif fate < ABORTS:
            self._open.remove(transaction)
            self._desk.ask(transaction.session, frames.Abort(transaction.number))
            self._let_go(transaction)
        else:
            self._open.remove(transaction)
            self._commit(transaction)

    def _send_in(self, transaction: Open) -> None:
        name = self._rng.choice((PLAIN, JOURNALED, TIGHT, LARGE, OUTGOING, GUEST))
        if name not in self._contents.queues:
            return
        records = self._letters.large() if name == LARGE else self._letters.plain()
        sizes, crcs = sizes_and_crcs(records)
        head = frames.Send(self._numbers[name], transaction.number, sizes, crcs)
        sent = transaction.sends.setdefault(name, [])
        transaction.frames += 1
        try:
            self._desk.say(transaction.session, head, b"".join(records.values()))
        except Refused:
            # The transaction is doomed: its commit says so too.
            return
        sent += records

    def _take_in(self, transaction: Open) -> None:
        name = self._rng.choice((PLAIN, JOURNALED, TIGHT))
        self._take_from(name, transaction, self._rng.randrange(1, 4))

    def _take_from(self, name: str, transaction: Open, count: int) -> None:
        expected = self._contents.available(name)
        seen = self._desk.messages(
            transaction.session,
            self._numbers[name],
            transaction=transaction.number,
            count=count,
            peek=False,
        )
        self._check_seen(name, seen, expected)
        self._hold(transaction, name, [each.key for each in seen])

    def _take_large_in(self, transaction: Open) -> bool:
        head = frames.LargeReceive(self._numbers[LARGE], transaction.number, 0.0)
        try:
            found, _ = self._desk.ask(transaction.session, head)
        except Refused as refused:
            if refused.error != "receive-timeout":
                raise BrokenPromiseError(f"{LARGE} was refused: {refused}") from refused
            return False
        assert isinstance(found, frames.LargeFound)
        parts = self._recording.known.parts_of[found.source, found.sequence]
        self._hold(transaction, LARGE, parts)
        return True

    def _commit(self, transaction: Open) -> None:
        commit = frames.Commit(transaction.number, transaction.frames)
        try:
            self._desk.ask(transaction.session, commit)
        except Refused:
            self._let_go(transaction)
            return
        contents = self._contents
        for name, keys in transaction.sends.items():
            contents.admit(name, keys)
        for name, keys in transaction.takes.items():
            contents.remove(name, keys)
            if name == JOURNALED:
                contents.admit(JOURNAL, keys)
        for keys in transaction.takes.values():
            contents.admit(COMPUTER_JOURNAL, self._letters.journaled(keys))
        if transaction.frames or any(transaction.takes.values()):
            # One that did nothing is none.
            self._recording.known.committed_in[transaction.number] = contents.turn + 1

    def _send_at_once(self) -> None:
        name = self._rng.choice((PRIORITIES, PLAIN, TIGHT))
        records = self._letters.plain()
        sizes, crcs = sizes_and_crcs(records)
        head = frames.Send(self._numbers[name], 0, sizes, crcs)
        try:
            self._desk.ask(self._client, head, b"".join(records.values()))
        except Refused:
            return
        self._contents.admit(name, records, priorities=name == PRIORITIES)

    def _receive_at_once(self) -> None:
        name = self._rng.choice((PRIORITIES, PLAIN, TIGHT, JOURNALED))
        expected = self._contents.available(name)
        count = self._rng.randrange(1, 9)
        seen = self._desk.messages(self._client, self._numbers[name], count=count, peek=False)
        self._check_seen(name, seen, expected)
        keys = [each.key for each in seen]
        self._contents.remove(name, keys)
        if name == JOURNALED:
            self._contents.admit(JOURNAL, keys)
        journaled = self._letters.journaled(keys)
        self._contents.admit(COMPUTER_JOURNAL, journaled, priorities=name == PRIORITIES)

    def _drain(self) -> None:
        """Take everything there is, so that heap files become empty and are used again."""
        transaction = Open(self._letters.number(), self._client)
        self._recording.known.tried.append(transaction.number)
        for name in (PLAIN, JOURNALED, TIGHT):
            self._take_from(name, transaction, len(self._contents.available(name)) + 1)
        while self._take_large_in(transaction):
            pass
        self._commit(transaction)
        for name in (JOURNAL, COMPUTER_JOURNAL, PRIORITIES):
            self._desk.ask(self._client, frames.PurgeQueue(self._numbers[name]))
            self._contents.remove(name, self._contents.available(name))

    def _administrate(self) -> None:
        """Let a queue come, or go with its messages; empty one; set a quota."""
        what = self._rng.choice(("come", "go", "empty", "limit"))
        if what == "come" and GUEST not in self._contents.queues:
            self._desk.ask(self._client, frames.CreateQueue(GUEST, QueueOptions()))
            self._contents.add_queue(GUEST)
            self._numbers[GUEST] = self._desk.number(self._client, GUEST)
        elif what == "go" and GUEST in self._contents.queues:
            self._desk.ask(self._client, frames.DeleteQueue(GUEST))
            self._contents.drop_queue(GUEST)
        elif what == "empty" and not any(name == PLAIN for name, _ in self._contents.held):
            self._desk.ask(self._client, frames.PurgeQueue(self._numbers[PLAIN]))
            self._contents.remove(PLAIN, self._contents.available(PLAIN))
        elif what == "limit":
            quota = self._rng.choice((None, TIGHT_BYTES, TIGHT_BYTES // 2))
            self._desk.ask(self._client, frames.SetQuota(TIGHT, quota, None))

    def _lose_client(self) -> None:
        self._desk.close(self._client)
        for transaction in self._open:
            self._let_go(transaction)
        self._open.clear()
        self._client, _ = self._welcomed()

    # -------------------------------------------------------------------- between two managers

    def _arrive(self) -> None:
        """Messages of another manager's stream, now and then again those of before."""
        if not self._peer_session:
            self._peer_session = self._desk.open()
            self._desk.ask(self._peer_session, frames.Hello("manager", PEER_ID))
            self._desk.ask(self._peer_session, frames.OpenStream(STREAM, LARGE))
        _, upto = self._contents.accepted.get(STREAM, (SEQUENCE, 0))
        fresh = self._letters.arriving(upto, self._rng.randrange(1, 4))
        head = frames.Data(STREAM, SEQUENCE, upto, fresh.envelopes)
        for _ in range(1 + (self._rng.random() < REPEATS)):
            state, _ = self._desk.ask(self._peer_session, head, b"".join(fresh.records.values()))
            wanted = frames.StreamState(STREAM, SEQUENCE, fresh.envelopes[-1].number)
            if state != wanted:
                raise BrokenPromiseError(f"{state} was said of a stream, expected was {wanted}")
        self._contents.admit(LARGE, fresh.records)
        self._contents.accepted[STREAM] = (SEQUENCE, fresh.envelopes[-1].number)

    def _deliver(self) -> None:
        """The other manager has accepted some of what it was sent."""
        for dial in self._desk.dialled:
            self._desk.handle(LinkUp(dial.peer))
            welcome = frames.Welcome(PEER_ID, "peer", "", 1)
            self._desk.handle(LinkFrame(dial.peer, _frame(welcome)))
        self._desk.dialled.clear()
        released, self._released = self._released, []
        for each in released:
            if isinstance(each.head, frames.OpenStream):
                self._acknowledge(each, self._recording.known.peer)
            elif isinstance(each.head, frames.Data):
                count = self._rng.randrange(1, len(each.head.envelopes) + 1)
                last = each.head.envelopes[count - 1]
                accepted = (each.head.sequence_id, last.number, last.lookup_id)
                self._acknowledge(each, max(accepted, self._recording.known.peer))

    def _acknowledge(self, sent: LinkSend, accepted: tuple[int, int, int]) -> None:
        self._recording.known.peer = accepted
        self._note_peer()
        sequence_id, number, lookup_id = accepted
        head = sent.head
        assert isinstance(head, frames.OpenStream | frames.Data)
        state = frames.StreamState(head.stream, sequence_id, number)
        leaving = [key for _, at, key in self._contents.queues[OUTGOING] if at <= lookup_id]
        self._contents.remove(OUTGOING, leaving)
        # What its sender wants a copy of waits there for what becomes of it.
        self._contents.admit(ORDERS, self._letters.journaled(leaving))
        self._desk.handle(LinkFrame(sent.peer, _frame(state)))

    def _note_peer(self) -> None:
        self._recording.peers.append((len(self._recording.operations), self._recording.known.peer))

    # ---------------------------------------------------------------------------- the contents

    def _check_seen(self, name: str, seen: list[Seen], expected: list[Key]) -> None:
        keys = [each.key for each in seen]
        if keys != expected[: len(keys)] or (expected and not keys):
            raise BrokenPromiseError(f"{name} gave {keys}, expected was {expected}")

    def _hold(self, transaction: Open, name: str, keys: list[Key]) -> None:
        transaction.takes.setdefault(name, []).extend(keys)
        self._contents.held.update((name, key) for key in keys)

    def _let_go(self, transaction: Open) -> None:
        for name, keys in transaction.takes.items():
            self._contents.held.difference_update((name, key) for key in keys)


def _frame(head: frames.Head) -> Frame:
    return Frame(head, 0, memoryview(b""))


def record_life(rng: Random, turns: int, recording: Recording) -> Recording:
    """Let a manager live for so many turns, on a copy of the recording's base if it has one."""
    disk = SimDisk(rng) if recording.base is None else recording.base.after_crash(Fate.KEPT)
    workload = Workload(rng, disk, recording)
    workload.run(turns)
    workload.close()
    return recording
