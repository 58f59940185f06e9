"""Promises of `dray.folders.watching`: a file that somebody writes to is known."""

from __future__ import annotations

from dray.folders.open_files import is_open_for_writing


def test_a_file_is_open_for_writing_until_its_writer_closes_it(tmp_path):
    file = tmp_path / "file"
    assert not is_open_for_writing(file)
    with file.open("wb"):
        assert is_open_for_writing(file)
        assert is_open_for_writing(file)
    assert not is_open_for_writing(file)
    with file.open("rb"):
        assert not is_open_for_writing(file)
