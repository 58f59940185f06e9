"""Fuzzed input costs little: no event holds the loop, and nothing stays when its caller has left.

Each event's lines of Python are counted (`tests/cost.py`), so the machine's other work changes
nothing. `tests/integration/test_hostile_callers.py` counts in the loop of a real daemon.
"""

from __future__ import annotations

import io
import random
import tracemalloc
import typing
from collections.abc import Iterator
from functools import partial

import crc32c
import pytest

from dray.errors import DrayError, ProtocolError
from dray.machine import Tick
from dray.manager.events import CloseSession, Request, SessionClosed
from dray.manager.session import Session, Waiter
from dray.model.ids import ManagerId, join_id
from dray.model.limits import (
    ARCHIVE_PIECE_BYTES_MAX,
    FRAME_BODY_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    TRANSFER_WINDOW_MAX,
)
from dray.model.message import Message
from dray.transfer.consumer import Consumer
from dray.transfer.events import FragmentCame, Heard, Room, Terms
from dray.wire import frames, large_frames, message_frames, queue_frames, selections
from dray.wire.record import PLAIN, encode_record, read_header, read_properties
from dray.wire.stream import READ_BYTES, Frame, FrameStream
from dray.wire.transfer_frames import AnyMessage, decode_message, encode_message
from tests.cost import Costs, alive
from tests.inspection import look_into
from tests.unit.manager import conftest
from tests.unit.manager.conftest import Caller, ManagerDriver, die_out
from tests.unit.manager.test_any_frame import Babbler
from tests.unit.transfer.test_producer import make
from tests.unit.wire.test_archive import archive, read

pytestmark = pytest.mark.slow

MESSAGES = 20_000
QUEUES = 300
AT_ONCE = 2_000
HUGE = [0, 1, 2, 94, 95, 1 << 16, 1 << 31, (1 << 63) - 1]


class LongWinded(Babbler):
    """A babbler whose lists may be as long as a head can hold.

    Long lists of long lists no head can hold: to encode them took half a minute of each run.
    """

    within = False

    def value(self, kind: object) -> object:
        if typing.get_origin(kind) is list and self.random.random() < 0.3:
            (inner,) = typing.get_args(kind)
            times = self.random.choice([1, 2] if self.within else [1, 50, 450])
            outermost, self.within = not self.within, True
            some = [self.value(inner) for _ in range(20)]
            self.within = not outermost
            return some * times
        return super().value(kind)


def fill(caller: Caller, queue: int, count: int) -> None:
    source = bytes.fromhex(caller.driver.manager_id)
    for first in range(0, count, AT_ONCE):
        records = []
        for number in range(first, first + AT_ONCE):
            caller.next_number += 1
            message = Message(body=b"x", correlation_id=f"c{number}")
            head, body = encode_record(message, source, caller.next_number, PLAIN)
            records.append(head + bytes(body))
        sizes, crcs = map(len, records), map(crc32c.crc32c, records)
        caller.call(message_frames.Send(queue, 0, list(sizes), list(crcs)), b"".join(records))


@pytest.fixture
def driver(tmp_path, monkeypatch) -> Iterator[ManagerDriver]:
    """A manager with many messages in queue 16, and many queues."""
    monkeypatch.setattr(conftest, "HEAP_FILE_BYTES", 4 << 20)
    monkeypatch.setattr(conftest, "LOG_BYTES", 16 << 20)
    driver = ManagerDriver(tmp_path / "data")
    owner = driver.session()
    queue = owner.create("q")
    assert queue == 16
    owner.create("plain", transactional=False)
    for number in range(QUEUES):
        owner.create(f"q{number}")
    fill(owner, queue, MESSAGES)
    driver.turn(SessionClosed(owner.number))
    yield driver
    die_out()


def decided(driver: ManagerDriver, costs: Costs, event: Request) -> list:
    name = type(event.frame.head).__name__
    return costs.of(name, lambda: driver.manager.handle(event, driver.now))


