"""The tables of states say what the cores do: no more, no less."""

from __future__ import annotations

import pytest

from dray.delivery.confirmation import Outbox
from dray.delivery.incoming import Position, StreamKey, accepts
from dray.delivery.tables import CONFIRMATION, INCOMING


@pytest.mark.parametrize("row", INCOMING)
def test_the_predicate_judges_as_its_table_says(row) -> None:
    at = Position(10, 5)
    sequences = {"lower": (9, 1), "same": (10,), "higher": (11, 99)}[row.sequence]
    numbers = {"any": (1, 5, 6, 9), "not above": (1, 5), "above": (6, 9)}[row.number]
    previous = {
        "any": (0, 5, 6),
        "above": (6, 8),
        "not above": (0, 3, 5),
        "0": (0,),
        "not 0": (1, 5, 6),
    }[row.previous]
    for sequence_id in sequences:
        for number in numbers:
            for each in previous:
                assert accepts(at, sequence_id, number, each) is row.accepted


def test_the_table_of_the_predicate_leaves_nothing_out_and_says_nothing_twice() -> None:
    at = Position(10, 5)
    for sequence_id in (9, 10, 11):
        for number in (1, 5, 6):
            for previous in (0, 5, 6):
                sequence = {9: "lower", 10: "same", 11: "higher"}[sequence_id]
                rows = [
                    row
                    for row in INCOMING
                    if row.sequence == sequence
                    and row.number in ("any", "above" if number > at.number else "not above")
                    and row.previous
                    in (
                        "any",
                        "above" if previous > at.number else "not above",
                        "not 0" if previous else "0",
                    )
                ]
                assert len(rows) == 1, (sequence_id, number, previous)


def test_a_confirmation_goes_the_way_of_its_table() -> None:
    key, outbox = StreamKey("a" * 32, 7), Outbox()
    told, state, seen = 0, "none", set()
    for event in (
        "fact",
        "OpenStream",
        "connection lost",
        "OpenStream",
        "connection lost",
        "turn ends",
        "ConfirmationsTaken",
    ):
        match event:
            case "fact":
                outbox.add(key, ["news"])
            case "connection lost":
                told = 0
            case "ConfirmationsTaken":
                outbox.taken(key, 1)
            case _:
                first, news = outbox.after(key, told, 10)
                told = first + len(news) - 1
        waits = outbox.after(key, 0, 10)[1]
        after = ("told" if told else "kept") if waits else "taken"
        seen.add((state, event, after))
        state = after
    assert seen == {(row.state, row.event, row.next) for row in CONFIRMATION}
