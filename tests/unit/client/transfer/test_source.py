"""The file that is offered is what it was, or that is found."""

from __future__ import annotations

import os
from pathlib import Path

import crc32c
import pytest
from blake3 import blake3

from dray.client.transfer.reference import Fingerprint
from dray.client.transfer.source import SourceFile
from dray.errors import SourceUnreadable, TransferSourceChanged

DATA = bytes(range(256)) * 10


def of(data: bytes) -> Fingerprint:
    return Fingerprint("blake3", blake3(data).digest())


@pytest.fixture
def path(tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    return tmp_path / "f"


@pytest.mark.parametrize("fragment_size", [1, 100, 2560, 1 << 21])
def test_a_scan_gives_the_digest_and_the_checksum_of_each_fragment(path, fragment_size):
    with SourceFile(path) as source:
        assert source.scan(fragment_size, "blake3") == of(DATA)
        pieces = [DATA[at : at + fragment_size] for at in range(0, len(DATA), fragment_size)]
        assert list(source.crcs) == [crc32c.crc32c(piece) for piece in pieces]


def test_an_empty_file_has_no_fragment(tmp_path):
    (tmp_path / "f").touch()
    with SourceFile(tmp_path / "f") as source:
        assert source.scan(10, "blake3") == of(b"")
        assert list(source.crcs) == []


def change_size(path):
    path.write_bytes(DATA + b"!")


def change_time(path):
    os.utime(path, ns=(0, 0))


def change_file(path):
    other = path.with_name("other")
    other.write_bytes(DATA)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def change_byte(path):
    before = path.stat()
    path.write_bytes(DATA[:-1] + b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [change_size, change_time, change_file, change_byte])
def test_r117_whatever_changed_is_found(path, change):
    with SourceFile(path) as source:
        digest = source.scan(100, "blake3")
        source.check("t", 100, digest)
        change(path)
        with pytest.raises(TransferSourceChanged, match="offer the file again"):
            source.check("t", 100, digest)


@pytest.mark.parametrize("change", [change_size, change_time])
def test_r117_a_change_of_the_open_file_is_seen_at_once(path, change):
    with SourceFile(path) as source:
        assert not source.has_moved_on()
        change(path)
        assert source.has_moved_on()


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(SourceUnreadable, match=r"missing: .*; mend that, or name another"):
        SourceFile(tmp_path / "missing")
    with pytest.raises(SourceUnreadable, match="offer a regular file, or send what a pipe says"):
        SourceFile(tmp_path)
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        SourceFile(Path("/proc/self/status"))


def test_a_pipe_is_refused_without_hanging_up_on_its_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        SourceFile(tmp_path / "pipe")
    # It was never opened: that would have waited for a writer.
