"""The archive of a backup: what was written comes out, and nothing else is believed."""

from __future__ import annotations

import hashlib
import io
import os
import struct

import msgspec
import pytest

from dray.checksum import crc32c
from dray.errors import BackupDamaged
from dray.model.limits import ARCHIVE_PIECE_BYTES_MAX
from dray.wire.archive import (
    ABOUT,
    END,
    HEADER,
    LEVEL,
    MAGIC,
    RECORDS,
    VERSION,
    About,
    ArchiveReader,
    ArchiveWriter,
    End,
    pack_runs,
    zstd,
)
from dray.wire.archive import (
    STATE as STATE_PIECE,
)

STATE = b"the state of a queue manager " * 20
FIRST, SECOND = b"a" * 300, os.urandom(200)


def about(**changes):
    told = {"record_bytes": 500, "state_bytes": len(STATE), **changes}
    return About("a" * 32, "north", "1.0", 1_700_000_000_000_000, 2, heap_file_bytes=1024, **told)


def archive(**changes):
    out = io.BytesIO()
    writer = ArchiveWriter(out.write, about(**changes))
    writer.state(STATE[:100])
    writer.state(STATE[100:])
    writer.records(pack_runs([(1, 0, 300)]), FIRST)
    writer.records(pack_runs([(1, 400, 120), (3, 0, 80)]), SECOND)
    sha256 = writer.end()
    assert writer.bytes_written == len(out.getvalue())
    return out.getvalue(), sha256


def read(data, name="orders.dray"):
    reader = ArchiveReader(io.BytesIO(data).read, name)
    state = reader.state()
    return reader, state, [(run.file, run.offset, bytes(run.data)) for run in reader.runs()]


def test_an_archive_gives_back_what_went_into_it():
    data, sha256 = archive()
    assert ArchiveReader(io.BytesIO(data).read, "orders.dray").sha256 == "", "not known yet"
    reader, state, runs = read(data)
    assert reader.about == about()
    assert state == STATE
    assert runs == [(1, 0, FIRST), (1, 400, SECOND[:120]), (3, 0, SECOND[120:])]
    assert (reader.sha256, reader.bytes_read) == (sha256, len(data))


def test_what_shrinks_is_packed_and_what_does_not_is_stored_as_it_is():
    data, _ = archive()
    assert SECOND in data
    assert FIRST not in data


def test_what_packing_makes_no_shorter_is_stored_as_it_is():
    as_long = b"a" * 17
    assert len(zstd.compress(as_long, level=LEVEL)) == len(as_long)
    out = io.BytesIO()
    ArchiveWriter(out.write, about()).state(as_long)
    assert as_long in out.getvalue()


def test_an_archive_that_comes_in_drops_is_read_all_the_same():
    data, _ = archive()
    stream = io.BytesIO(data)
    reader = ArchiveReader(lambda most: stream.read(min(most, 7)), "orders.dray")
    assert reader.state() == STATE
    assert sum(len(run.data) for run in reader.runs()) == 500


def test_every_flipped_bit_is_refused_by_name():
    data, _ = archive()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(BackupDamaged, match=r"orders\.dray cannot be restored: ") as refusal:
            read(bytes(damaged))
        assert refusal.value.archive == "orders.dray"
    at = data.index(SECOND)
    with pytest.raises(BackupDamaged, match="piece 5 is damaged, its CRC32C does not fit"):
        read(data[:at] + bytes([SECOND[0] ^ 1]) + data[at + 1 :])


def test_every_cut_is_refused():
    data, _ = archive()
    for length in range(len(data)):
        with pytest.raises(BackupDamaged):
            read(data[:length])
    with pytest.raises(BackupDamaged, match="it ends in piece 6, before its last one"):
        read(data[:-1])


def test_what_goes_on_behind_its_end_is_refused():
    data, _ = archive()
    with pytest.raises(BackupDamaged, match="goes on behind its end"):
        read(data + b"x")


def test_pieces_left_out_or_exchanged_are_noticed_though_each_is_whole():
    data, _ = archive()
    at = data.index(SECOND)
    begin = data.rindex(b"\x03", 0, at - 28)
    with pytest.raises(BackupDamaged):
        read(data[:begin] + data[at + len(SECOND) :])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"record_bytes": 501}, "it has 500 of 501 bytes of records"),
        ({"state_bytes": 1}, "its state has 580 of 1 bytes"),
    ],
)
def test_an_archive_that_has_not_what_it_says_is_refused(changes, sentence):
    data, _ = archive(**changes)
    with pytest.raises(BackupDamaged, match=sentence):
        read(data)


def test_an_archive_of_another_version_is_not_guessed_at():
    data, _ = archive()
    with pytest.raises(BackupDamaged, match="it is of version 9, this is 1"):
        read(data[:8] + b"\x09\x00" + data[10:])