def end_what_outlives_callers(driver: ManagerDriver) -> None:
    """End uploads and prepared transactions: they are durable, so they outlive their session."""
    inside = look_into(driver.manager)
    left = list(inside.transactions.items())
    assert all(transaction.session is None for _, transaction in left)
    owner = driver.session()
    for number, _ in left:
        name = str(join_id(ManagerId(driver.manager_id), number))
        if inside.state.uploads.get(number) is not None:
            owner.call(large_frames.UploadDrop(name))
        elif number in inside.state.prepared:
            owner.call(message_frames.SettlePrepared(name, commit=False))
    driver.turn(SessionClosed(owner.number))


def end_what_is_parked(driver: ManagerDriver, costs: Costs) -> None:
    """Tick until no work is parked: a backup whose caller is gone ends at its next portion."""
    works = look_into(driver.manager).subjects.works
    for _ in range(200):
        if not works.begun:
            return
        costs.of("Tick", lambda: driver.manager.handle(Tick(), driver.now))
        driver.store.sync()
    raise AssertionError(f"still parked: {works.begun}")


@pytest.mark.parametrize("seed", range(2))
def test_no_frame_holds_the_loop_and_nothing_of_its_caller_stays(driver, seed):
    before = alive(Session, Waiter)
    babbler, costs = LongWinded(seed), Costs()
    caller = driver.session()
    for head in babbler.heads(125):
        if isinstance(head, queue_frames.PurgeQueue | queue_frames.DeleteQueue):
            continue
        body = memoryview(bytearray(babbler.random.randbytes(babbler.random.choice([0, 100]))))
        effects = decided(driver, costs, Request(caller.number, Frame(head, 1, body)))
        driver.store.sync()
        if any(isinstance(each, CloseSession) for each in effects):
            driver.turn(SessionClosed(caller.number))
            caller = driver.session()
    assert costs.of("Tick", lambda: driver.manager.handle(Tick(), driver.now)) is not None
    driver.turn(SessionClosed(caller.number))
    del caller, effects
    driver.effects.clear()
    inside = look_into(driver.manager)
    assert not inside.sessions
    end_what_outlives_callers(driver)
    end_what_is_parked(driver, costs)
    driver.effects.clear()
    assert not inside.transactions
    assert not any(queue.waiters for queue in inside.state.queues)
    assert alive(Session, Waiter) <= before
    costs.check()


def test_waiters_by_an_id_cost_no_arrival_more(driver):
    """Twenty waiters over 20,000 messages once made one send take 12 seconds."""
    costs, owner = Costs(), driver.session()
    queue = owner.open("q")
    for number in range(20):
        select = selections.SelectByCorrelation(f"nobody sends {number}")
        request = Request(
            owner.number, Frame(message_frames.Receive(queue, 0, 600.0, select=select), 5, b"")
        )
        decided(driver, costs, request)
        driver.store.sync()
    while driver.manager.deadline() is not None and driver.manager.deadline() <= driver.now:
        costs.of("Tick", lambda: driver.manager.handle(Tick(), driver.now))
        driver.store.sync()
    costs.of("Send", lambda: owner.send(queue, Message(body=b"x")))
    costs.check()


