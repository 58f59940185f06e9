"""A workload for one queue manager whose every disk operation is recorded, with syncs that overlap.

Sends and receives in transactions that commit, abort, are prepared, left open or lose their client;
large messages; a queue with a journal and its quota, a tight one, one with priorities and express
messages, a sub-queue; messages that expire, are rejected, acknowledged; a peer (`storage_peer`);
queues that come and go; checkpoints at any time. `storage_consequences` tells what follows from it
all. The recording carries marks: `begun n` before the group of turn n may be in the log, `ended n`
when its sync has ended and somebody may have been told. `Recording.turns` has what lasts after each
turn.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dray.errors import DrayError, ReceiveTimeout
from dray.machine import Tick
from dray.model.classes import MessageClass
from dray.model.ids import ManagerId, join_id
from dray.model.queue import QueueOptions
from dray.testing.disk import CrashEffect, SimDisk
from dray.testing.harness import MANAGER_ID, ManagerHarness, Seen, refused_exactly
from dray.testing.promises import BrokenPromiseError
from dray.testing.storage_consequences import (
    ACKNOWLEDGMENTS,
    COMPUTER_JOURNAL,
    DEAD,
    DEAD_TRANSACTIONAL,
    GO_UNUSED,
    JOURNAL,
    JOURNAL_BYTES,
    JOURNALED,
    LARGE,
    OUTGOING,
    PLAIN,
    PRIORITIES,
    RECEIVED,
    SUB,
    SYSTEM,
    TIGHT,
    TIMED,
    Consequences,
)
from dray.testing.storage_model import Contents, Gathered, Key
from dray.testing.storage_peer import StoragePeer
from dray.testing.storage_queries import Queries
from dray.testing.storage_recording import Recording
from dray.testing.storage_records import Letters, sizes_and_crcs
from dray.testing.storage_syncs import StorageSyncs
from dray.wire import large_frames, message_frames, queue_frames

GUEST = "guest"
"""A queue that comes and goes."""
GONE = "that the transaction sent to or received from has been deleted"
TIGHT_BYTES = 6_000
GOES_ON, ABORTS, PREPARES = 0.15, 0.3, 0.45
"""Below these a transaction does more, aborts or is prepared; else it commits."""
REJECTS = 0.1
OPTIONS = {
    PLAIN: QueueOptions(),
    JOURNALED: QueueOptions(journal=True, journal_quota=JOURNAL_BYTES),
    TIGHT: QueueOptions(quota=TIGHT_BYTES),
    PRIORITIES: QueueOptions(transactional=False),
    LARGE: QueueOptions(),
    ACKNOWLEDGMENTS: QueueOptions(),
}
SENT_TO = (PLAIN, JOURNALED, TIGHT, LARGE, OUTGOING, GUEST)
TAKEN_FROM = (PLAIN, JOURNALED, TIGHT, SUB)
PURGED = (PRIORITIES, JOURNAL, COMPUTER_JOURNAL, DEAD, DEAD_TRANSACTIONAL, ACKNOWLEDGMENTS)


class Workload:
    """One run of a manager."""

    def __init__(self, rng: Random, disk: SimDisk, recording: Recording) -> None:
        """Recover from `disk`, which holds what `recording.first` says."""
        self._rng = rng
        self._recording = recording
        self._disk = disk.recorded(recording.operations)
        self._contents = Contents(recording.known, recording.first)
        self._open = self._contents.open
        self._follow = Consequences(self._contents)
        recording.note_peer()
        self._contents.turn += 1
        recording.turns[self._contents.turn] = self._contents.frozen()
        self._harness = ManagerHarness(self._disk, recording.sizes)
        self._peer = StoragePeer(rng, self._harness, recording, self._contents, self._follow)
        self._queries = Queries(rng, self._harness, recording, self._follow)
        self._syncs = StorageSyncs(
            rng, self._harness, self._disk, recording, self._contents, self._peer
        )
        self._syncs.begin(self._syncs.begin_turn())
        self._client, first_number = self._welcomed()
        self._letters = Letters(rng, recording.known, first_number)
        self._numbers: dict[str, int] = {}
        self._prepare()

    def run(self, turns: int) -> None:
        """Do something in each turn, then end every sync."""
        for _ in range(turns):
            for _ in range(self._rng.randrange(4)):
                self._act()
            if self._syncs.wants_checkpoint:
                self._syncs.begin_checkpoint(self._syncs.begin_turn())
            self._syncs.begin(self._syncs.begin_turn())
            self._syncs.go_on()
        self._syncs.end_everything()

    def close(self) -> None:
        """End well, with or without a last checkpoint."""
        self._syncs.begin_turn()
        snapshot = self._harness.manager.snapshot() if self._rng.randrange(2) else None
        self._harness.store.close(snapshot)
        self._syncs.ended(self._contents.turn)

    # --------------------------------------------------------------------------- what is done

    def _prepare(self) -> None:
        for name, options in OPTIONS.items():
            if name not in self._contents.queues:
                self._harness.ask(self._client, queue_frames.CreateQueue(name, options))
                self._contents.add_queue(name)
                if options.quota is not None:
                    self._contents.quotas[name] = options.quota
        for name in (OUTGOING, JOURNAL, SUB, *sorted(SYSTEM), *OPTIONS):
            self._numbers[name] = self._harness.number(self._client, name)
            if name not in self._contents.queues:
                self._contents.add_queue(name)
        if GUEST in self._contents.queues:
            self._numbers[GUEST] = self._harness.number(self._client, GUEST)

    def _welcomed(self) -> tuple[int, int]:
        session, welcome = self._harness.client()
        if welcome.first_number < self._contents.leased:
            raise BrokenPromiseError(f"numbers from {welcome.first_number} were leased before")
        self._contents.leased = welcome.first_number + welcome.number_count
        return session, welcome.first_number

    def _act(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._begin_transaction),
            (6, self._go_on_with_one),
            (4, self._send_at_once),
            (4, self._receive_at_once),
            (2, self._move_at_once),
            (2, self._settle),
            (2, lambda: self._queries.stage(self._client, self._letters, self._send_in)),
            (2, lambda: self._queries.commit(self._client, self._letters)),
            (1, self._let_time_pass),
            (3, lambda: self._peer.send(self._letters)),
            (2, self._peer.take),
            (1, self._administrate),
            (1, self._lose_client),
            (1, self._drain),
        ]
        weights = [weight for weight, _ in actions]
        self._rng.choices([action for _, action in actions], weights)[0]()

    def _begin_transaction(self) -> None:
        number = self._letters.number()
        self._recording.known.tried.append(number)
        transaction = Gathered(number, self._client)
        self._open.append(transaction)
        for _ in range(self._rng.randrange(1, 4)):
            self._go_on_in(transaction)

    def _go_on_in(self, transaction: Gathered) -> None:
        ways: list[Callable[[Gathered], object]] = [self._send_in, self._send_in, self._take_in]
        ways += [self._take_large_in, self._move_in]
        self._rng.choice(ways)(transaction)

    def _go_on_with_one(self) -> None:
        if not self._open:
            return
        transaction = self._open[self._rng.randrange(len(self._open))]
        fate = self._rng.random()
        if fate < GOES_ON:
            self._go_on_in(transaction)
        elif fate < ABORTS:
            self._open.remove(transaction)
            self._harness.ask(transaction.session, message_frames.Abort(transaction.number))
            self._follow.let_go(transaction)
        elif fate < PREPARES:
            self._open.remove(transaction)
            self._prepare_transaction(transaction)
        else:
            self._open.remove(transaction)
            self._commit(transaction)

    def _send_in(self, transaction: Gathered) -> None:
        name = self._rng.choice(SENT_TO)
        if name not in self._contents.queues:
            return
        now = self._harness.now if name in TIMED else None
        records = self._letters.large() if name == LARGE else self._letters.plain(now)
        sizes, crcs = sizes_and_crcs(records)
        head = message_frames.Send(self._numbers[name], transaction.number, sizes, crcs)
        transaction.frames += 1
        if transaction.doomed:
            self._harness.say(transaction.session, head, b"".join(records.values()))
            return
        refusal = self._follow.refusal(name, records)
        with refused_exactly(refusal):
            self._harness.say(transaction.session, head, b"".join(records.values()))
        if refusal:
            transaction.doomed, transaction.fails = True, refusal
        else:
            transaction.sends.setdefault(name, []).extend(records)

    def _take_in(self, transaction: Gathered) -> None:
        name = self._rng.choice(TAKEN_FROM)
        seen = self._take_from(name, transaction, self._rng.randrange(1, 4))
        for each in seen:
            if self._rng.random() < REJECTS:
                reject = message_frames.Reject(
                    self._numbers[name], each.lookup_id, transaction.number
                )
                self._harness.ask(transaction.session, reject)
                transaction.rejected.add((name, each.key))

    def _take_from(self, name: str, transaction: Gathered, count: int) -> list[Seen]:
        expected = self._contents.available(name)
        seen = self._harness.messages(
            transaction.session,
            self._numbers[name],
            transaction=transaction.number,
            count=count,
            peek=False,
        )
        self._check_seen(name, seen, expected)
        self._hold(transaction, name, [each.key for each in seen])
        return seen

    def _move_in(self, transaction: Gathered) -> None:
        """Move a message to the sub-queue or back, if the transaction commits."""
        source, target = self._rng.choice(((PLAIN, SUB), (SUB, PLAIN)))
        moved = self._moved(source, target, transaction)
        if moved is not None:
            transaction.moves.setdefault((source, target), []).append(moved)
            self._contents.held.add((source, moved))

    def _move_at_once(self) -> None:
        source, target = self._rng.choice(((PLAIN, SUB), (SUB, PLAIN)))
        moved = self._moved(source, target, None)
        if moved is not None:
            self._contents.remove(source, [moved])
            self._contents.admit(target, [moved])

    def _moved(self, source: str, target: str, transaction: Gathered | None) -> Key | None:
        """Have one message moved; gives which."""
        session = transaction.session if transaction else self._client
        seen = self._harness.messages(session, self._numbers[source], count=3, peek=True)
        self._check_seen(source, seen, self._contents.available(source))
        if not seen:
            return None
        each = self._rng.choice(seen)
        number, goal = transaction.number if transaction else 0, self._numbers[target]
        move = message_frames.Move(
            self._numbers[source], each.lookup_id, goal, number, guarded=False
        )
        self._harness.ask(session, move)
        return each.key

    def _take_large_in(self, transaction: Gathered) -> bool:
        head = large_frames.LargeReceive(self._numbers[LARGE], transaction.number, 0.0)
        try:
            found, _ = self._harness.ask(transaction.session, head)
        except ReceiveTimeout:
            return False
        except DrayError as refused:
            raise BrokenPromiseError(f"{LARGE} was refused: {refused}") from refused
        assert isinstance(found, large_frames.LargeFound)
        parts = self._recording.known.parts_of[found.source, found.sequence]
        self._hold(transaction, LARGE, parts)
        return True

    def _prepare_transaction(self, transaction: Gathered) -> None:
        """The first phase; the second comes when it comes, in this run or another."""
        prepare = message_frames.Prepare(transaction.number, transaction.frames)
        with refused_exactly(transaction.fails):
            self._harness.ask(transaction.session, prepare)
        if transaction.fails:
            self._follow.let_go(transaction)
        else:
            self._contents.prepared[transaction.number] = transaction

    def _settle(self) -> None:
        """The second phase of a prepared transaction, if there is one."""
        if not self._contents.prepared:
            return
        number = self._rng.choice(sorted(self._contents.prepared))
        commits = bool(self._rng.randrange(2))
        text = join_id(ManagerId(MANAGER_ID), number)
        self._harness.ask(self._client, message_frames.SettlePrepared(text, commits))
        transaction = self._contents.prepared.pop(number)
        if not commits:
            self._follow.let_go(transaction)
            return
        self._follow.commit(transaction)
        self._recording.known.committed_in[number] = self._contents.turn + 1

    def _let_time_pass(self) -> None:
        """Expired messages leave, and in quiet moments records move to where they belong."""
        self._harness.now += 1.0
        self._harness.handle(Tick())
        self._follow.expire(self._harness.now, self._numbers)

    def _commit(self, transaction: Gathered) -> None:
        commit = message_frames.Commit(transaction.number, transaction.frames)
        with refused_exactly(transaction.fails):
            self._harness.ask(transaction.session, commit)
        if transaction.fails:
            self._follow.let_go(transaction)
            return
        self._follow.commit(transaction)
        if transaction.frames or transaction.takes or transaction.moves:
            # One that did nothing is none.
            self._recording.known.committed_in[transaction.number] = self._contents.turn + 1

    def _send_at_once(self) -> None:
        name = self._rng.choice((PRIORITIES, PRIORITIES, PLAIN, TIGHT))
        records = self._letters.plain(self._harness.now)
        sizes, crcs = sizes_and_crcs(records)
        head = message_frames.Send(self._numbers[name], 0, sizes, crcs)
        refusal = self._follow.refusal(name, records)
        with refused_exactly(refusal):
            self._harness.ask(self._client, head, b"".join(records.values()))
        (self._follow.refuse if refusal else self._follow.arrive)(name, records)

    def _receive_at_once(self) -> None:
        name = self._rng.choice((PRIORITIES, *TAKEN_FROM))
        expected = self._contents.available(name)
        count = self._rng.randrange(1, 9)
        seen = self._harness.messages(self._client, self._numbers[name], count=count, peek=False)
        self._check_seen(name, seen, expected)
        self._follow.leave(name, [each.key for each in seen], RECEIVED)

    def _drain(self) -> None:
        """Take everything there is, so that heap files become empty and are used again."""
        transaction = Gathered(self._letters.number(), self._client)
        self._recording.known.tried.append(transaction.number)
        for name in TAKEN_FROM:
            self._take_from(name, transaction, len(self._contents.available(name)) + 1)
        while self._take_large_in(transaction):
            pass
        self._commit(transaction)
        for name in PURGED:
            seen = self._harness.messages(self._client, self._numbers[name], peek=True)
            self._check_seen(name, seen, self._contents.available(name))
            self._purge(name)

    def _purge(self, name: str) -> None:
        self._harness.ask(self._client, queue_frames.PurgeQueue(self._numbers[name]))
        self._follow.leave(name, self._contents.available(name), MessageClass.NACK_Q_PURGED)

    def _administrate(self) -> None:
        """Let a queue come, or go with its messages; empty one; set a quota."""
        what = self._rng.choice(("come", "go", "empty", "limit"))
        if what == "come" and GUEST not in self._contents.queues:
            self._harness.ask(self._client, queue_frames.CreateQueue(GUEST, QueueOptions()))
            self._contents.add_queue(GUEST)
            self._numbers[GUEST] = self._harness.number(self._client, GUEST)
        elif what == "go" and GUEST in self._contents.queues:
            if any(GUEST in each.sends for each in self._contents.prepared.values()):
                return
            self._harness.ask(self._client, queue_frames.DeleteQueue(GUEST))
            gone = self._contents.available(GUEST)
            self._queries.queue_deleted(GUEST)
            self._follow.leave(GUEST, gone, MessageClass.NACK_Q_DELETED)
            self._contents.drop_queue(GUEST)
            for each in self._open:
                each.fails = each.fails or (GONE if GUEST in each.sends else "")
        elif what == "empty" and not any(name == PLAIN for name, _ in self._contents.held):
            self._purge(PLAIN)
        elif what == "limit":
            quota = self._rng.choice((None, TIGHT_BYTES, TIGHT_BYTES // 2))
            self._harness.ask(self._client, queue_frames.SetQuota(TIGHT, quota, None))
            self._contents.quotas[TIGHT] = quota

    def _lose_client(self) -> None:
        self._harness.close(self._client)
        while self._open:
            self._follow.let_go(self._open.pop(0))
        self._client, _ = self._welcomed()
        for name in GO_UNUSED:
            self._numbers[name] = self._harness.number(self._client, name)

    # ---------------------------------------------------------------------------- the contents

    def _check_seen(self, name: str, seen: list[Seen], expected: list[Key]) -> None:
        found = [(each.key, each.message_class) for each in seen]
        wanted = self._contents.classed(name, expected)
        if found != wanted[: len(found)] or (wanted and not found):
            raise BrokenPromiseError(f"{name} gave {found}, expected was {wanted}")

    def _hold(self, transaction: Gathered, name: str, keys: list[Key]) -> None:
        if keys:
            transaction.takes.setdefault(name, []).extend(keys)
            self._contents.held.update((name, key) for key in keys)


def record_run(rng: Random, turns: int, recording: Recording) -> Recording:
    """Let a manager live for so many turns, on a copy of the recording's base if it has one."""
    disk = SimDisk(rng) if recording.base is None else recording.base.after_crash(CrashEffect.KEPT)
    workload = Workload(rng, disk, recording)
    workload.run(turns)
    workload.close()
    return recording