def test_another_file_is_no_archive():
    data, _ = archive()
    with pytest.raises(BackupDamaged, match="it does not begin like a backup"):
        read(b"NOTDRAYB" + data[8:])


def test_what_an_archive_says_of_itself_is_an_array_that_nobody_can_change():
    told = about()
    assert msgspec.msgpack.encode(told)[0] == 0x98, "eight values, without their names"
    assert msgspec.msgpack.encode(End(3, b"x")) == b"\x92\x03\xc4\x01x"
    for each in (told, End(3, b"x")):
        assert hash(each) is not None
        with pytest.raises(AttributeError):
            setattr(each, each.__struct_fields__[0], 0)


def piece(kind, data, *, packing=0, size=None):
    """One piece whose checksum fits, whatever it says."""
    checked = struct.pack(
        "<BBHII", kind, packing, 0, len(data), len(data) if size is None else size
    )
    return checked + crc32c(data, crc32c(checked)).to_bytes(4, "little") + data


def made_of(*pieces, told=None):
    """An archive of these pieces, with an end that fits them."""
    first = piece(ABOUT, msgspec.msgpack.encode(told or about(record_bytes=3, state_bytes=1)))
    data = b"".join((HEADER.pack(MAGIC, VERSION), first, *pieces))
    end = End(len(pieces) + 1, hashlib.sha256(data).digest())
    return data + piece(END, msgspec.msgpack.encode(end))


RUNS = (1).to_bytes(4, "little") + pack_runs([(1, 0, 3)])


def test_an_archive_of_whole_pieces_in_order_is_read():
    _, state, runs = read(made_of(piece(STATE_PIECE, b"s"), piece(RECORDS, RUNS + b"abc")))
    assert (state, runs) == (b"s", [(1, 0, b"abc")])


def test_a_piece_without_runs_adds_nothing():
    pieces = piece(RECORDS, pack_runs([]) + bytes(4)), piece(RECORDS, RUNS + b"abc")
    _, _, runs = read(made_of(piece(STATE_PIECE, b"s"), *pieces))
    assert runs == [(1, 0, b"abc")]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            HEADER.pack(MAGIC, VERSION) + piece(STATE_PIECE, b"s"),
            "does not say first what it is about",
        ),
        (HEADER.pack(MAGIC, VERSION) + piece(ABOUT, b"\x90"), "its About piece cannot be read: "),
        (made_of(piece(STATE_PIECE, b"s"), piece(ABOUT, b"")), "piece 3 is out of order"),
        (
            made_of(piece(STATE_PIECE, b"s"), piece(RECORDS, RUNS + b"abc"), piece(9, b"")),
            "piece 4 is out of",
        ),
        (
            made_of(piece(STATE_PIECE, b"s"), piece(RECORDS, RUNS[:-1])),
            "piece 3 is too short for its",
        ),
        (
            made_of(piece(STATE_PIECE, b"s"), piece(RECORDS, RUNS + b"ab")),
            "piece 3 is too short for its",
        ),
        (
            made_of(piece(STATE_PIECE, b"s"), piece(RECORDS, RUNS[:4])),
            "piece 3 is too short for its",
        ),
        (
            made_of(piece(STATE_PIECE, b"s"), piece(RECORDS, bytes(3))),
            "piece 3 is too short for its",
        ),
        (made_of(piece(STATE_PIECE, b"s", packing=1)), "piece 2 cannot be unpacked: "),
        (made_of(piece(STATE_PIECE, b"sss", size=2)), "piece 2 cannot be unpacked: "),
        (
            made_of(piece(STATE_PIECE, bytes(zstd.compress(b"abc")), packing=1, size=4)),
            "piece 2 does not unpack to what it says",
        ),
        (
            made_of(piece(STATE_PIECE, bytes(zstd.compress(b"abc")), packing=2, size=3)),
            "piece 2 does not unpack to what it says",
        ),
    ],
)
def test_a_piece_that_is_whole_and_makes_no_sense_is_refused_with_its_number(data, sentence):
    with pytest.raises(BackupDamaged, match=sentence):
        read(data)


def test_a_piece_longer_than_any_can_be_is_refused_before_it_is_read():
    data = HEADER.pack(MAGIC, VERSION) + piece(ABOUT, b"", size=ARCHIVE_PIECE_BYTES_MAX + 1)
    with pytest.raises(BackupDamaged, match="piece 1 says that it is longer than any can be"):
        read(data)
    data = HEADER.pack(MAGIC, VERSION) + piece(ABOUT, b"", size=ARCHIVE_PIECE_BYTES_MAX)
    with pytest.raises(BackupDamaged, match="piece 1 does not unpack"):
        read(data)
