"""Bits flip, pages become zeros, files are cut: a real data directory, every kind of file in it.

A manager that meets damage either refuses to start, by the name of the file and an event, or starts
and has exactly what it had; a message whose bytes are damaged is refused when it is asked for. What
may not be: a wrong byte, a message that nobody sent, one that is silently gone. That holds also for
damage that takes the last groups of the log together with the seal behind them: the maps know.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import crc32c
import pytest

from dray.errors import DrayError, ReceiveTimeout, StoreCorrupt
from dray.manager.notices import Notice, NoticeKind
from dray.model.queue import QueueOptions
from dray.store.disk import FOLDER_NAME, LOCK_NAME, Disk
from dray.store.real_disk import RealDisk
from dray.testing.disk import CrashEffect, SimDisk
from dray.testing.harness import ManagerHarness, Sizes
from dray.testing.storage_model import Known
from dray.testing.storage_records import Letters, sizes_and_crcs
from dray.wire import message_frames, queue_frames, selections

SIZES = Sizes(heap_file_bytes=32 << 10, log_bytes=96 << 10, queue_files=True)
QUEUES = ("plain", "journaled", "large")
PAGE, SECTOR = 4096, 512
PARTS = 16
Contents = dict[str, list[bytes]]
Damage = tuple[str, int, bytes | None]
"""What is done, where, and the new bytes; without any the file is cut there."""

pytestmark = pytest.mark.slow


def fill(path: Path, *, checkpoints: int, closed: bool = True) -> Contents:
    """Make a data directory with messages in every kind of queue, and say what was in them.

    It was closed well, or the process was killed in a quiet moment.
    """
    disk = RealDisk(path)
    harness = ManagerHarness(disk, SIZES)
    session, welcome = harness.client()
    letters = Letters(Random(3), Known(), welcome.first_number)
    for name in QUEUES:
        options = QueueOptions(journal=name == "journaled")
        harness.ask(session, queue_frames.CreateQueue(name, options))
    for turn in range(24):
        for name in QUEUES:
            records = letters.large() if name == "large" else letters.plain()
            sizes, crcs = sizes_and_crcs(records)
            send = message_frames.Send(harness.number(session, name), 0, sizes, crcs)
            harness.ask(session, send, b"".join(records.values()))
        if turn % 3 == 0:
            harness.messages(session, harness.number(session, "journaled"), count=3, peek=False)
            harness.messages(session, harness.number(session, "plain"), count=3, peek=False)
        if turn < 8 * checkpoints and turn % 8 == 7:
            harness.store.checkpoint(harness.manager.snapshot())
        harness.store.sync()
    now = held(harness)
    harness.store.sync()
    harness.store.seal()
    killed = shutil.copytree(path, path.with_name("killed"))
    harness.store.close(harness.manager.snapshot())
    if not closed:
        shutil.rmtree(path)
        killed.rename(path)
    return now


def held(harness: ManagerHarness) -> Contents:
    """All records by queue; nothing stands for each that was refused or does not fit.

    Those that were moved to the quarantine meanwhile are not among them.
    """
    session, _ = harness.client()
    return {
        info.name: list(records_of(harness, session, info.name))
        for info in harness.queues(session)
        if info.kind != "system"
    }


def records_of(harness: ManagerHarness, session: int, name: str) -> Iterator[bytes]:
    number = harness.number(session, name)
    after = 0
    while True:
        select = selections.SelectRange(after)
        head = message_frames.Receive(number, 0, 0.0, 10, peek=True, select=select, guarded=False)
        try:
            answer, body = harness.ask(session, head)
        except ReceiveTimeout:
            return
        except StoreCorrupt:
            yield from one_by_one(harness, session, number, after)
            return
        at = 0
        for envelope in answer.envelopes:
            record = body[at : at + envelope.length]
            at, after = at + envelope.length, envelope.lookup_id
            yield record if crc32c.crc32c(record) == envelope.crc else b""


def one_by_one(harness: ManagerHarness, session: int, number: int, after: int) -> Iterator[bytes]:
    """The same from a position on, when one of the next records is refused."""
    while True:
        select = selections.SelectRange(after)
        head = message_frames.Receive(number, 0, 0.0, 1, peek=True, select=select, guarded=False)
        try:
            answer, body = harness.ask(session, head)
        except DrayError as refused:
            told = re.search(r"event 2083: .* position (\d+) .*damaged in [pj]\d+", str(refused))
            if told is None:
                return
            if "it was moved" not in str(refused):
                after = int(told[1])
                yield b""
            continue
        (envelope,) = answer.envelopes
        after = envelope.lookup_id
        yield body if crc32c.crc32c(body) == envelope.crc else b""


def damages(path: Path, rng: Random, *, every: int) -> Iterator[Damage]:
    """Offset and new bytes, or where to cut; at boundaries of the format and by chance."""
    size = path.stat().st_size
    image = path.read_bytes()
    used = len(image.rstrip(b"\0"))
    boundaries = {0, 4, 6, 8, 15, 16, 60, 63, 64, 511, 512, 575, 576, used - 1, used, size - 1}
    by_chance = {rng.randrange(max(1, used)) for _ in range(every)}
    for offset in sorted(each for each in boundaries | by_chance if 0 <= each < size):
        yield "flip", offset, bytes([image[offset] ^ 1 << rng.randrange(8)])
    for start in range(0, used, PAGE):
        yield "zeros", start, bytes(min(PAGE, size - start))
    for start in rng.sample(range(0, max(used, 1), SECTOR), min(every, -(-used // SECTOR))):
        yield "noise", start, rng.randbytes(min(SECTOR, size - start))
    for length in sorted(each for each in boundaries | by_chance if 0 <= each < size):
        yield "cut", length, None


def damages_of_a_part(path: Path, rng: Random, *, part: int) -> Iterator[Damage]:
    """A bit of each so many bytes flipped, a cut at some of them, noise in each so many sectors."""
    size = path.stat().st_size
    image = path.read_bytes()
    used = len(image.rstrip(b"\0"))
    for offset in range(part, used, PARTS):
        yield "flip", offset, bytes([image[offset] ^ 1 << rng.randrange(8)])
    for offset in range(part, used, 8 * PARTS):
        yield "cut", offset, None
    for start in range(part * SECTOR, used, PARTS * SECTOR):
        yield "noise", start, rng.randbytes(min(SECTOR, size - start))


def in_memory(folder: Path) -> SimDisk:
    """The same files on a disk on which a start costs no waiting."""
    disk = SimDisk(Random(7))
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != LOCK_NAME:
            image = path.read_bytes()
            file = disk.open(name, size=len(image))
            file.write(image, 0)
            file.sync()
            disk.sync_directory(name.rpartition("/")[0])
    return disk


def damaged(disk: SimDisk, name: str, offset: int, data: bytes | None) -> SimDisk:
    copy = disk.after_crash(CrashEffect.KEPT)
    if data is None:
        copy.cut_off(name, offset)
    else:
        copy.damage(name, offset, data)
    return copy


def damaged_for_real(folder: Path, to: Path, name: str, where: tuple[int, bytes | None]) -> Disk:
    offset, data = where
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder.parent, to)
    with (to / FOLDER_NAME / name).open("r+b") as file:
        if data is None:
            file.truncate(offset)
        else:
            file.seek(offset)
            file.write(data)
    return RealDisk(to)


def put_aside(notice: Notice) -> int:
    """How many messages an operator is told of that they cannot be read."""
    found = re.search(r"(\d+) messages? in .*cannot be read", notice.sentence)
    return int(found[1]) if found else notice.times * (notice.kind == NoticeKind.DAMAGED)


def outcome(disk: Disk, told: Contents) -> str:
    """What became of it; raises if it is anything that may not be."""
    try:
        harness = ManagerHarness(disk, SIZES)
    except StoreCorrupt as error:
        named = bool(error.event and error.file) and Path(error.file).name in str(error)
        if not named:
            raise
        return "refused"
    now = held(harness)
    aside = sum(put_aside(notice) for notice in harness.manager.notices())
    # A log that was full is free before the older of two checkpoints.
    while harness.store.checkpoint_due:
        harness.store.checkpoint(harness.manager.snapshot())
    harness.store.close(harness.manager.snapshot())
    assert now.keys() == told.keys()
    unreadable = refused = 0
    for queue, records in told.items():
        readable = [record for record in now[queue] if record]
        left = iter(records)
        assert all(record in left for record in readable), (queue, "a wrong byte, or order")
        unreadable += len(records) - len(readable)
        refused += len(now[queue]) - len(readable)
    assert unreadable <= refused + aside, "messages are silently gone"
    return "told at the message" if unreadable else "whole"


def every_outcome(
    tmp_path: Path,
    told: Contents,
    prefixes: tuple[str, ...],
    drawn: Callable[[Path, Random], Iterator[Damage]],
    *,
    real: bool = False,
) -> Counter:
    """How many damages, as they are drawn for each file, came to what."""
    rng = Random(7)
    seen: Counter[str] = Counter()
    folder = tmp_path / "data" / FOLDER_NAME
    whole = in_memory(folder)
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    names = [name for name, path in paths.items() if path.is_file() and name.startswith(prefixes)]
    assert names, f"no file begins with any of {prefixes}"
    for name in names:
        for what, offset, data in drawn(paths[name], rng):
            if real:
                disk = damaged_for_real(folder, tmp_path / "copy", name, (offset, data))
            else:
                disk = damaged(whole, name, offset, data)
            try:
                seen[outcome(disk, told)] += 1
            except (AssertionError, DrayError) as error:
                error.add_note(f"{name}: {what} at {offset}")
                raise
            finally:
                disk.close()
    return seen


@pytest.mark.parametrize(
    ("checkpoints", "closed"), [(0, True), (1, True), (3, True), (1, False), (3, False)]
)
def test_a_damaged_log_is_refused_or_harmless(tmp_path, checkpoints, closed, went_through):
    told = fill(tmp_path / "data", checkpoints=checkpoints, closed=closed)
    seen = every_outcome(tmp_path, told, ("QMLog",), partial(damages, every=60))
    went_through["damages"] = seen.total()
    assert seen["refused"] > 10
    assert not seen["told at the message"]


@pytest.mark.parametrize("checkpoints", [1, 3])
def test_a_damaged_checkpoint_changes_nothing_as_long_as_the_log_is_whole(
    tmp_path, checkpoints, went_through
):
    told = fill(tmp_path / "data", checkpoints=checkpoints)
    seen = every_outcome(tmp_path, told, ("MQTrans", "MQInSeqs"), partial(damages, every=30))
    went_through["damages"] = seen.total()
    assert seen.keys() == {"whole"}


def test_damaged_message_files_are_told_at_the_message_and_nowhere_else(tmp_path, went_through):
    told = fill(tmp_path / "data", checkpoints=3)
    seen = every_outcome(tmp_path, told, ("p", "j", "r", "l0"), partial(damages, every=25))
    went_through["damages"] = seen.total()
    assert seen["told at the message"] > 10


def test_damaged_files_of_queues_are_mended_or_refused(tmp_path, went_through):
    told = fill(tmp_path / "data", checkpoints=3)
    seen = every_outcome(tmp_path, told, ("lqs/",), partial(damages, every=6))
    went_through["damages"] = seen.total()
    assert seen["whole"] > 10


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prefix", ["QMLog", "MQTrans", "MQInSeqs", "p", "lqs/"])
def test_a_real_disk_with_damaged_files_is_no_different(tmp_path, prefix, went_through):
    told = fill(tmp_path / "data", checkpoints=3)
    seen = every_outcome(tmp_path, told, (prefix,), partial(damages, every=10), real=True)
    went_through["damages"] = seen.total()
    assert sum(seen.values()) > 10


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_byte_of_any_file_can_be_damaged_without_a_word(tmp_path, part, went_through):
    """Each part looks at other bytes; at directories that were closed or not, of every age."""
    checkpoints, closed = (0, 1, 3)[part % 3], part % 2 == 0
    told = fill(tmp_path / "data", checkpoints=checkpoints, closed=closed)
    kinds = ("QMLog", "MQTrans", "MQInSeqs", "p", "j", "l0", "lqs/")
    seen = every_outcome(tmp_path, told, kinds, partial(damages_of_a_part, part=part))
    went_through["damages"] = seen.total()
    assert seen.keys() == {"whole", "refused", "told at the message"}
