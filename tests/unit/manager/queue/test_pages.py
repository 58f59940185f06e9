"""Entries in pages against a sorted list: whatever comes and goes, one by one or by the run."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

import pytest

from dray.manager.queue import pages as module
from dray.manager.queue.pages import Pages

ENTRY, KEY = 5, 2
PAGE = 4


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(module, "PAGE_ENTRIES", PAGE)


def entry(number: int, value: int = 0) -> bytes:
    return number.to_bytes(KEY, "big") + value.to_bytes(ENTRY - KEY, "big")


def key(number: int) -> bytes:
    return number.to_bytes(KEY, "big")


def pages_of(*numbers: int) -> Pages:
    pages = Pages(ENTRY, KEY)
    pages.append(b"".join(map(entry, numbers)))
    return pages


def numbers_in(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[at : at + KEY], "big") for at in range(0, len(packed), ENTRY)]


def test_nothing_is_found_in_no_pages():
    pages = Pages(ENTRY, KEY)
    pages.append(b"")
    assert (len(pages), pages.first(), pages.last(), pages.find(key(1))) == (0, None, None, None)
    assert (list(pages), pages.packed(), pages.take_upto(key(9))) == ([], b"", b"")
    assert pages.between(b"", key(9)) == b""


def test_a_key_is_there_once():
    pages = pages_of(1, 2, 3)
    with pytest.raises(AssertionError, match="already"):
        pages.add(entry(2))
    with pytest.raises(AssertionError, match="not above"):
        pages.append(entry(3))
    assert numbers_in(pages.packed()) == [1, 2, 3]


@pytest.mark.parametrize("number", [0, 2, 9])
def test_what_is_not_there_cannot_be_removed_or_replaced(number):
    pages = pages_of(1, 3, 5)
    with pytest.raises((AssertionError, IndexError)):
        pages.remove(key(number))
    with pytest.raises((AssertionError, IndexError)):
        pages.replace(entry(number))
    assert numbers_in(pages.packed()) == [1, 3, 5]


def test_who_goes_through_the_pages_meets_everything_that_stays():
    pages = pages_of(*range(20))
    seen = []
    for each in pages:
        number = int.from_bytes(each[:KEY], "big")
        seen.append(number)
        if number % 3 == 0:
            pages.remove(key(number))
            pages.add(entry(100 - number))
    assert seen[:20] == list(range(20))
    assert set(seen[20:]) <= {100 - each for each in range(0, 20, 3)}


def test_a_run_that_leaves_from_the_front_takes_whole_pages_and_part_of_one():
    pages = pages_of(*range(10, 30))
    assert numbers_in(pages.take_upto(key(20))) == list(range(10, 21))
    assert numbers_in(pages.packed()) == list(range(21, 30))
    assert pages.take_upto(key(20)) == b""
    assert numbers_in(pages.take_upto(key(1000))) == list(range(21, 30))
    assert len(pages) == 0


@pytest.mark.parametrize("seed", range(10))
def test_pages_hold_what_a_sorted_list_holds(seed):
    rng = Random(seed)
    pages, model = Pages(ENTRY, KEY), {}
    top = 50
    for _ in range(150):
        match rng.randrange(6):
            case 0:
                # Rising, now and then with gaps: runs as they join a queue.
                run = {}
                for _ in range(rng.randrange(2 * PAGE)):
                    top += rng.choice([1, 1, 1, 7])
                    run[top] = entry(top, rng.randrange(9))
                pages.append(b"".join(run.values()))
                model |= run
            case 1:
                number = rng.randrange(top + 5)
                if number not in model:
                    model[number] = entry(number, rng.randrange(9))
                    pages.add(model[number])
                    top = max(top, number)
            case 2 if model:
                number = rng.choice(sorted(model))
                assert pages.remove(key(number)) == model.pop(number)
            case 3 if model:
                number = rng.choice(sorted(model))
                model[number] = entry(number, rng.randrange(9))
                pages.replace(model[number])
            case 4 if rng.random() < 0.3:
                number = rng.randrange(top)
                taken = sorted(each for each in model if each <= number)
                gone = b"".join([model.pop(each) for each in taken])
                assert pages.take_upto(key(number)) == gone
            case _:
                pass
        _same(pages, model, rng.randrange(top + 5), rng.randrange(top + 5))


def _same(pages: Pages, model: dict[int, bytes], low: int, high: int) -> None:
    numbers = sorted(model)
    entries = [model[each] for each in numbers]
    assert list(pages) == entries
    assert (len(pages), pages.packed()) == (len(entries), b"".join(entries))
    assert pages.first() == (entries[0] if entries else None)
    assert pages.last() == (entries[-1] if entries else None)
    assert pages.find(key(low)) == model.get(low)
    behind = entries[bisect_right(numbers, low) :]
    assert list(pages.behind(key(low))) == behind
    assert b"".join(pages.runs_behind(key(low))) == b"".join(behind)
    between = entries[bisect_right(numbers, low) : bisect_right(numbers, max(low, high))]
    assert pages.between(key(low), key(max(low, high))) == b"".join(between)
    assert all(0 < len(each) <= PAGE * ENTRY for each in pages.runs_behind(b""))
