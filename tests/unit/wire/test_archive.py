"""The archive of a backup: what was written comes out, and nothing else is believed."""

from __future__ import annotations

import io
import os

import msgspec
import pytest

from dray.errors import BackupDamaged
from dray.wire.archive import About, ArchiveReader, ArchiveWriter, End, pack_runs

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
    reader, state, runs = read(data)
    assert reader.about == about()
    assert state == STATE
    assert runs == [(1, 0, FIRST), (1, 400, SECOND[:120]), (3, 0, SECOND[120:])]
    assert (reader.sha256, reader.bytes_read) == (sha256, len(data))


def test_what_shrinks_is_packed_and_what_does_not_is_stored_as_it_is():
    data, _ = archive()
    assert SECOND in data
    assert FIRST not in data


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


def test_every_cut_is_refused():
    data, _ = archive()
    for length in range(len(data)):
        with pytest.raises(BackupDamaged):
            read(data[:length])


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


def test_what_an_archive_says_of_itself_is_an_array_that_nobody_can_change():
    told = about()
    assert msgspec.msgpack.encode(told)[0] == 0x98, "eight values, without their names"
    assert msgspec.msgpack.encode(End(3, b"x")) == b"\x92\x03\xc4\x01x"
    for each in (told, End(3, b"x")):
        assert hash(each) is not None
        with pytest.raises(AttributeError):
            setattr(each, each.__struct_fields__[0], 0)
