"""The cyclic log: appended to, followed, and searched for what should not be there."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StorePoisoned
from dray.store.limits import (
    LOG_AHEAD_BYTES_MAX,
    LOG_AHEAD_BYTES_MIN,
    LOG_AHEAD_SHARE,
    LOG_BYTES,
    ZEROS_PIECE_BYTES,
)
from dray.store.log import qmlog
from dray.store.log.group import OPENING, SEAL, DirtyRange
from dray.store.log.qmlog import Log, LogReader
from dray.testing.disk import Operation, SimDisk

CAPACITY = 16 << 10


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def log(disk):
    file = disk.open("QMLog", size=CAPACITY)
    return Log(file, capacity=CAPACITY, head=0, tail=0, next_fact=0, epoch=1)


@pytest.fixture
def reader(log):
    return LogReader(log.file, CAPACITY)


def write(log: Log, *facts: bytes, ranges: tuple[DirtyRange, ...] = ()) -> None:
    for fact in facts:
        log.append(fact)
    log.write_group(ranges)


def facts(reader: LogReader, start: int = 0, first: int = 0) -> list[bytes]:
    return list(reader.facts(reader.chain(start, first, 0), first))


def test_facts_come_back_in_order(log, reader):
    write(log, b"a", b"b")
    write(log, b"c" * 5000)
    assert facts(reader) == [b"a", b"b", b"c" * 5000]
    assert log.facts_appended == 3
    assert log.bytes_written == log.head == 512 + 5120


def test_each_walk_reads_the_file_anew(log, reader):
    write(log, b"a")
    assert reader.chain(0, 0, 0).end == 512
    write(log, b"b")
    chain = reader.chain(0, 0, 0)
    assert (chain.end, chain.next_fact) == (1024, 2)
    assert [*reader.facts(chain, 0)] == [b"a", b"b"]
    other = Log(log.file, capacity=CAPACITY, head=512, tail=0, next_fact=1, epoch=2)
    write(other, b"c")
    assert facts(reader) == [b"a", b"c"]
    assert not reader.is_blank()
    log.file.write(bytes(448), 64)
    log.file.write(bytes(448), 512 + 64)
    assert reader.is_blank()
    assert reader.chain(0, 0, 0).end == 0


def test_an_empty_chain_says_nothing_of_the_size_of_heap_files(reader):
    assert reader.chain(0, 0, 0).heap_file_bytes == 0


def test_facts_that_a_checkpoint_has_are_left_out(log, reader):
    write(log, b"a", b"b")
    write(log, b"c")
    assert facts(reader, 0, 1) == [b"b", b"c"]
    assert facts(reader, 512, 2) == [b"c"]
    assert facts(reader, 1024, 3) == []
    assert reader.chain(1024, 3, 0).next_fact == 3, "they are numbered on behind those"


def test_groups_wrap_around_the_end_of_the_file(log, reader):
    write(log, b"a" * 12000)
    log.tail = log.head
    start = log.head
    write(log, b"b" * 9000)
    assert log.head > CAPACITY
    assert facts(reader, start, 1) == [b"b" * 9000]
    assert reader.group_at(0) is None


def test_room_is_counted_from_the_tail_and_a_reserve_is_kept(log):
    log.append(b"a" * (log.group_bytes_max(0) - 4))
    assert log.fits(0)
    assert not log.fits(50)
    assert log.could_fit(0)
    log.append(b"a" * 512)
    assert not log.fits(0)
    assert not log.could_fit(0)
    log.tail = 512
    assert not log.could_fit(0)


def test_marks_use_the_reserve_until_it_is_gone(log):
    write(log, b"a" * 14000)
    while log.write_mark(SEAL):
        pass
    assert log.head == CAPACITY
    log.tail = 512
    assert log.write_mark(OPENING)


def test_the_chain_ends_where_a_group_is_not_whole(log, reader):
    write(log, b"a")
    write(log, b"b")
    log.file.write(b"!", 512 + 68)
    chain = reader.chain(0, 0, 0)
    assert (chain.end, chain.next_fact, chain.groups) == (512, 1, 1)
    assert reader.witness(chain.end) is None


def test_a_later_group_that_knew_it_durable_is_a_witness_of_damage(log, reader):
    write(log, b"a")
    write(log, b"b")
    log.durable = log.head
    write(log, b"c")
    log.file.write(b"!", 512 + 68)
    witness = reader.witness(512)
    assert witness is not None
    assert witness.lsn == 1024


def test_a_group_of_a_former_epoch_is_not_followed(log, reader):
    log.epoch = 2
    write(log, b"a")
    stale = log.head
    log.epoch = 1
    write(log, b"b")
    assert reader.chain(0, 0, 0).end == stale
    assert reader.chain(0, 0, 2).end == stale
    assert reader.chain(0, 0, 3).end == 0


def test_a_group_whose_facts_begin_too_early_is_not_followed(log, reader):
    write(log, b"a", b"b")
    log.next_fact = 1
    write(log, b"c")
    chain = reader.chain(0, 0, 0)
    assert (chain.end, chain.gap) == (512, False)


def test_a_group_whose_facts_begin_too_late_is_a_gap_unless_a_checkpoint_has_them(log, reader):
    write(log, b"a")
    log.next_fact = 3
    write(log, b"d")
    chain = reader.chain(0, 0, 0)
    assert (chain.end, chain.gap) == (512, True)
    chain = reader.chain(0, 3, 0)
    assert (chain.end, chain.gap, chain.next_fact) == (1024, False, 4)
    assert list(reader.facts(chain, 3)) == [b"d"]


def test_groups_after_the_last_watermark_are_suspects(log, reader):
    write(log, b"a", ranges=(DirtyRange(1, 0, 10),))
    log.durable = log.head
    write(log, b"b", ranges=(DirtyRange(1, 10, 20),))
    write(log, b"c", ranges=(DirtyRange(1, 10, 30),))
    chain = reader.chain(0, 0, 0)
    assert [each.group.lsn for each in chain.suspects] == [512, 1024]
    assert chain.suspects[0].ranges == [DirtyRange(1, 10, 20)]
    cut = chain.cut()
    assert (cut.end, cut.next_fact, cut.groups) == (1024, 2, 2)
    assert list(reader.facts(cut, 0)) == [b"a", b"b"]
    assert not cut.cut().suspects


def test_a_group_is_vouched_for_if_it_was_noted_as_durable_and_not_if_the_note_ends_before_it(
    log, reader
):
    for key in (b"a", b"b"):
        write(log, key, ranges=(DirtyRange(1, 0, 10),))
    chain = reader.chain(0, 0, 0, noted=512)
    assert [each.group.lsn for each in chain.vouched] == [0]
    assert [each.group.lsn for each in chain.suspects] == [512]


def test_a_blank_log_has_no_group_anywhere(log, reader):
    assert reader.is_blank()
    log.head = 5 * 512
    write(log, b"a")
    assert not reader.is_blank()


def test_groups_of_another_capacity_do_not_count(log):
    write(log, b"a")
    assert LogReader(log.file, 2 * CAPACITY).group_at(0) is None


def test_magic_off_the_sectors_or_at_a_wrong_place_is_no_group(log, reader):
    log.file.write(b"DQML", 100)
    write(log, b"x" + b"DQML" * 300)
    image = bytearray(512)
    log.file.read_into(memoryview(image), 0)
    log.file.write(image, 4096)
    assert [group.lsn for group in reader._headers()] == [0]


def test_a_short_file_is_cut_off_only_where_a_group_could_have_been(log, disk, reader):
    write(log, b"a" * 1000)
    disk.cut_off("QMLog", 4096)
    assert not reader.is_cut_off_at(log.head)
    disk.cut_off("QMLog", 1600)
    assert not reader.is_cut_off_at(log.head)
    disk.cut_off("QMLog", 1599)
    assert reader.is_cut_off_at(log.head)
    disk.cut_off("QMLog", 600)
    assert reader.is_cut_off_at(0)


def test_a_log_that_cannot_be_written_for_want_of_room_is_poison(disk, log):
    disk.cut_off("QMLog", 0)
    disk.full_after(0)
    with pytest.raises(StorePoisoned, match="log could not be written"):
        write(log, b"a")


def writes_of(disk: SimDisk, log: Log, fact: bytes) -> list[tuple[int, int]]:
    """Offset and length of each write that a group of one fact makes."""
    operations: list[Operation] = []
    disk.recorded(operations)
    write(log, fact)
    return [(each.offset, len(each.data)) for each in operations if each.verb == "write"]


@pytest.fixture
def long_log(disk):
    capacity = 1 << 20
    return Log(
        disk.open("QMLog", size=capacity), capacity=capacity, head=0, tail=0, next_fact=0, epoch=1
    )


def test_the_first_way_through_the_file_is_prepared_some_groups_ahead(disk, long_log):
    ahead = long_log.capacity // LOG_AHEAD_SHARE
    groups = ahead // 512
    assert groups == 128
    assert writes_of(disk, long_log, b"a") == [(0, 512), (512, ahead)]
    for number in range(1, groups + 1):
        assert writes_of(disk, long_log, b"a") == [(512 * number, 512)]
    behind = (groups + 1) * 512
    assert writes_of(disk, long_log, b"a") == [(behind, 512), (behind + 512, ahead)]


def test_zeros_go_no_farther_than_their_bound_and_are_written_in_pieces(disk, monkeypatch):
    monkeypatch.setattr(qmlog, "LOG_AHEAD_BYTES_MAX", 2 * ZEROS_PIECE_BYTES + 1024)
    capacity = LOG_AHEAD_SHARE * 3 * ZEROS_PIECE_BYTES
    log = Log(
        disk.open("QMLog", size=capacity), capacity=capacity, head=0, tail=0, next_fact=0, epoch=1
    )
    second, third = 512 + ZEROS_PIECE_BYTES, 512 + 2 * ZEROS_PIECE_BYTES
    pieces = [(512, ZEROS_PIECE_BYTES), (second, ZEROS_PIECE_BYTES), (third, 1024)]
    assert writes_of(disk, log, b"a") == [(0, 512), *pieces]
    assert writes_of(disk, log, b"a") == [(512, 512)]


def test_a_log_of_usual_size_is_prepared_4_mib_ahead():
    assert LOG_BYTES // LOG_AHEAD_SHARE == LOG_AHEAD_BYTES_MAX == 4 << 20


def test_a_short_chain_is_not_read_again_for_its_facts(log, reader, monkeypatch):
    for fact in (b"a", b"b", b"c"):
        write(log, fact)
    chain = reader.chain(0, 0, 0)
    read = []
    monkeypatch.setattr(log.file, "read_into", lambda *_: read.append(1))
    assert list(reader.facts(chain, 1)) == [b"b", b"c"]
    assert list(reader.facts(chain.cut(), 0)) == [b"a", b"b"]
    assert not read


def test_of_a_long_chain_the_rest_is_read_again(log, reader, monkeypatch):
    monkeypatch.setattr(qmlog, "LOG_WINDOW_BYTES", 1024)
    for fact in (b"a", b"b", b"c", b"d"):
        write(log, fact)
    chain = reader.chain(0, 0, 0)
    assert list(reader.facts(chain, 0)) == [b"a", b"b", b"c", b"d"]
    assert list(reader.facts(chain.cut(), 0)) == [b"a", b"b", b"c"]
    reader.chain(1024, 2, 0)
    assert list(reader.facts(chain, 1)) == [b"b", b"c", b"d"]


def test_of_a_small_log_no_less_than_a_block_is_prepared(disk, log):
    assert log.capacity // LOG_AHEAD_SHARE < LOG_AHEAD_BYTES_MIN
    assert writes_of(disk, log, b"a") == [(0, 512), (512, LOG_AHEAD_BYTES_MIN)]
    assert writes_of(disk, log, b"a") == [(512, 512)]


def test_nothing_is_prepared_behind_the_end_of_the_file_nor_the_second_time(disk, long_log):
    capacity = long_log.capacity
    long_log.head = long_log.tail = capacity - 1024
    assert writes_of(disk, long_log, b"a") == [(capacity - 1024, 512), (capacity - 512, 512)]
    assert writes_of(disk, long_log, b"a") == [(capacity - 512, 512)]
    assert writes_of(disk, long_log, b"a") == [(0, 512)]


def test_what_is_prepared_is_no_group(long_log):
    write(long_log, b"a")
    reader = LogReader(long_log.file, long_log.capacity)
    chain = reader.chain(0, 0, 0)
    assert chain.groups == 1
    assert reader.witness(chain.end) is None
