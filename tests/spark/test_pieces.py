"""One payload by several tasks: whole when the last piece is there, whichever that is."""

from __future__ import annotations

import itertools
import threading

import pytest
from blake3 import blake3

from dray.errors import LargeMessageCorrupt
from dray.spark.landing.payload import Expected, file_digest, remove_partials
from dray.spark.landing.pieces import Piece, PiecePlacement

pytestmark = pytest.mark.spark

BODY = bytes(range(256)) * 40
EXPECTED = Expected(len(BODY), blake3(BODY).hexdigest(), "blake3")
FRAGMENT = 100
FRAGMENTS = -(-len(BODY) // FRAGMENT)


def pulls(piece, body=BODY):
    def pull(target):
        first, last = piece.of(FRAGMENTS)
        for number in range(first, last + 1):
            at = (number - 1) * FRAGMENT
            target.write_at(at, memoryview(body[at : at + FRAGMENT]))

    return pull


def fill(path, number, total=3, *, body=BODY, attempt="attempt"):
    piece = Piece(number, total)
    return PiecePlacement(path, EXPECTED, piece, attempt).fill(pulls(piece, body))


@pytest.mark.parametrize(("whole", "total"), [(1, 1), (7, 3), (3, 3), (2048, 5)])
def test_pieces_have_each_fragment_once_in_order(whole, total):
    ranges = [Piece(number, total).of(whole) for number in range(1, total + 1)]
    assert [n for first, last in ranges for n in range(first, last + 1)] == [*range(1, whole + 1)]


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
def test_whoever_ends_last_puts_the_payload_in_place(tmp_path, order):
    path = tmp_path / "name"
    ended = [(fill(path, number), path.exists()) for number in order]
    assert ended == [(False, False), (False, False), (True, True)]
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("name", BODY)]


def test_the_task_with_the_first_and_longest_piece_reads_only_the_others_if_it_ends_last(
    tmp_path, monkeypatch
):
    begun = []

    def noted(file, *given):
        begun.append(file.tell())
        return file_digest(file, *given)

    monkeypatch.setattr("dray.spark.landing.pieces.file_digest", noted)
    length = Piece(1, 2).of(FRAGMENTS)[1] * FRAGMENT
    assert 0.55 * len(BODY) < length < 0.57 * len(BODY)
    for order in ((2, 1), (1, 2)):
        path = tmp_path / f"{order}"
        assert [fill(path, number, 2) for number in order] == [False, True]
        assert path.read_bytes() == BODY
    assert begun == [length, 0]


def test_a_piece_that_is_written_again_changes_nothing(tmp_path):
    path = tmp_path / "name"
    assert not fill(path, 1)
    assert not fill(path, 1)
    assert not fill(path, 2)
    assert fill(path, 3)
    # A task whose other run was the last one, and which does not know that.
    assert fill(path, 2)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("name", BODY)]


def test_tasks_that_end_together_put_the_payload_in_place_once(tmp_path):
    path, ended = tmp_path / "name", []
    together = threading.Barrier(6)

    def run(number):
        together.wait()
        ended.append(fill(path, number, 6))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == [False] * 5 + [True]
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("name", BODY)]


def test_pieces_of_which_one_is_wrong_leave_nothing(tmp_path):
    path = tmp_path / "name"
    fill(path, 1)
    fill(path, 2, body=BODY[:-1000] + bytes(1000))
    with pytest.raises(LargeMessageCorrupt, match="nothing was kept"):
        fill(path, 3, body=BODY[:-1000] + bytes(1000))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_driver_left_does_not_count(tmp_path):
    path = tmp_path / "name"
    fill(path, 1, attempt="before")
    assert not fill(path, 2)
    assert not fill(path, 3)
    # Its executor goes on for a moment.
    assert not fill(path, 2, attempt="before")
    assert fill(path, 1)
    assert path.read_bytes() == BODY
    assert remove_partials(tmp_path) == 3
    assert [each.name for each in tmp_path.iterdir()] == ["name"]
