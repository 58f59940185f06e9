"""Consequences, in the model of a queue manager, when messages arrive, leave or move.

Journals and their quotas, dead letters, acknowledgments, confirmations, expiry: the table of
`dray.manager.change.departures`, told again without a look at it. Acknowledgments are messages of
the manager's own; that their numbers and bytes are foretold here is part of the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dray.model.classes import MessageClass
from dray.model.ids import ManagerId, join_id
from dray.model.limits import NUMBERS_LEASED
from dray.model.message import Message
from dray.testing.harness import MANAGER_ID
from dray.testing.storage_model import Contents, Gathered, Key
from dray.wire.record import (
    FLAG_DEAD_LETTER,
    FLAG_JOURNAL,
    FLAG_RECOVERABLE,
    RecordHeader,
    encode_record,
    read_header,
    read_properties,
)

PLAIN, JOURNALED, TIGHT, PRIORITIES, LARGE = "plain", "journaled", "tight", "priorities", "large"
SUB = "plain;later"
ACKNOWLEDGMENTS = "acknowledgments"
OUTGOING = "dray://peer:7340/there"
GO_UNUSED = (SUB, OUTGOING)
"""Queues that go with the last client that had opened them, if nobody has any use for them."""
JOURNAL, COMPUTER_JOURNAL, ORDERS = "journaled;journal", "system$;journal", "order_queue$"
DEAD, DEAD_TRANSACTIONAL = "system$;deadletter", "system$;deadxact"
SYSTEM: Final = {COMPUTER_JOURNAL, ORDERS, DEAD, DEAD_TRANSACTIONAL}
JOURNAL_BYTES: Final = 5_000
"""The quota of the journal: less than what is received in a workload."""
TIMED: Final = (PLAIN, SUB, JOURNALED, TIGHT, PRIORITIES)
"""Queues whose messages may have a time to live."""
RECEIVED, ARRIVED = MessageClass.ACK_RECEIVE, MessageClass.ACK_REACH_QUEUE
FULL = MessageClass.NACK_Q_EXCEED_QUOTA
_KEEPERS: Final = {JOURNAL, *SYSTEM}
_NEGATIVE: Final = 0x8000


class Consequences:
    """Changes the contents as the manager changes its queues."""

    def __init__(self, contents: Contents) -> None:
        """Make messages of the manager's own with numbers that it leases when it needs one."""
        self.contents = contents
        self._known = contents.known
        self._own = range(0)

    def arrive(self, name: str, keys: Iterable[Key]) -> None:
        """Messages of clients join a queue."""
        for key in keys:
            express = name == PRIORITIES and not self._header(key).flags & FLAG_RECOVERABLE
            self.contents.admit(name, [key], priorities=name == PRIORITIES)
            if express:
                self.contents.express.add((name, key))
            if name != OUTGOING and self._header(key).acknowledge:
                self._acknowledge(key, ARRIVED, express=express)

    def leave(self, name: str, keys: Iterable[Key], why: MessageClass) -> None:
        """Messages leave a queue for good."""
        leaving = list(keys)
        for key in leaving:
            if why == RECEIVED and name == JOURNALED:
                self._journal(key)
            if key[0] == MANAGER_ID and name not in _KEEPERS:
                self._tell(name, key, why)
        self.contents.remove(name, leaving)

    def refusal(self, name: str, keys: Iterable[Key]) -> str:
        """The error's sentence that refuses messages for a queue's quota; empty if they fit."""
        limit = self.contents.quotas.get(name)
        used = self.contents.used(name) + self.contents.staged(name)
        asked_for = self.contents.bytes_of(keys)
        if limit is None or used + asked_for <= limit:
            return ""
        return f"{used} of {limit} bytes are used and {asked_for} more were asked for"

    def refuse(self, name: str, keys: Iterable[Key]) -> None:
        """A full queue lets none in; who sent those it had no room for is told, if he asked."""
        room = (self.contents.quotas[name] or 0) - self.contents.used(name)
        room -= self.contents.staged(name)
        for key in keys:
            size = self.contents.bytes_of([key])
            if size <= room:
                room -= size
            else:
                self._tell(name, key, FULL)

    def commit(self, transaction: Gathered) -> None:
        """Everything that a transaction has gathered happens."""
        for name, keys in transaction.sends.items():
            self.arrive(name, keys)
        for name, keys in transaction.takes.items():
            rejected = [key for key in keys if (name, key) in transaction.rejected]
            self.leave(name, [key for key in keys if key not in rejected], RECEIVED)
            self.leave(name, rejected, MessageClass.NACK_RECEIVE_REJECTED)
        for (source, target), keys in transaction.moves.items():
            self.contents.remove(source, keys)
            self.contents.admit(target, keys)

    def let_go(self, transaction: Gathered) -> None:
        """Nothing of it happens."""
        self.contents.held.difference_update(transaction.held())

    def expire(self, now: float, numbers: Mapping[str, int]) -> None:
        """Expired messages leave, queue by queue, the earliest first."""
        due = [
            (self._known.expires[key], numbers[name], ordinal, name, key)
            for name in TIMED
            for _, ordinal, key in self.contents.queues[name]
            if self._known.expires.get(key, now + 1) <= now
            and (name, key) not in self.contents.held
        ]
        leaving: dict[str, list[Key]] = {}
        for _, _, _, name, key in sorted(due):
            leaving.setdefault(name, []).append(key)
        for name, keys in leaving.items():
            self.leave(name, keys, MessageClass.NACK_RECEIVE_TIMEOUT)

    def awaiting(self, keys: Iterable[Key]) -> None:
        """A delivered message whose sender wants a copy waits for its outcome."""
        wanted = FLAG_DEAD_LETTER | FLAG_JOURNAL
        kept = [key for key in keys if self._header(key).flags & wanted]
        self.contents.admit(ORDERS, kept)

    def confirmed(self) -> None:
        """All that the peer has told and was not acted upon yet."""
        contents, told = self.contents, self._known.told
        for number, why in told[contents.heard :]:
            key = (MANAGER_ID, number)
            if key in [each for _, _, each in contents.queues[ORDERS]]:
                contents.remove(ORDERS, [key])
                self._keep(key, why, DEAD_TRANSACTIONAL)
        contents.heard = len(told)

    def _tell(self, name: str, key: Key, why: MessageClass) -> None:
        if self._header(key).acknowledge:
            self._acknowledge(key, why, express=(name, key) in self.contents.express)
        dead = DEAD if name == PRIORITIES else DEAD_TRANSACTIONAL
        self._keep(key, why, dead, priorities=name == PRIORITIES)

    def _keep(self, key: Key, why: int, dead: str, *, priorities: bool = False) -> None:
        flags = self._header(key).flags
        if not why & _NEGATIVE and flags & FLAG_JOURNAL:
            self.contents.admit(COMPUTER_JOURNAL, [key], priorities=priorities)
        elif why & _NEGATIVE and flags & FLAG_DEAD_LETTER:
            self.contents.admit(dead, [key], priorities=priorities, message_class=why)

    def _journal(self, key: Key) -> None:
        size = len(self._known.records[key])
        if self.contents.used(JOURNAL) + size <= JOURNAL_BYTES:
            self.contents.admit(JOURNAL, [key])

    def _acknowledge(self, key: Key, why: MessageClass, *, express: bool) -> None:
        if not self._own:
            first = max(1, self.contents.leased)
            self._own = range(first, first + NUMBERS_LEASED)
            self.contents.leased = self._own.stop
        number, self._own = self._own[0], self._own[1:]
        message = Message(
            label=read_properties(self._known.records[key], self._header(key)).label,
            correlation_id=join_id(ManagerId(key[0]), key[1]),
            recoverable=not express,
        )
        head, body = encode_record(message, bytes.fromhex(MANAGER_ID), number)
        self._known.records[MANAGER_ID, number] = head + bytes(body)
        self.contents.admit(ACKNOWLEDGMENTS, [(MANAGER_ID, number)], message_class=why)

    def _header(self, key: Key) -> RecordHeader:
        return read_header(self._known.records[key])
