"""The checks of a queue manager that came back after a power failure, through its frames.

The recovered manager is asked for everything it holds, and that is held against the contents of
each turn that may have come back: not older than the last one somebody was told of, not newer than
the last one begun. So what was answered stays, what was not committed is gone, what was received
never returns, order is kept, and no message is there in part.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from random import Random

from dray.model.classes import QueueKind
from dray.model.ids import ManagerId, join_id, split_id
from dray.model.message import Message
from dray.model.queue import QueueInfo
from dray.testing.disk import SimDisk
from dray.testing.harness import MANAGER_ID, ManagerHarness
from dray.testing.promises import BrokenPromiseError
from dray.testing.storage_consequences import (
    GO_UNUSED,
    LARGE,
    OUTGOING,
    SYSTEM,
    Consequences,
)
from dray.testing.storage_model import Contents, Frozen, Key, Known, classed, keys_of
from dray.testing.storage_peer import STREAM
from dray.testing.storage_queries import joined
from dray.testing.storage_recording import Recording
from dray.testing.storage_records import Letters, sizes_and_crcs
from dray.wire import batch_frames, large_frames, message_frames, peer_frames, queue_frames

INTERNAL = {"admin_queue$", "notify_queue$", "order_queue$"}
"""Queues that are in no quota."""
OUTCOMES_ASKED = 8
"""So many of the newest transactions before the failure are asked for."""


def check_recovered(disk: SimDisk, recording: Recording, turns: Iterable[int]) -> Frozen:
    """Recover from `disk` and compare; gives what came back, of those `turns` that may have."""
    harness = ManagerHarness(disk, recording.sizes)
    recovered = Recovered(harness, recording.known)
    frozen = recovered.which([recording.turns[turn] for turn in turns if turn in recording.turns])
    recovered.check_large(frozen)
    recovered.check_settled(frozen)
    return frozen


class Recovered:
    """One manager that came back."""

    def __init__(self, harness: ManagerHarness, known: Known) -> None:
        """Ask it for everything."""
        self._harness = harness
        self._known = known
        self._session, self._welcome = harness.client()
        self._infos = {info.name: info for info in harness.queues(self._session)}
        self._found = {
            name: self._messages(info)
            for name, info in self._infos.items()
            if info.message_count or info.kind is not QueueKind.SYSTEM
        }
        self._check_accounts()
        self._prepared = self._list_prepared()
        self._accepted = self._stream_position()
        self._outcomes = {number: self._outcome(number) for number in known.tried[-OUTCOMES_ASKED:]}
        self._next_position = self._send_one() if LARGE in self._infos else 1

    def which(self, candidates: list[Frozen]) -> Frozen:
        """The turn that came back; raises `BrokenPromiseError` if it is none of those."""
        for frozen in reversed(candidates):
            if self._is(frozen):
                return frozen
        allowed = [frozen.turn for frozen in candidates]
        held = {name: keys for name, keys in self._found.items() if keys}
        wanted = {name: classed(candidates[-1], name) for name in candidates[-1].queues}
        raise BrokenPromiseError(
            f"what came back is the state of no turn of {allowed}: {held}, accepted"
            f" {self._accepted}, next position {self._next_position}, next number"
            f" {self._welcome.first_number}, outcomes {self._outcomes}; the newest is {wanted},"
            f" {candidates[-1].accepted}, {candidates[-1].admitted}, {candidates[-1].leased}"
        )

    def _is(self, frozen: Frozen) -> bool:
        wanted = {name: classed(frozen, name) for name in frozen.queues}
        unseen = SYSTEM | {name for name in frozen.queues if _goes_by_itself(frozen, name)}
        wanted = {name: keys for name, keys in wanted.items() if keys or name not in unseen}
        found = {name: keys for name, keys in self._found.items() if keys or name not in unseen}
        committed = self._known.committed_in
        return (
            self._counts_fit(frozen)
            and self._prepared == sorted(frozen.prepared)
            and self._staged_fit(frozen)
            and self._batches_fit(frozen)
            and found == wanted
            and self._accepted == frozen.accepted.get(STREAM, (0, 0))
            and self._welcome.first_number == max(1, frozen.leased)
            and self._next_position == frozen.admitted.get(LARGE, 0) + 1
            and all(
                told == (committed.get(number, frozen.turn + 1) <= frozen.turn)
                for number, told in self._outcomes.items()
            )
        )

    def _counts_fit(self, frozen: Frozen) -> bool:
        """Whether queues count what is in them, with what is held, and have their quotas."""
        for name, entries in frozen.queues.items():
            info = self._infos.get(name)
            if info is None and _goes_by_itself(frozen, name):
                continue
            size = sum(len(self._known.records[key]) for _, _, key in entries)
            if info is None or (info.message_count, info.byte_count) != (len(entries), size):
                return False
            if name in frozen.quotas and info.quota != frozen.quotas[name]:
                return False
        return True

    def _staged_fit(self, frozen: Frozen) -> bool:
        """Whether each queue counts what is staged for it."""
        wanted = dict.fromkeys(self._infos, 0)
        for each in frozen.staged.values():
            for name, keys in each.sends.items():
                wanted[name] = wanted.get(name, 0) + len(keys)
        return wanted == {name: info.staged_count for name, info in self._infos.items()}

    def _batches_fit(self, frozen: Frozen) -> bool:
        """Whether the last two batches of each query are known, and what they held."""
        for query, batches in frozen.batches.items():
            for batch, (digest, number) in batches.items():
                answer, _ = self._harness.ask(
                    self._session, batch_frames.DescribeBatch(query, batch)
                )
                assert isinstance(answer, batch_frames.BatchIs)
                told = (answer.last, answer.digest, answer.transaction_id)
                name = join_id(ManagerId(MANAGER_ID), number)
                if not answer.committed or told != (max(batches), digest, name):
                    return False
        return True

    def _messages(self, info: QueueInfo) -> list[tuple[Key, int]]:
        """The messages of a queue and their classes; each is, to the byte, one that was sent."""
        if not info.message_count:
            return []
        number = self._harness.number(self._session, info.name)
        seen = self._harness.messages(self._session, number, peek=True)
        for each in seen:
            if self._known.records.get(each.key) != each.record:
                raise BrokenPromiseError(f"{each.key} in {info.name!r} is not what was sent")
        return [(each.key, each.message_class) for each in seen]

    def _check_accounts(self) -> None:
        """The manager's quotas are used by exactly what is there."""
        head, _ = self._harness.ask(self._session, queue_frames.Describe())
        assert isinstance(head, queue_frames.ManagerState)
        used = {False: 0, True: 0}
        for name, info in self._infos.items():
            if name not in INTERNAL:
                used[info.kind is QueueKind.SYSTEM] += info.byte_count
        counted = (head.info.bytes_used, head.info.journal_bytes_used)
        if counted != (used[False], used[True]):
            raise BrokenPromiseError(f"counted as used are {counted}, there are {used}")

    def _list_prepared(self) -> list[int]:
        head, _ = self._harness.ask(self._session, message_frames.ListPrepared())
        assert isinstance(head, message_frames.PreparedList)
        return sorted(split_id(each)[1] for each in head.transaction_ids)

    def check_settled(self, frozen: Frozen) -> None:
        """Each prepared transaction does, when it is committed or aborted, what it would have."""
        if not (frozen.prepared or frozen.staged):
            return
        contents = Contents(self._known.as_of(frozen, self._known.peer, 0), frozen)
        # The manager's own numbers come behind those that this client was welcomed with.
        contents.leased = self._welcome.first_number + self._welcome.number_count
        follow = Consequences(contents)
        for at, (number, transaction) in enumerate(frozen.prepared.items()):
            text = join_id(ManagerId(MANAGER_ID), number)
            self._harness.ask(self._session, message_frames.SettlePrepared(text, at % 2 == 0))
            (follow.let_go if at % 2 else follow.commit)(transaction)
        for at, (query, batch) in enumerate(sorted({e.batch for e in frozen.staged.values()})):
            staged = [e for e in frozen.staged.values() if e.batch == (query, batch)]
            whole = joined(contents.leased - 3 - at, staged)
            names = [join_id(ManagerId(MANAGER_ID), each.number) for each in staged]
            commit = batch_frames.CommitBatch(query, batch, b"", whole.number, names)
            self._harness.ask(self._session, commit)
            for each in staged:
                del contents.for_batches[each.number]
            follow.commit(whole)
        for name in frozen.queues:
            number = self._harness.number(self._session, name)
            seen = self._harness.messages(self._session, number, peek=True)
            found = [(each.key, each.message_class) for each in seen]
            wanted = contents.classed(name, contents.available(name))
            if name != LARGE and found != wanted:
                raise BrokenPromiseError(f"settled, {name} has {found}, expected was {wanted}")

    def _stream_position(self) -> tuple[int, int]:
        if LARGE not in self._infos:
            return (0, 0)
        session, other = self._harness.source()
        state, _ = self._harness.ask(session, other.proven(peer_frames.OpenStream(STREAM, LARGE)))
        assert isinstance(state, peer_frames.StreamState)
        return (state.sequence_id, state.upto)

    def check_large(self, frozen: Frozen) -> None:
        """Large messages are whole, up to the first that is held or still arriving."""
        if LARGE not in frozen.queues:
            return
        number = self._harness.number(self._session, LARGE)
        head, _ = self._harness.ask(self._session, large_frames.LargeList(number, 0, 10_000))
        assert isinstance(head, large_frames.LargeListed)
        found = [(each.source, each.sequence) for each in head.entries if not each.missing]
        there, free = {key for _, _, key in frozen.queues[LARGE]}, set(keys_of(frozen, LARGE))
        whole = []
        for _, _, key in frozen.queues[LARGE]:
            parts = self._known.parts_of.get(key)
            if parts is None:
                continue
            if key not in free or not there.issuperset(parts):
                break
            whole.append(key)
        if found != whole or len(found) != len(head.entries):
            raise BrokenPromiseError(f"large messages are {head.entries}, expected were {whole}")

    def _outcome(self, number: int) -> bool:
        """Whether somebody who asks is told that the transaction was committed."""
        text = join_id(ManagerId(MANAGER_ID), number)
        head, _ = self._harness.ask(self._session, message_frames.Outcome(text))
        assert isinstance(head, message_frames.OutcomeIs)
        return head.status == "committed"

    def _send_one(self) -> int:
        """The position that the next message gets: none is given out twice."""
        number = self._harness.number(self._session, LARGE)
        before = self._harness.messages(self._session, number, peek=True)
        unused = self._welcome.first_number + self._welcome.number_count - 2
        record = Letters(Random(0), Known(), unused).one(Message(body=b"new"))
        sizes, crcs = sizes_and_crcs(record)
        send = message_frames.Send(number, 0, sizes, crcs, guarded=False)
        self._harness.ask(self._session, send, b"".join(record.values()))
        after = self._harness.messages(self._session, number, peek=True)
        (added,) = {each.lookup_id for each in after} - {each.lookup_id for each in before}
        return added


def _goes_by_itself(frozen: Frozen, name: str) -> bool:
    """Whether a start drops a queue: an empty sub-queue, and what never carried anything."""
    if name not in GO_UNUSED or frozen.queues[name]:
        return False
    if name == OUTGOING and frozen.admitted[name]:
        return False
    waiting = (*frozen.prepared.values(), *frozen.staged.values())
    return not any(name in (*each.sends, *chain(*each.moves)) for each in waiting)
