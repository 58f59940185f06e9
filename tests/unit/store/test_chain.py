"""Chained lines of any kind; `test_audit` tries what can be done to them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from dray.errors import StoreError
from dray.store import chain
from dray.store.chain import (
    BEGINNING,
    ChainedFile,
    ChainHead,
    before_first,
    breaks,
    read_end,
    verify_chain,
)
from tests.children import in_child


class Entry(msgspec.Struct):
    number: int
    text: str
    previous: str


def saying(*texts):
    return [Entry(0, text, "") for text in texts]


@pytest.fixture
def chained(tmp_path):
    file = ChainedFile(tmp_path / "lines")
    yield file
    file.close()


def test_several_entries_are_written_in_one_piece(chained):
    chained.add(saying("a", "b", "c"))
    assert verify_chain(chained.path) == (*chained.head, 0, "")
    assert chained.head.entries == 3


def test_a_file_goes_on_from_the_head_of_another(chained, tmp_path):
    chained.add(saying("a", "b"))
    second = ChainedFile(tmp_path / "second", chained.head)
    second.add(saying("c"))
    second.close()
    assert before_first(second.path) == chained.head
    assert verify_chain(second.path, chained.head) == (*second.head, 0, "")
    assert not verify_chain(second.path).intact
    assert second.head.entries == 3


def test_a_file_that_was_removed_is_begun_anew_and_its_descriptor_is_given_back(
    chained, monkeypatch
):
    chained.add(saying("a"))
    before = len([*Path("/proc/self/fd").iterdir()])
    synced = []
    monkeypatch.setattr(chain, "sync_folder", synced.append)
    chained.path.unlink()
    chained.add(saying("b"))
    assert chained.path.exists()
    assert synced == [chained.path.parent], "a power failure leaves its new name in place"
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_the_head_before_an_empty_file_or_junk_is_the_beginning(tmp_path):
    (tmp_path / "junk").write_bytes(b"?\n")
    assert before_first(tmp_path / "junk") == before_first(tmp_path / "none") == BEGINNING


def test_each_break_is_told(chained):
    chained.add(saying("a", "b", "c"))
    image = chained.path.read_bytes()
    chained.path.write_bytes(image.replace(b'"a"', b'"z"') + b"?\n")
    assert [line for line, _ in breaks(chained.path)] == [2, 4]


@pytest.mark.parametrize("planted", ["link", "name", "pipe"])
def test_a_file_that_somebody_planted_is_not_written_to(tmp_path, planted):
    own, path = tmp_path / "other", tmp_path / "lines"
    own.write_bytes(b"")
    if planted == "link":
        path.symlink_to(own)
    elif planted == "name":
        path.hardlink_to(own)
    else:
        os.mkfifo(path)
    with pytest.raises(StoreError, match="cannot be used for the audit"):
        ChainedFile(path)
    assert own.read_bytes() == b""


def test_only_its_owner_can_read_it(chained):
    assert chained.path.stat().st_mode & 0o777 == 0o600
    assert chained.head == ChainHead(0, "0" * 64)


def test_an_entry_that_the_disk_takes_in_part_is_taken_back_and_refused(chained, monkeypatch):
    chained.add(saying("a"))
    whole, head = chained.path.read_bytes(), chained.head
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, image: write(file, image[:-1]))
        with pytest.raises(StoreError, match="there is no room for an entry"):
            chained.add(saying("b"))
    assert (chained.path.read_bytes(), chained.head) == (whole, head)
    chained.add(saying("c"))
    assert verify_chain(chained.path).intact


def test_a_file_whose_end_cannot_be_read_is_named(tmp_path):
    assert read_end(tmp_path / "none", 10) == b""
    (tmp_path / "lines").write_bytes(b"abcdef")
    assert (read_end(tmp_path / "lines", 2), read_end(tmp_path / "lines", 9)) == (b"ef", b"abcdef")
    with pytest.raises(StoreError, match="lines"):
        read_end(tmp_path / "lines" / "in", 10)


def test_a_line_that_is_no_entry_counts_as_one_and_the_next_entry_goes_on_behind_it(chained):
    chained.add(saying("a", "b"))
    chained.close()
    with chained.path.open("ab") as file:
        file.write(b"?\n")
    again = ChainedFile(chained.path)
    assert again.head.entries == 3
    again.add(saying("d"))
    assert again.head.entries == 4
    again.close()


def test_a_line_that_is_no_entry_counts_as_one_for_those_behind_it(chained):
    chained.add(saying("a"))
    stray = b"no entry"
    behind = Entry(3, "c", hashlib.sha256(stray).hexdigest())
    with chained.path.open("ab") as file:
        file.write(stray + b"\n" + msgspec.json.encode(behind) + b"\n")
    assert list(breaks(chained.path)) == [(2, "this is no entry")]


def test_the_name_of_a_file_that_is_begun_is_durable_before_its_first_line(tmp_path, monkeypatch):
    synced = []

    def fsync(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    for expected in ([tmp_path], []):
        file = ChainedFile(tmp_path / "lines")
        assert synced == expected
        synced.clear()
        file.add(saying("a"))
        assert synced == [tmp_path / "lines"]
        synced.clear()
        file.close()


def test_a_forked_child_does_not_hold_the_file_of_its_parent(tmp_path):
    file = ChainedFile(tmp_path / "chain.jsonl")
    held = Path(f"/proc/self/fd/{file.fileno()}")
    assert in_child(lambda: str(held.readlink())) == os.devnull
    file.close()
