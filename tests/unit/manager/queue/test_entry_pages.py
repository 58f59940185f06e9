"""Entries in pages against a sorted list: whatever comes and goes, one by one or by the run."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

import pytest

from dray.manager.queue import entry_pages as module
from dray.manager.queue.entry_pages import EntryPages
from tests.cost import calls_of

ENTRY, KEY = 5, 2
PAGE = 4


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(module, "PAGE_ENTRIES", PAGE)


def entry(number: int, value: int = 0) -> bytes:
    return number.to_bytes(KEY, "big") + value.to_bytes(ENTRY - KEY, "big")


def key(number: int) -> bytes:
    return number.to_bytes(KEY, "big")


def pages_of(*numbers: int) -> EntryPages:
    entry_pages = EntryPages(ENTRY, KEY)
    entry_pages.append(b"".join(map(entry, numbers)))
    return entry_pages


def numbers_in(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[at : at + KEY], "big") for at in range(0, len(packed), ENTRY)]


def test_nothing_is_found_in_no_pages():
    entry_pages = EntryPages(ENTRY, KEY)
    entry_pages.append(b"")
    assert (
        len(entry_pages),
        entry_pages.first(),
        entry_pages.last(),
        entry_pages.find(key(1)),
    ) == (0, None, None, None)
    assert (list(entry_pages), entry_pages.packed(), entry_pages.take_upto(key(9))) == (
        [],
        b"",
        b"",
    )
    assert entry_pages.between(b"", key(9)) == b""
    assert list(entry_pages.leads()) == []


def test_a_key_is_there_once():
    entry_pages = pages_of(1, 2, 3)
    with pytest.raises(AssertionError, match="already"):
        entry_pages.add(entry(2))
    with pytest.raises(AssertionError, match="already"):
        entry_pages.add(entry(3))
    with pytest.raises(AssertionError, match="not above"):
        entry_pages.append(entry(3))
    assert numbers_in(entry_pages.packed()) == [1, 2, 3]


@pytest.mark.parametrize("number", [0, 2, 9])
def test_what_is_not_there_cannot_be_removed_or_replaced(number):
    entry_pages = pages_of(1, 3, 5)
    with pytest.raises((AssertionError, IndexError)):
        entry_pages.take(entry(number))
    with pytest.raises((AssertionError, IndexError)):
        entry_pages.replace(entry(number))
    assert numbers_in(entry_pages.packed()) == [1, 3, 5]


def test_who_goes_through_the_pages_meets_everything_that_stays():
    entry_pages = pages_of(*range(20))
    seen = []
    for each in entry_pages:
        number = int.from_bytes(each[:KEY], "big")
        seen.append(number)
        if number % 3 == 0:
            entry_pages.take(each)
            entry_pages.add(entry(100 - number))
    assert seen[:20] == list(range(20))
    assert set(seen[20:]) <= {100 - each for each in range(0, 20, 3)}


def test_a_run_that_leaves_from_the_front_takes_whole_pages_and_part_of_one():
    entry_pages = pages_of(*range(10, 30))
    assert numbers_in(entry_pages.take_upto(key(20))) == list(range(10, 21))
    assert numbers_in(entry_pages.packed()) == list(range(21, 30))
    assert entry_pages.take_upto(key(20)) == b""
    assert numbers_in(entry_pages.take_upto(key(1000))) == list(range(21, 30))
    assert len(entry_pages) == 0


def test_a_page_is_full_before_it_is_two():
    entry_pages = pages_of(*range(0, 2 * PAGE - 2, 2))
    entry_pages.add(entry(1))
    assert list(map(numbers_in, entry_pages.runs_behind(b""))) == [[0, 1, 2, 4]]
    entry_pages.add(entry(3))
    assert list(map(numbers_in, entry_pages.runs_behind(b""))) == [[0, 1], [2, 3, 4]]


def test_a_run_over_several_pages_is_taken_out_by_the_page(monkeypatch):
    monkeypatch.setattr(module, "PAGE_ENTRIES", 100)
    numbers = range(500)

    def calls_to_take(first: int, last: int) -> int:
        entry_pages, run = pages_of(*numbers), b"".join(map(entry, range(first, last)))
        calls = calls_of(lambda: entry_pages.take(run))
        assert numbers_in(entry_pages.packed()) == [*range(first), *range(last, 500)]
        return calls

    assert calls_to_take(50, 250) <= 3 * calls_to_take(50, 51)


@pytest.mark.parametrize("seed", range(10))
def test_pages_hold_what_a_sorted_list_holds(seed):
    rng = Random(seed)
    entry_pages, model = EntryPages(ENTRY, KEY), {}
    top = 50
    for _ in range(150):
        match rng.randrange(6):
            case 0:
                # Rising, now and then with gaps: runs as they join a queue.
                run = {}
                for _ in range(rng.randrange(2 * PAGE)):
                    top += rng.choice([1, 1, 1, 7])
                    run[top] = entry(top, rng.randrange(9))
                entry_pages.append(b"".join(run.values()))
                model |= run
            case 1:
                # One or many, between those that are there or behind them.
                start = rng.randrange(top + 5)
                run = range(start, start + rng.randrange(1, 4 * PAGE), rng.choice([1, 1, 5]))
                back = {each: entry(each, rng.randrange(9)) for each in run if each not in model}
                entry_pages.add(b"".join(back.values()))
                model |= back
                top = max(top, run[-1])
            case 2 if model:
                # A run, with gaps now and then, in or out of order.
                numbers = sorted(model)
                start = rng.randrange(len(numbers))
                gone = numbers[start : start + rng.randrange(1, 2 * PAGE) : rng.choice([1, 1, 2])]
                if rng.random() < 0.2:
                    rng.shuffle(gone)
                entry_pages.take(b"".join([model.pop(number) for number in gone]))
            case 3 if model:
                number = rng.choice(sorted(model))
                model[number] = entry(number, rng.randrange(9))
                entry_pages.replace(model[number])
            case 4 if rng.random() < 0.3:
                number = rng.randrange(top)
                taken = sorted(each for each in model if each <= number)
                gone = b"".join([model.pop(each) for each in taken])
                assert entry_pages.take_upto(key(number)) == gone
            case _:
                pass
        _same(entry_pages, model, rng.randrange(top + 5), rng.randrange(top + 5))


def _same(entry_pages: EntryPages, model: dict[int, bytes], low: int, high: int) -> None:
    numbers = sorted(model)
    entries = [model[each] for each in numbers]
    assert list(entry_pages) == entries
    assert (len(entry_pages), entry_pages.packed()) == (len(entries), b"".join(entries))
    assert entry_pages.first() == (entries[0] if entries else None)
    assert entry_pages.last() == (entries[-1] if entries else None)
    assert entry_pages.find(key(low)) == model.get(low)
    behind = entries[bisect_right(numbers, low) :]
    assert list(entry_pages.behind(key(low))) == behind
    assert b"".join(entry_pages.runs_behind(key(low))) == b"".join(behind)
    between = entries[bisect_right(numbers, low) : bisect_right(numbers, max(low, high))]
    assert entry_pages.between(key(low), key(max(low, high))) == b"".join(between)
    assert all(0 < len(each) <= PAGE * ENTRY for each in entry_pages.runs_behind(b""))
