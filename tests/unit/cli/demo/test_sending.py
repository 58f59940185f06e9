"""Which files are sent, and in which transactions."""

import pytest

from dray.cli.commands.demo.sending import (
    BYTES_PER_TRANSACTION,
    FILES_PER_TRANSACTION,
    DemoFile,
    find_origins,
    in_transactions,
)
from dray.errors import SourceUnreadable


def origin(size, name="file"):
    return DemoFile(None, name, size)


def test_files_are_found_below_a_directory_in_the_order_of_their_names(tmp_path):
    (tmp_path / "b").write_bytes(b"bb")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "z").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    found = find_origins(tmp_path)
    assert [(each.label, each.size) for each in found] == [("a/z", 0), ("b", 2)]


def test_a_directory_without_files_is_an_error(tmp_path):
    with pytest.raises(SourceUnreadable, match="no files"):
        find_origins(tmp_path)
    with pytest.raises(SourceUnreadable, match="not a directory"):
        find_origins(tmp_path / "missing")


def test_several_files_go_into_one_transaction_and_none_is_left_out():
    origins = [origin(1, str(number)) for number in range(20)]
    batches = list(in_transactions(origins))
    assert [len(batch) for batch in batches] == [FILES_PER_TRANSACTION, FILES_PER_TRANSACTION, 4]
    assert [each for batch in batches for each in batch] == origins


def test_a_transaction_is_bounded_in_bytes_but_takes_any_one_file():
    huge = BYTES_PER_TRANSACTION + 1
    batches = list(in_transactions([origin(1), origin(huge), origin(huge), origin(1)]))
    assert [len(batch) for batch in batches] == [1, 1, 1, 1]


def test_a_file_becomes_as_many_fragments_as_it_fills():
    assert [origin(size).fragment_count for size in (0, 1, 4_000_000, 4_000_001)] == [0, 1, 1, 2]
