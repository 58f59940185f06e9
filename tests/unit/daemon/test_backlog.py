"""What was received and is not on the disk yet is bounded by the time that a disk needs for it."""

from __future__ import annotations

from collections import deque
from functools import partial
from threading import Event, Thread

import pytest

from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.limits import (
    BACKLOG_BYTES_MAX,
    BACKLOG_BYTES_MIN,
    BACKLOG_RATE_S,
    BACKLOG_S,
    QUEUE_FILES_UNWRITTEN_MAX,
)
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.server import Server
from dray.errors import StorePoisoned
from dray.manager.turn import QueueManager
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.model.queue import QueueOptions
from dray.store.limits import FLUSH_SHARE, HEAP_FILE_BYTES, HEAP_OPEN_FILES
from dray.wire import file_frames, frames, large_frames, message_frames, queue_frames
from tests.unit.daemon.gated_disk import Gate, GatedDisk
from tests.unit.daemon.raw_client import RawClient

MIB = 1 << 20
BODY = b"x" * 4_000_000


class Disk:
    """Bytes that wait for it, and calls that are due."""

    def __init__(self) -> None:
        self.unsynced = self.files = 0
        self.soon: deque = deque()

    def run(self) -> None:
        while self.soon:
            self.soon.popleft()()


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def backlog(disk):
    return DiskBacklog(lambda: disk.unsynced, disk.soon.append, lambda: disk.files)