def test_a_counter_of_costs_finds_an_event_that_takes_too_long(driver):
    costs = Costs(lines_max=1_000)
    request = Request(driver.session().number, Frame(queue_frames.ListQueues(), 1, memoryview(b"")))
    decided(driver, costs, request)
    with pytest.raises(AssertionError, match="ListQueues took"):
        costs.check()


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_hold_the_reader_of_frames_or_much_memory(seed):
    chance, costs = random.Random(seed), Costs()
    small = frames.encode_frame(queue_frames.Describe(), 1)
    said = bytearray(small * (READ_BYTES // len(small)))
    for _ in range(chance.choice([0, 0, 1, 3])):
        said[chance.randrange(len(said))] = chance.randrange(256)
    if chance.random() < 0.3:
        large = frames.encode_frame(message_frames.Send(16, 0, [], []), 1, FRAME_BODY_BYTES_MAX)
        said[:0] = large + chance.randbytes(1_000)
    stream = FrameStream()
    while said:
        room = stream.buffer()
        count = min(len(room), len(said), READ_BYTES)
        room[:count] = said[:count]
        del said[:count]
        try:
            costs.of("received", lambda count=count: stream.received(count))
        except ProtocolError:
            break
    assert stream.held_bytes <= FRAME_BODY_BYTES_MAX + 2 * READ_BYTES
    costs.check()


@pytest.mark.parametrize("seed", range(20))
def test_no_record_costs_more_lines_the_longer_it_is(seed):
    chance, costs = random.Random(seed), Costs(lines_max=1_000)
    message = Message(
        body=chance.randbytes(chance.choice([0, 1_000_000])),
        label=chance.choice(["", "x" * 249]),
        extension=chance.randbytes(chance.choice([0, PROPERTIES_BYTES_MAX - 4_000])),
    )
    head, body = encode_record(message, bytes(16), 1)
    image = bytearray(head + bytes(body))
    for _ in range(chance.choice([0, 1, 10])):
        image[chance.randrange(len(image))] = chance.randrange(256)

    def read_all() -> None:
        try:
            read_properties(image, read_header(image))
        except ProtocolError:
            return

    costs.of("record", read_all)
    costs.check()


def test_no_damaged_backup_takes_more_memory_than_a_piece_or_leaves_a_file_open():
    data, _ = archive()
    costs, chance = Costs(), random.Random(1)
    tracemalloc.start()
    try:
        for _ in range(300):
            damaged = bytearray(data)
            for _ in range(chance.choice([1, 1, 8])):
                damaged[chance.randrange(len(damaged))] = chance.choice([0, 255, 1 << 7])
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]

            def read_all(damaged: bytes = bytes(damaged)) -> None:
                try:
                    read(damaged)
                except DrayError:
                    return

            costs.of("archive", read_all)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak <= 3 * ARCHIVE_PIECE_BYTES_MAX
    finally:
        tracemalloc.stop()
    costs.check()
    assert io.BytesIO(data).read() == data


def any_message(babbler: Babbler) -> AnyMessage | None:
    """A message that came over a wire, with any numbers in it."""
    kind = babbler.random.choice(typing.get_args(AnyMessage))
    try:
        return decode_message(encode_message(babbler.struct(kind)))
    except ProtocolError:
        return None


class Messenger(Babbler):
    """Says messages of file transfers."""

    def plain(self, kind: object) -> object:
        if kind is int:
            return self.random.choice(HUGE)
        if kind is str:
            return self.random.choice(["a", "a", "a", "b" * 64])
        return super().plain(kind)


@pytest.mark.parametrize("seed", range(10))
def test_no_message_of_a_file_transfer_holds_a_consumer(seed):
    babbler, costs = Messenger(seed), Costs(lines_max=20_000)
    terms = Terms(TRANSFER_WINDOW_MAX * 1_000, 10, TRANSFER_WINDOW_MAX)
    consumer, now = Consumer("a", "t", terms), 1_000.0
    for _ in range(200):
        message = any_message(babbler)
        number = babbler.random.choice(HUGE)
        event = FragmentCame(number, 10, True) if message is None else Heard(message)
        now += babbler.random.choice([0.0, 0.1, 40.0])
        try:
            costs.of(type(event).__name__, partial(consumer.handle, event, now))
        except DrayError:
            break
    costs.check()


@pytest.mark.parametrize("seed", range(10))
def test_no_message_of_a_file_transfer_holds_a_producer_or_stays_in_its_memory(seed):
    babbler, costs = Messenger(seed), Costs(lines_max=20_000)
    producer, now = make(), 1_000.0
    for _ in range(400):
        message = any_message(babbler)
        event = Room("a") if message is None else Heard(message)
        now += babbler.random.choice([0.0, 0.1, 40.0])
        try:
            costs.of(type(event).__name__, partial(producer.handle, event, now))
        except DrayError:
            break
    costs.check()
    assert len(producer.copies) <= 2
