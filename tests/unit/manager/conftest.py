"""A driver at which tests sit: a real manager over a real store, spoken to in frames."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import crc32c
import pytest

from dray.errors import ReceiveTimeout
from dray.machine import Tick
from dray.manager.entries import is_express_entry
from dray.manager.entries.entry import length_of
from dray.manager.events import (
    Answer,
    Effect,
    Event,
    ManagerConfig,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.manager.queue import Account, account_of
from dray.manager.state import State, take_snapshots
from dray.manager.transactions.open_transaction import TransactionShares
from dray.manager.turn import QueueManager
from dray.model import callers
from dray.model.callers import OWNER
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.store.disk import Disk
from dray.store.limits import EXPRESS_BYTES
from dray.store.real_disk import RealDisk, RealFile
from dray.store.store import Store
from dray.testing.harness import ManagerHarness, Sizes
from dray.testing.keyed_manager import KeyedManager, id_named, key_named
from dray.wire import (
    backup_frames,
    file_frames,
    frames,
    large_frames,
    message_frames,
    peer_frames,
    queue_frames,
    transfer_frames,
)
from dray.wire.head import Head
from dray.wire.record import PLAIN, PartMark, encode_record
from dray.wire.stream import Frame
from tests.inspection import Inside, look_into
from tests.unit.manager.restores import check_restore, is_asked_of_each

HEAP_FILE_BYTES = 1 << 16
LOG_BYTES = 1 << 18


class MortalDisk(RealDisk):
    """A disk that closes its files with itself, as the system does when a process ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_closed = False
        self._files: list[RealFile] = []

    def open(self, name: str, *, size: int = 0) -> RealFile:
        file = super().open(name, size=size)
        self._files.append(file)
        return file

    def close(self) -> None:
        self.is_closed = True
        while self._files:
            self._files.pop().close()
        super().close()


NEVER_HELD = (peer_frames.AheadKept, transfer_frames.Credit, transfer_frames.Post)
"""Nothing durable rests on them."""
AT_ONCE = (
    *NEVER_HELD,
    backup_frames.BackupPiece,
    file_frames.Copied,
    frames.Done,
    large_frames.Range,
    message_frames.Messages,
)
"""Answers that may go out before the sync of their turn."""
STARTS = itertools.count(1)
"""What tells the incarnations of stores apart, also those of copies of one store."""

DISKS: list[MortalDisk] = []
"""What `die_out` closes when a test ends, however it ends."""


DRIVERS: dict[Path, ManagerDriver] = {}
"""The last manager over each folder; when a test has passed, each must survive a restart."""


def new_disk(path: Path) -> MortalDisk:
    DISKS.append(MortalDisk(path))
    return DISKS[-1]


def die_out() -> None:
    DRIVERS.clear()
    while DISKS:
        DISKS.pop().close()


