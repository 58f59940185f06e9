"""The tables of states say what the cores do: no more, no less."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest

from dray.delivery import incoming
from dray.delivery.confirmation import CONFIRMATION, Outbox
from dray.delivery.incoming import INCOMING, Acceptance, Position, StreamKey, accepts
from tests import steps

SMALL = list(product(range(1, 4), range(4), range(4)))


def predicate(at, sequence_id, number, previous):
    """The two sentences of the protocol page."""
    a = sequence_id == at.sequence_id and number > at.number and previous <= at.number
    b = sequence_id > at.sequence_id and previous == 0
    return a or b


def wrong(table, monkeypatch):
    """The small cases that a table decides otherwise than the protocol."""
    monkeypatch.setattr(incoming, "_ACCEPTED", incoming.compiled(table))
    at = Position(2, 2)
    return [case for case in SMALL if accepts(at, *case) is not predicate(at, *case)]


def test_the_table_of_arrivals_decides_as_the_protocol_says(monkeypatch):
    assert wrong(INCOMING, monkeypatch) == []


def is_noticed(table, monkeypatch):
    try:
        return wrong(table, monkeypatch) != []
    except AssertionError:
        return True  # two rows for one case, or none


@pytest.mark.parametrize("row", INCOMING)
def test_a_wrong_value_in_any_cell_of_a_row_of_arrivals_is_noticed(row, monkeypatch):
    place = INCOMING.index(row)
    for column in Acceptance._fields:
        for value in {getattr(each, column) for each in INCOMING} - {getattr(row, column)}:
            table = list(INCOMING)
            table[place] = row._replace(**{column: value})
            assert is_noticed(table, monkeypatch), (column, value)


def test_a_confirmation_goes_the_way_of_its_table():
    key, outbox = StreamKey("a" * 32, 7), Outbox()
    told, state, seen = 0, "none", set()

    def happen(event):
        nonlocal told
        match event.split()[0]:
            case "a":
                outbox.add(key, ["news"])
            case "connection":
                told = 0
            case "ConfirmationsAcked":
                outbox.taken(key, 1)
            case _:
                first, news = outbox.after(key, told, 10)
                told = first + len(news) - 1

    fact, opened, ends, lost, taken = (row.event for row in CONFIRMATION)
    for event in (fact, opened, lost, opened, lost, ends, taken):
        ran = steps.ran_while(CONFIRMATION, partial(happen, event))
        waits = outbox.after(key, 0, 10)[1]
        after = ("told" if told else "kept") if waits else "taken"
        seen.add((state, event, ran, after))
        state = after
    assert seen == steps.as_seen(CONFIRMATION)
    assert steps.surviving(CONFIRMATION, seen) == []


def test_a_source_has_nothing_of_a_stream_before_its_first_confirmation():
    assert Outbox().taken_upto(StreamKey("a" * 32, 7)) == 0
