"""An honest client beside fuzzed callers: what its send and receive cost it, in counted lines.

The manager decides one event at a time. So a client waits for its own two events and for the event
that is decided when it comes. Lines of the manager are counted, which no other work of the machine
changes.
"""

from __future__ import annotations

import random
import typing
from collections.abc import Iterator
from functools import partial

import crc32c
import pytest

from dray.manager.events import CloseSession, Request, SessionClosed
from dray.model.message import Message
from dray.wire import message_frames, queue_frames, selections, transfer_frames
from dray.wire.head import Head
from dray.wire.record import encode_record
from dray.wire.stream import Frame
from dray.wire.transfer_frames import AnyMessage, encode_message
from tests.cost import Lines, p99
from tests.unit.manager.conftest import ManagerDriver, die_out
from tests.unit.manager.test_any_frame import Babbler

pytestmark = pytest.mark.slow

ROUNDS = 240
RATIO_MAX = 3.0
Said = tuple[Head, bytes]


class Honest:
    """A client with a queue of its own, and the lines that each of its exchanges took."""

    def __init__(self, driver: ManagerDriver) -> None:
        self.caller = driver.session()
        self.queue = self.caller.create("honest")
        self.lines = Lines("/dray/manager/")

    def exchange(self) -> int:
        """Send and receive; each is answered in its own event, or the caller would raise."""

        def both() -> None:
            self.caller.send(self.queue, Message(body=b"honest"))
            _, bodies = self.caller.receive(self.queue)
            assert bodies == [b"honest"]

        return self.lines.of(both)


@pytest.fixture
def driver(tmp_path) -> Iterator[ManagerDriver]:
    driver = ManagerDriver(tmp_path / "data")
    owner = driver.session()
    owner.create("q")
    owner.create("plain", transactional=False)
    driver.turn(SessionClosed(owner.number))
    # A sync for each event would take most of the time, and costs the manager no line.
    driver.turn = partial(driver.turn, sync=False)  # type: ignore[method-assign]
    yield driver
    die_out()


def any_frames(seed: int) -> Iterator[Said]:
    babbler = Babbler(seed)
    for head in babbler.heads(1 << 20):
        # An honest client has no answer while others change the quota of all, and rightly so.
        if not isinstance(
            head, queue_frames.SetQuota | queue_frames.DeleteQueue | queue_frames.PurgeQueue
        ):
            yield head, babbler.random.randbytes(babbler.random.choice([0, 0, 100]))


def damaged_records(seed: int) -> Iterator[Said]:
    chance = random.Random(seed)
    while True:
        records = []
        for _ in range(chance.choice([1, 1, 5])):
            message = Message(body=bytes(chance.choice([0, 3_000])), correlation_id="c")
            image = bytearray(b"".join(encode_record(message, bytes(16), chance.randrange(99))))
            for _ in range(chance.choice([0, 1, 10])):
                image[chance.randrange(len(image))] = chance.randrange(256)
            records.append(bytes(image))
        sizes, crcs = list(map(len, records)), list(map(crc32c.crc32c, records))
        yield message_frames.Send(chance.choice([16, 17]), 0, sizes, crcs), b"".join(records)


def transfer_messages(seed: int) -> Iterator[Said]:
    babbler = Babbler(seed)
    kinds = typing.get_args(AnyMessage)
    yield transfer_frames.AttachBox("x", ""), b""
    while True:
        message = encode_message(babbler.struct(babbler.random.choice(kinds)))
        said = transfer_frames.Post(babbler.random.choice(["x", "x", "gone"]), message)
        yield babbler.random.choice([said, said, transfer_frames.Credit(1 << 20)]), bytes(64)


def waiters(seed: int) -> Iterator[Said]:
    number = 0
    while True:
        number += 1
        select = selections.SelectByCorrelation(f"{seed} {number}")
        yield message_frames.Receive(16, 0, 600.0, select=select), b""


FUZZERS = (any_frames, damaged_records, transfer_messages, waiters)


def test_an_honest_client_stays_within_three_times_its_own_beside_fuzzers(driver):
    honest = Honest(driver)
    honest.exchange()
    alone = p99([honest.exchange() for _ in range(100)])
    hostile = [(driver.session(), fuzz(1)) for fuzz in FUZZERS]
    taken = []
    for number in range(ROUNDS):
        which = number % len(hostile)
        caller, said = hostile[which]
        head, body = next(said)
        request = Request(caller.number, Frame(head, 1, memoryview(bytearray(body))))
        began = len(driver.effects)
        ahead = honest.lines.of(partial(driver.turn, request))
        if any(isinstance(each, CloseSession) for each in driver.effects[began:]):
            driver.turn(SessionClosed(caller.number))
            hostile[which] = driver.session(), said
        taken.append(ahead + honest.exchange())
        if not number % 10:
            driver.store.sync()
    assert p99(taken) <= RATIO_MAX * alone, (p99(taken), max(taken), alone)
