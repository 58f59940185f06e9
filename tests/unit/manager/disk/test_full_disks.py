"""A disk that is full in the middle of something: what could not be kept takes no room."""

from __future__ import annotations

from pathlib import Path

import crc32c
import pytest
from msgspec.structs import replace

from dray import errors
from dray.manager.queue import Account
from dray.model.message import Message
from dray.store.real_disk import RealFile
from dray.wire import message_frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.record import HEADER_BYTES, encode_record
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.net import Net, address

BODY = bytes(200)
NOT_MESSAGEPACK = 0xC1


def fill_after(monkeypatch: pytest.MonkeyPatch, driver: ManagerDriver, pieces: int) -> None:
    """Let the disk of a driver be full when so many pieces more have been placed."""
    place, left = driver.store.place, iter(range(pieces))

    def placed(*piece: object) -> object:
        if next(left, None) is None:
            raise errors.StoreFull("the disk is full", file="p0000001.mq")
        return place(*piece)

    monkeypatch.setattr(driver.store, "place", placed)


def staged(driver: ManagerDriver) -> dict[Account, int]:
    return dict(look_into(driver.manager).ledger.staged)


@pytest.fixture
def net(tmp_path: Path) -> Net:
    net = Net(tmp_path, "ab")
    net["b"].session().create("orders", transactional=False)
    return net


def send_mixed(net: Net) -> None:
    """One frame for a queue that takes both kinds: recoverable, express, recoverable, express."""
    caller = net["a"].session()
    queue = caller.open(address("b", "orders"))
    caller.send(queue, Message(body=BODY))
    net.deliver()
    net.block("a", "b")
    for number in range(4):
        caller.send(queue, Message(body=BODY, recoverable=not number % 2))
    net.unblock("a", "b")
    net["a"].advance(31.0)


@pytest.mark.parametrize("pieces", range(4))
def test_a_disk_that_is_full_in_the_middle_of_a_frame_keeps_no_place_of_what_did_not_enter(
    net: Net, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    there = net["b"]
    with monkeypatch.context() as patch:
        send_mixed(net)
        fill_after(patch, there, pieces)
        net.deliver()
        entered = there.session().call(queue_frames.DescribeQueue("orders")).info
        assert 1 <= entered.message_count < 5
        assert there.store.live_bytes == entered.byte_count
    for _ in range(3):
        net.advance(31.0)
    info = there.session().call(queue_frames.DescribeQueue("orders")).info
    assert (info.message_count, there.store.live_bytes) == (5, info.byte_count)


def test_a_frame_with_properties_that_nobody_can_read_leaves_no_place_behind(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their checksum fits, so only who reads what a message says of itself finds out."""
    tell = net._tell

    def garbled(source: str, goal: str, head: Head, body: bytes) -> None:
        if isinstance(head, peer_frames.Data):
            garbage = bytearray(body)
            garbage[HEADER_BYTES] = NOT_MESSAGEPACK
            whole = replace(head.envelopes[0], crc=crc32c.crc32c(bytes(garbage)))
            head, body = replace(head, envelopes=[whole]), bytes(garbage)
        tell(source, goal, head, body)

    caller = net["a"].session()
    caller.send(caller.open(address("b", "orders")), Message(body=BODY, label="label"))
    monkeypatch.setattr(net, "_tell", garbled)
    net.deliver()
    assert any(isinstance(head, peer_frames.Data) for _, _, head in net.said)
    assert net["b"].store.live_bytes == 0


def send(caller: Caller, queue: int, transaction: int) -> None:
    """Send, and raise what it is refused with, in a transaction too."""
    if not transaction:
        caller.send(queue, Message(body=BODY))
        return
    head, body = encode_record(Message(body=BODY), bytes.fromhex(caller.driver.manager_id), 1)
    record = head + bytes(body)
    sizes, crcs = [len(record)], [crc32c.crc32c(record)]
    caller.call(message_frames.Send(queue, transaction, sizes, crcs, guarded=True), record)


@pytest.mark.parametrize("reserved", [0, 100, 10_000])
def test_what_the_disk_had_no_room_for_counts_in_no_quota(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch, reserved: int
) -> None:
    caller = driver.session()
    queue = caller.create("orders", quota=20_000)
    transaction = caller.number_for() if reserved else 0
    if reserved:
        caller.call(message_frames.Reserve(queue, transaction, reserved))
    with monkeypatch.context() as patch:
        fill_after(patch, driver, 0)
        with pytest.raises(errors.StoreFull):
            send(caller, queue, transaction)
    if reserved:
        caller.call(message_frames.Abort(transaction))
    assert set(staged(driver).values()) == {0}
    assert look_into(driver.manager).state.queues.named("orders").staged_bytes == 0


def nothing_more_fits(driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no file grows: what is there may be written over."""
    write, grow = RealFile.write, driver.disk.open

    def written(file: RealFile, data: bytes, offset: int) -> None:
        if offset + len(data) > file.size():
            raise errors.StoreFull(f"there is no room to write {file.name}.", file=file.name)
        write(file, data, offset)

    def opened(name: str, *, size: int = 0) -> RealFile:
        there = driver.path / "storage" / name
        if size > (there.stat().st_size if there.exists() else 0):
            raise errors.StoreFull(f"there is no room to open {name}.", file=name)
        return grow(name, size=size)

    monkeypatch.setattr(RealFile, "write", written)
    monkeypatch.setattr(driver.disk, "open", opened)
    monkeypatch.setattr(driver.disk, "free_bytes", lambda: 0)


def sent_until_refused(caller: Caller, queue: int) -> int:
    sent = 0
    while sent < 10_000:
        try:
            caller.send(queue, *[Message(body=b"small")] * 100)
        except errors.StoreFull:
            return sent
        sent += 100
    raise AssertionError("nothing was refused")


def test_who_receives_is_never_kept_waiting_by_a_disk_that_others_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints of a state that had grown find room that was had before it grew.

    Else the log would be full one day, and nobody could receive what would make room.
    """
    driver = ManagerDriver(tmp_path, low_water_bytes=0)
    caller = driver.session()
    queue = caller.create("orders")
    sent = 0
    for _ in range(25):
        caller.send(queue, *[Message(body=b"small")] * 100)
        sent += 100
    nothing_more_fits(driver, monkeypatch)
    sent += sent_until_refused(caller, queue)
    before = driver.store.counters.checkpoints
    received = 0
    while received < sent:
        received += len(caller.receive(queue, max_messages=3)[1])
    assert driver.store.counters.checkpoints > before + 2
    driver.crash()
    assert driver.session().call(queue_frames.DescribeQueue("orders")).info.message_count == 0


def test_messages_that_the_next_checkpoint_would_have_no_room_for_are_refused_in_a_sentence(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=BODY))

    def full(length: int) -> None:
        raise errors.StoreFull(f"there is no room for {length}.", file="MQTrans.lg1")

    monkeypatch.setattr(driver.store._pairs, "have_room", full)
    monkeypatch.setattr(driver.store._checkpoints, "has_room_until", 0)
    with pytest.raises(errors.StoreFull, match="no room left for the next checkpoint"):
        caller.send(queue, Message(body=BODY))
    assert set(staged(driver).values()) == {0}
    assert caller.receive(queue)[1] == [BODY]
