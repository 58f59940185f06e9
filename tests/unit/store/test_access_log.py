"""The access log: one chain through several files, of which the oldest goes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from dray.errors import StoreError
from dray.store.access_log import (
    ACCESS_NAME,
    ACCESS_NAMES,
    AccessEntry,
    AccessLog,
    last_entries,
    read_access_log,
    verify_access_log,
)
from dray.store.chain import ORIGIN, moment, verify_chain
from dray.store.limits import ACCESS_LOG_BYTES_MAX

NOW = 1_700_000_000.25
LINES = [
    AccessEntry(0, moment(NOW), "refused", "user:ada", "process 7", 3, "PurgeQueue", "orders", 5)
]


def fill(data, files, *, lines_each=4):
    log = AccessLog(data, file_bytes_max=lines_each * 250)
    written = 0
    while not (data / ACCESS_NAMES[-files]).exists():
        log.append(LINES)
        written += 1
    log.append(LINES)
    log.close()
    return written + 1


def test_a_folder_that_cannot_be_looked_into_is_said_to_be_unreadable(tmp_path):
    with pytest.raises(StoreError, match="too long"):
        verify_access_log(tmp_path / ("x" * 300))


def test_a_full_file_is_as_long_as_the_page_says():
    page = Path(__file__).parents[3] / "docs/explanation/security.md"
    assert f"A full file ({ACCESS_LOG_BYTES_MAX >> 20} MiB)" in page.read_text("utf-8")


@pytest.mark.parametrize(("beyond", "is_full"), [(0, True), (1, False)])
def test_a_file_that_has_all_its_bytes_takes_no_more(tmp_path, beyond, is_full):
    log = AccessLog(tmp_path)
    log.append(LINES)
    log.close()
    length = (tmp_path / ACCESS_NAME).stat().st_size
    log = AccessLog(tmp_path, file_bytes_max=length + beyond)
    log.append(LINES)
    log.close()
    assert (tmp_path / ACCESS_NAMES[-2]).exists() == is_full


def test_a_line_has_these_bytes(tmp_path):
    log = AccessLog(tmp_path)
    log.append(LINES)
    log.close()
    assert (tmp_path / ACCESS_NAME).read_bytes() == (
        b'{"number":1,"time":"2023-11-14T22:13:20.250Z","act":"refused","caller":"user:ada",'
        b'"address":"process 7","session":3,"frame":"PurgeQueue","subject":"orders","times":5,'
        b'"previous":"' + b"0" * 64 + b'"}\n'
    )


def test_there_are_never_more_than_nine_files_as_the_page_says_and_their_chain_is_whole(tmp_path):
    written = fill(tmp_path, len(ACCESS_NAMES))
    log = AccessLog(tmp_path, file_bytes_max=1_000)
    for _ in range(30):
        log.append(LINES)
    log.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert (names, len(names)) == (sorted(ACCESS_NAMES), 9)
    name, report = verify_access_log(tmp_path)
    assert (name, report.intact, report.entries) == (ACCESS_NAME, True, written + 30)
    numbers = [entry.number for entry in read_access_log(tmp_path)]
    assert numbers == list(range(numbers[0], written + 31))
    assert numbers[0] > 1


@pytest.mark.parametrize("image", [b"", b'{"number":6,"ti'], ids=["empty", "torn"])
def test_the_chain_goes_on_after_a_crash_within_the_first_line_of_a_new_file(tmp_path, image):
    fill(tmp_path, 2)
    (tmp_path / ACCESS_NAME).write_bytes(image)
    older = len((tmp_path / ACCESS_NAMES[-2]).read_text().splitlines())
    log = AccessLog(tmp_path)
    log.append(LINES)
    log.close()
    _, report = verify_access_log(tmp_path)
    assert (report.problem, report.entries) == ("", older + 1)


def test_the_chain_goes_on_after_a_crash_between_the_rename_and_the_first_line(tmp_path):
    written = fill(tmp_path, 3)
    names = [tmp_path / name for name in ACCESS_NAMES[-4:]]
    for older, newer in pairwise(names):
        newer.replace(older)
    log = AccessLog(tmp_path)
    log.append(LINES)
    log.close()
    entries = list(read_access_log(tmp_path))
    assert entries[-1].number == written + 1
    assert verify_access_log(tmp_path)[1].intact


def test_a_full_file_that_moves_on_while_the_chain_is_checked_breaks_nothing(tmp_path, monkeypatch):
    fill(tmp_path, 3)
    log = AccessLog(tmp_path, file_bytes_max=1)
    looks = []

    def checked(path, head):
        report = verify_chain(path, head)
        if not looks:
            # A queue manager begins another file between two files of the first look.
            log.append(LINES)
        looks.append(report.intact)
        return report

    monkeypatch.setattr("dray.store.access_log.verify_chain", checked)
    assert verify_access_log(tmp_path)[1].intact
    assert not all(looks), "the first look met two files that do not belong together"
    log.close()


@pytest.mark.parametrize("name", ["access.2.jsonl", "access.1.jsonl"])
def test_a_file_that_was_taken_away_breaks_the_chain(tmp_path, name):
    fill(tmp_path, 3)
    (tmp_path / name).unlink()
    assert not verify_access_log(tmp_path)[1].intact


@pytest.mark.parametrize("name", ["access.2.jsonl", "access.1.jsonl", ACCESS_NAME])
def test_a_line_that_was_changed_breaks_the_chain(tmp_path, name):
    fill(tmp_path, 3)
    log = AccessLog(tmp_path)
    log.append(LINES)
    log.close()
    path = tmp_path / name
    path.write_bytes(path.read_bytes().replace(b"ada", b"bob", 1))
    assert not verify_access_log(tmp_path)[1].intact


def test_a_disk_that_refuses_leaves_the_log_whole_and_takes_the_lines_later(tmp_path, monkeypatch):
    log = AccessLog(tmp_path, file_bytes_max=1)
    log.append(LINES)

    def broken(*_):
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dray.store.chain.os.write", broken)
        with pytest.raises(StoreError, match="no space left"):
            log.append(LINES)
    log.append(LINES)
    log.close()
    assert verify_access_log(tmp_path)[1].intact
    assert [entry.number for entry in read_access_log(tmp_path)] == [1, 2]


def test_without_a_log_the_chain_is_empty_and_whole(tmp_path):
    assert verify_access_log(tmp_path) == (ACCESS_NAME, (0, ORIGIN, 0, ""))
    assert list(read_access_log(tmp_path)) == []


def test_the_last_entries_come_from_the_ends_of_the_files(tmp_path):
    log = AccessLog(tmp_path, file_bytes_max=1000)
    for _ in range(20):
        log.append(LINES)
    log.close()
    assert (tmp_path / "access.1.jsonl").exists()
    assert [each.number for each in last_entries(tmp_path, 7)] == list(range(20, 13, -1))
    with (tmp_path / "access.jsonl").open("ab") as file:
        file.write(b'{"number":21,"time"')
    assert next(iter(last_entries(tmp_path, 1))).number == 20
    assert last_entries(tmp_path / "nowhere", 3) == []


def test_an_access_log_whose_full_file_cannot_be_renamed_says_so_and_goes_on_later(
    tmp_path, monkeypatch
):
    log = AccessLog(tmp_path, file_bytes_max=1)
    log.append(LINES)

    def fails(*_):
        raise OSError(5, "the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", fails)
        with pytest.raises(StoreError, match="the disk is gone"):
            log.append(LINES)
    log.append(LINES)
    log.close()
    assert verify_access_log(tmp_path)[1].intact


def test_an_access_log_with_nothing_but_a_torn_line_begins_anew(tmp_path):
    (tmp_path / ACCESS_NAME).write_bytes(b'{"number":1,"ti')
    log = AccessLog(tmp_path)
    log.append(LINES)
    log.close()
    assert verify_access_log(tmp_path)[1].intact
    assert [entry.number for entry in read_access_log(tmp_path)] == [1]