def test_what_no_flush_would_write_stays_below_every_bound():
    kinds_of_lasting_files = 2
    left_open = kinds_of_lasting_files * HEAP_OPEN_FILES * (HEAP_FILE_BYTES // FLUSH_SHARE)
    assert left_open <= BACKLOG_BYTES_MIN, "one who waits would wait for ever"


def test_whoever_finds_the_backlog_full_is_told_once_when_it_is_not(disk, backlog):
    told: list[int] = []
    first, second = (lambda: told.append(1)), (lambda: told.append(2))
    disk.unsynced = backlog.bound
    assert backlog.admits(first)
    disk.unsynced += 1
    assert [backlog.admits(each) for each in (first, second, first)] == [False] * 3
    backlog.shrank()
    disk.run()
    assert told == [], "it is as full as before"
    disk.unsynced = 0
    backlog.shrank()
    assert told == [], "nobody is told in the middle of a turn"
    disk.run()
    assert told == [1, 2]
    backlog.shrank()
    disk.run()
    assert told == [1, 2]


def test_whoever_has_gone_is_not_told(disk, backlog):
    told: list[int] = []
    one = lambda: told.append(1)  # noqa: E731
    disk.unsynced = 2 * backlog.bound
    assert not backlog.admits(one)
    backlog.forget(one)
    backlog.forget(one)
    disk.unsynced = 0
    backlog.shrank()
    disk.run()
    assert told == []


def test_a_session_that_changed_many_files_of_queues_waits_until_they_are_written(disk, backlog):
    told: list[int] = []
    one, gone = (lambda: told.append(1)), (lambda: told.append(2))
    disk.files = QUEUE_FILES_UNWRITTEN_MAX - 1
    assert backlog.admits_files(one)
    disk.files += 1
    assert not backlog.admits_files(one)
    assert not backlog.admits_files(gone)
    assert backlog.admits(one), "bodies do not wait for files"
    backlog.forget(gone)
    backlog.shrank()
    disk.run()
    assert told == [], "as many wait as before"
    disk.files = 1
    backlog.shrank()
    disk.run()
    assert told == [1]


@pytest.mark.parametrize(
    ("mib_s", "bound"),
    [
        (1, BACKLOG_BYTES_MIN),
        (2000, round(2000 * MIB * BACKLOG_S)),
        (100_000, BACKLOG_BYTES_MAX),
    ],
)
def test_the_bound_is_what_the_disk_takes_in_its_time(backlog, mib_s, bound):
    assert backlog.bound == BACKLOG_BYTES_MIN, "an unknown disk"
    for _ in range(100):
        backlog.took(mib_s * MIB // 100, 0.01)
    assert backlog.bound == pytest.approx(bound, rel=1e-3)


def test_a_disk_that_has_become_slow_is_known_as_such_soon(backlog):
    for _ in range(1000):
        backlog.took(20 * MIB, 0.01)
    assert backlog.bound > 4 * BACKLOG_BYTES_MIN
    for _ in range(round(5 * BACKLOG_RATE_S / 0.1)):
        backlog.took(4 * MIB, 0.1)
    assert backlog.bound == BACKLOG_BYTES_MIN


def test_a_flush_too_quick_to_be_measured_says_nothing(backlog):
    backlog.took(4 * MIB, 0.0)
    assert backlog.bound == BACKLOG_BYTES_MIN


def test_a_store_that_takes_nothing_more_holds_nobody_back(disk, backlog):
    told: list[int] = []
    disk.unsynced, disk.files = 2 * backlog.bound, QUEUE_FILES_UNWRITTEN_MAX
    assert not backlog.admits(lambda: told.append(1))
    assert not backlog.admits_files(lambda: told.append(2))
    backlog.lift()
    disk.run()
    assert told == [1, 2]
    assert not backlog.is_full


# ------------------------------------------------------------------------- in a daemon that runs


def backlog_of(echo) -> DiskBacklog:
    (server,) = echo.servers
    return server.turns._backlog


def fill(echo, client, wait_until):
    """Send bodies in a transaction until no more come in, behind a disk that stands still."""
    client.ask(message_frames.Commit(1, 0), 1)
    wait_until(lambda: echo.manager.store.counters.syncs == 1)
    echo.gate.close()
    client.say(message_frames.Commit(1, 0), 2)
    assert echo.gate.waiting.wait(100)
    placed = 0
    while not backlog_of(echo).is_full:
        client.say(message_frames.Send(0, 1, [], []), 0, BODY)
        placed += 1
        wait_until(partial(has_placed, echo, placed))
    return placed


def has_placed(echo, count) -> bool:
    return len(echo.manager.records) == count


def test_large_bodies_stay_outside_while_the_disk_stands_still_and_small_ones_come_in(
    echo, wait_until
):
    with echo.client() as client, echo.client() as other:
        placed = fill(echo, client, wait_until)
        assert placed * len(BODY) <= BACKLOG_BYTES_MIN + FRAME_BODY_BYTES_MAX
        sender = Thread(target=client.say, args=(message_frames.Send(0, 1, [], []), 0, BODY))
        sender.start()
        wait_until(lambda: backlog_of(echo).waiting)
        for number in range(100):
            part = large_frames.ReadPart(0, 0, 0, 1)
            assert other.ask(part, number).request_id == number
        assert len(echo.manager.records) == placed
        echo.gate.open.set()
        wait_until(lambda: len(echo.manager.records) == placed + 1)
        sender.join()


def test_who_was_held_back_goes_on_when_the_disk_does(echo, wait_until):
    with echo.client() as client:
        placed = fill(echo, client, wait_until)
        before = echo.manager.store.counters.heap_bytes
        echo.gate.open.set()
        for _ in range(10):
            client.say(message_frames.Send(0, 1, [], []), 0, BODY)
        wait_until(lambda: len(echo.manager.records) == placed + 10)
        assert echo.manager.store.counters.heap_bytes == before + 10 * len(BODY)


def test_no_file_is_fetched_from_while_the_disk_stands_still(echo, tmp_path, wait_until):
    path = tmp_path / "lent"
    path.write_bytes(BODY)
    with echo.client() as client, echo.client() as lender, path.open("rb") as file:
        placed = fill(echo, client, wait_until)
        lender.lend(file_frames.SendFile(0, 1, len(BODY), 0, 0), file.fileno(), request_id=5)
        wait_until(lambda: backlog_of(echo).waiting)
        assert len(echo.manager.records) == placed
        echo.gate.open.set()
        assert lender.hear().request_id == 5
        assert len(echo.manager.records) == placed + 1


def test_a_daemon_that_fails_keeps_nobody_waiting_outside(echo, wait_until):
    with echo.client() as client:
        fill(echo, client, wait_until)
        told = Event()
        assert not backlog_of(echo).admits(told.set)
        echo.gate.broken = True
        echo.gate.open.set()
        assert told.wait(100)
        assert client.is_hung_up()
    with pytest.raises(StorePoisoned, match="the test broke it"):
        echo.daemon.stop()


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def store(tmp_path, gate):
    """The store of a daemon that runs, and how to connect to it."""
    stores = []

    def load(store, config, now):
        stores.append(store)
        return QueueManager.load(store, config, now)

    def make(loop, options):
        return Server(loop, options, load=load, open_disk=lambda path: GatedDisk(path, gate))

    daemon = EmbeddedDaemon(tmp_path, ServeOptions(data=""), make=make)
    daemon.start()
    (store,) = stores
    yield store, lambda: RawClient(daemon.connect())
    gate.open.set()
    daemon.stop()


def create(*names: str) -> bytes:
    return b"".join(
        frames.encode_frame(queue_frames.CreateQueue(name, QueueOptions()), number, 0)
        for number, name in enumerate(names, 1)
    )


def test_queues_that_are_made_all_at_once_are_written_few_at_a_time_and_others_go_between(
    store, gate, wait_until
):
    store, session = store
    many = [f"many{number}" for number in range(3 * QUEUE_FILES_UNWRITTEN_MAX)]
    with session() as maker, session() as other:
        for each in (maker, other):
            each.ask(frames.Hello("client"))
        gate.close()
        maker.socket.sendall(create(*many))
        assert gate.waiting.wait(100)
        wait_until(lambda: store.queue_files_unwritten >= QUEUE_FILES_UNWRITTEN_MAX)
        assert store.queue_files_unwritten == QUEUE_FILES_UNWRITTEN_MAX
        other.socket.sendall(create("between"))
        wait_until(lambda: store.queue_files_unwritten == QUEUE_FILES_UNWRITTEN_MAX + 1)
        gate.open.set()
        assert other.hear().request_id == 1
        for number in range(1, len(many) + 1):
            frame = maker.hear()
            assert (frame.request_id, type(frame.head)) == (number, queue_frames.QueueState)


def test_queues_that_find_no_room_for_their_files_hold_nobody_back(store, gate):
    store, session = store
    many = [f"many{number}" for number in range(3 * QUEUE_FILES_UNWRITTEN_MAX)]
    with session() as maker:
        maker.ask(frames.Hello("client"))
        gate.no_room_for = "lqs/"
        maker.socket.sendall(create(*many))
        for number in range(1, len(many) + 1):
            assert maker.hear().request_id == number
        gate.no_room_for = ""
        maker.socket.sendall(create("one more"))
        assert maker.hear().request_id == 1
        assert store.queue_files_unwritten == 0