class ManagerDriver(ManagerHarness):
    """Drives one manager on a real disk; every call is a turn with its sync, unless told."""

    def __init__(
        self,
        path: Path,
        letter: str = "a",
        *,
        queue_files: bool = False,
        express_bytes: int = EXPRESS_BYTES,
        **options: object,
    ) -> None:
        self.path, self.manager_id, self.key = path, id_named(letter), key_named(letter)
        self.options = options
        self.asked: set[tuple[int, int]] = set()
        self.disk = new_disk(path)
        sizes = Sizes(HEAP_FILE_BYTES, LOG_BYTES, queue_files, express_bytes)
        super().__init__(self.disk, sizes, self._config())
        DRIVERS[path] = self

    def _config(self) -> ManagerConfig:
        return ManagerConfig(
            manager_id=self.manager_id,
            key=self.key,
            incarnation=next(STARTS),
            name="test",
            **self.options,
        )

    def recover(self, disk: Disk, config: ManagerConfig) -> None:
        super().recover(disk, config)
        assert self.manager.deadline() == self.now, "a start is followed by a tick at once"
        self.store.sync()
        self.effects: list[Effect] = []
        self.turn(Tick())

    def start(self) -> None:
        self.disk = new_disk(self.path)
        self.recover(self.disk, self._config())

    def crash(self) -> None:
        """Forget everything in memory; what was synced stays."""
        self.disk.close()
        self.start()

    def handle(self, event: Event) -> list[Effect]:
        return self.turn(event)

    def turn(self, event: Event, *, sync: bool = True) -> list[Effect]:
        if isinstance(event, Request):
            self.asked.add((event.session, event.frame.request_id))
        effects = self.manager.handle(event, self.now)
        self._check_answers(effects)
        if self.store.checkpoint_due:
            self.store.checkpoint(self.manager.snapshot())
        if sync:
            self.store.sync()
        self.effects += effects
        return effects

    def _check_answers(self, effects: list[Effect]) -> None:
        """Only requests are answered, and only some answers wait for no sync."""
        for each in effects:
            if isinstance(each, Answer):
                assert not each.request_id or (each.session, each.request_id) in self.asked
                assert each.held or isinstance(each.head, AT_ONCE)
                assert not (each.held and isinstance(each.head, NEVER_HELD))

    def leave_unchecked(self) -> None:
        """The test has changed the folder or the state by itself: no restart finds them so."""
        del DRIVERS[self.path]

    def check_restart(self) -> None:
        """Nothing leaks, and a restart finds the same state and counts the same."""
        inside = look_into(self.manager)
        for number in list(inside.sessions):
            self.turn(SessionClosed(number))
        self.store.sync()
        if is_asked_of_each():
            check_restore(self)
        _check_nobody_is_left(inside)
        staged = _staged_for_good(inside)
        before = _Durable.of(inside.state)
        express = express_bytes_of(inside.state)
        assert self.store.live_bytes == before.live_bytes + express, "leaked heap bytes"
        self.disk.close()
        self.disk = new_disk(self.path)
        store = Store(self.disk, heap_file_bytes=HEAP_FILE_BYTES, log_bytes=LOG_BYTES)
        manager = QueueManager.load(store, ManagerConfig(manager_id=""), self.now)
        after = _Durable.of(look_into(manager).state)
        if express:
            after = after._replace(stored=before.stored)
        assert after == before, "not the same after a restart"
        again = look_into(manager)
        assert staged == again.ledger.staged, "bytes are staged that nobody sends any more"
        assert set(inside.transactions) == set(again.transactions)

    def session(self, who: callers.Caller = OWNER, token: str = "", caller: str = "") -> Caller:
        return Caller(self, self.open(who), token, caller)

    def source(self, session: int, letter: str = "a", **said: object) -> Source:
        """Another manager that has said Hello, and what its Hello says besides."""
        source = Source(self, session, letter)
        source.begin(**said)
        return source

    def advance(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.turn(Tick())

    def has_done(self, effect: Effect) -> bool:
        """Whether an effect was wanted; one of another kind with the same fields is another one."""
        return any(type(each) is type(effect) and each == effect for each in self.effects)


def _check_nobody_is_left(inside: Inside) -> None:
    """All sessions have ended: nothing of them is in an object of any subject."""
    assert not inside.sessions
    for queue in inside.state.queues:
        assert not list(queue.waiters), "a receive waits for nobody"
        assert not queue.opened, "a queue is open for nobody"
    assert vars(inside.shares) == vars(TransactionShares()), "a share counts what nobody has open"
    assert not any(inside.lookups.unread.values())
    used = Counter(number for number, _ in inside.lookups.used)
    for queue in inside.state.queues:
        assert len(queue.index.put_back_too) == used[queue.number], "a lookup that is gone listens"
    assert inside.kept_ahead.total_bytes == 0
    assert not inside.kept_ahead.pieces


def _staged_for_good(inside: Inside) -> dict[Account, int]:
    """Bytes that are staged, without the room that is reserved: a restart reserves none."""
    staged = dict(inside.ledger.staged)
    for transaction in inside.transactions.values():
        for number, promise in transaction.reserved.items():
            staged[account_of(number)] -= promise.size
    return staged


class _Durable(NamedTuple):
    """What a manager must find again."""

    state: bytes
    stored: dict[Account, int]
    live_bytes: int
    large: dict[str, int]
    """Large messages of each queue."""

    @classmethod
    def of(cls, state: State) -> _Durable:
        return cls(
            b"".join(take_snapshots(state).state),
            dict(state.ledger.stored),
            sum(extent.length for extent, _ in state.live()),
            {queue.name: len(queue.parts) for queue in state.queues},
        )


def express_bytes_of(state: State) -> int:
    """Bytes of messages that no restart brings back."""
    return sum(
        length_of(entry)
        for queue in state.queues
        for entry in queue.index.in_position_order()
        if is_express_entry(entry)
    )


class Caller:
    """One client session at the driver."""

    def __init__(
        self, driver: ManagerDriver, number: int, token: str = "", caller: str = ""
    ) -> None:
        self.driver, self.number = driver, number
        welcome = self.call(frames.Hello("client", token=token, caller=caller))
        assert isinstance(welcome, frames.Welcome)
        self.next_number = welcome.first_number
        self.queues: dict[str, int] = {}

    def ask(self, head: Head, body: bytes = b"") -> int:
        """Send a request; its answers stand among the driver's effects."""
        return self.driver.request(self.number, head, body)[0]

    def answers(self, request: int) -> list[Answer]:
        return [
            effect
            for effect in self.driver.effects
            if isinstance(effect, Answer)
            and (effect.session, effect.request_id) == (self.number, request)
        ]

    def call(self, head: Head, body: bytes = b"") -> Head:
        """Send a request that is answered at once; raise what it is refused with."""
        return self.call_whole(head, body)[0]

    def call_whole(self, head: Head, body: bytes = b"") -> tuple[Head, bytes]:
        return self.driver.ask(self.number, head, body)

    def number_for(self) -> int:
        self.next_number += 1
        return self.next_number

    def create(self, name: str, **options: object) -> int:
        self.call(queue_frames.CreateQueue(name, QueueOptions(**options)))
        return self.open(name)

    def open(self, name: str) -> int:
        opened = self.call(queue_frames.OpenQueue(name))
        assert isinstance(opened, queue_frames.Opened)
        return opened.number

    def send(
        self,
        queue: int,
        *messages: Message,
        transaction: int = 0,
        marks: tuple[PartMark, ...] = (),
        guarded: bool = True,
    ) -> list[int]:
        numbers, head, body = self._encoded(
            queue, messages, transaction, marks=marks, guarded=guarded
        )
        if transaction:
            assert not self.answers(self.ask(head, body))
        else:
            self.call(head, body)
        return numbers

    def send_refused(
        self,
        queue: int,
        *messages: Message,
        transaction: int,
        marks: tuple[PartMark, ...] = (),
    ) -> list[int]:
        """Send in a transaction what dooms it."""
        numbers, head, body = self._encoded(queue, messages, transaction, marks=marks, guarded=True)
        (refusal,) = self.answers(self.ask(head, body))
        assert isinstance(refusal.head, frames.Failed)
        return numbers

    def _encoded(self, queue, messages, transaction, *, marks, guarded):
        source = bytes.fromhex(self.driver.manager_id)
        numbers, records = [], []
        for at, message in enumerate(messages):
            number = self.number_for()
            mark = marks[at] if marks else PLAIN
            head, body = encode_record(message, source, number, mark)
            records.append(head + bytes(body))
            numbers.append(number)
        sizes, crcs = [len(r) for r in records], [crc32c.crc32c(r) for r in records]
        return (
            numbers,
            message_frames.Send(queue, transaction, sizes, crcs, guarded),
            b"".join(records),
        )

    def commit(self, transaction: int, sends: int) -> Head:
        return self.call(message_frames.Commit(transaction, sends))

    def receive(
        self, queue: int, **options: object
    ) -> tuple[list[message_frames.Envelope], list[bytes]]:
        """Receive now; envelopes and message bodies."""
        wanted = {"transaction": 0, "timeout": 0.0, "max_messages": 100, **options}
        head, body = self.call_whole(message_frames.Receive(queue, **wanted))
        assert isinstance(head, message_frames.Messages)
        found, at = [], 0
        for envelope in head.envelopes:
            record = body[at : at + envelope.length]
            assert crc32c.crc32c(record) == envelope.crc
            properties = int.from_bytes(record[8:12], "little")
            found.append(record[64 + properties :])
            at += envelope.length
        return head.envelopes, found

    def what_is_in(
        self, queue: int | str, **options: object
    ) -> tuple[list[message_frames.Envelope], list[bytes]]:
        """As `receive`, of a queue by its number or name; where nothing is, nothing."""
        number = self.open(queue) if isinstance(queue, str) else queue
        try:
            return self.receive(number, **options)
        except ReceiveTimeout:
            return [], []


class Source:
    """Another manager at the driver, which calls and shows its key."""

    def __init__(self, driver: ManagerDriver, number: int, letter: str) -> None:
        self.driver, self.number = driver, number
        self.keyed = KeyedManager(letter)

    def begin(self, **said: object) -> None:
        self.driver.turn(SessionOpened(self.number, OWNER))
        (welcome,) = self.say(self.keyed.hello(**said))
        assert isinstance(welcome, frames.Welcome)
        self.keyed.welcomed(welcome)

    def say(self, head: Head, body: bytes = b"") -> list[Head]:
        """Say something, proven where that is needed; gives the answers."""
        if isinstance(head, peer_frames.OpenStream | peer_frames.EndStream):
            head = self.keyed.proven(head)
        frame = Frame(head, 0, memoryview(bytearray(body)))
        answers = [
            each
            for each in self.driver.turn(Request(self.number, frame))
            if isinstance(each, Answer)
        ]
        return [each.head for each in answers if each.session == self.number]


@pytest.fixture(autouse=True)
def mortal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # It ends before both: the folder is still there, and bounds are still those of the test.
    yield
    try:
        for each in DRIVERS.values():
            if not each.disk.is_closed:
                each.check_restart()
    finally:
        die_out()


@pytest.fixture
def driver(tmp_path: Path) -> ManagerDriver:
    return ManagerDriver(tmp_path / "data")
