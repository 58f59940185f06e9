"""Which functions of a table run while something happens, and whether a table says exactly that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from dray.machine import Step

Ran = tuple[str, str, frozenset[Callable], str]


def ran_while(table: tuple[Step, ...], act: Callable[[], object]) -> frozenset[Callable]:
    """The functions of a table that run while something happens; an error is passed on."""
    by_code = {each.__code__: each for row in table for each in row.does}
    found: set[Callable] = set()

    def watch(frame, event, _arg):
        if event == "call" and frame.f_code in by_code:
            found.add(by_code[frame.f_code])

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(before)
    return frozenset(found)


def as_seen(table: tuple[Step, ...]) -> set[Ran]:
    """What a table says, as walks see it; nothing is said twice."""
    said = {(row.state, row.event, frozenset(row.does), row.next) for row in table}
    assert len(said) == len(table)
    return said


def mutants(table: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The table with one cell changed, to every other value of its column."""
    for place, row in enumerate(table):
        for column in Step._fields:
            for value in {getattr(each, column) for each in table} - {getattr(row, column)}:
                changed = row._replace(**{column: value})
                yield (*table[:place], changed, *table[place + 1 :])


def surviving(table: tuple[Step, ...], seen: set[Ran]) -> list[tuple[Step, ...]]:
    """The tables with a wrong cell that walks would take for right."""
    found = []
    for each in mutants(table):
        try:
            if as_seen(each) == seen:
                found.append(each)
        except AssertionError:
            continue
    return found
