"""Every line of the table of pieces that travel ahead of their commit, held by an example.

`python -m tests.unit.delivery.test_ahead` finds the examples anew; read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.delivery.ahead import (
    AHEAD,
    CommitCame,
    GivenUpAhead,
    NothingKept,
    PieceKept,
    PieceLeftOut,
    PiecesAhead,
    PieceStaged,
    SendPiece,
)
from dray.delivery.events import LinkLost
from dray.model.limits import AHEAD_PIECES_UNDER_WAY, AHEAD_QUICK_S
from tests import state_tables

EXAMPLES = Path(__file__).with_name("ahead_examples.txt")
EVENTS = {
    "commit": CommitCame(),
    "give-up": GivenUpAhead(),
    "gone": NothingKept(),
    "lost": LinkLost(),
}
NEW = "a piece that has just been staged is neither under way nor there"
NOTHING = "nothing was sent, so there is nothing to forget"
SAME = {
    "line 2, does: note for nothing": NEW,
    "line 2, does: leave_out for nothing": NEW,
    "line 12, does: leave_all_out for nothing": NOTHING,
    "line 12, does: forget for nothing": NOTHING,
}
"""Other values that say the same, and why."""


class Transaction:
    """The pieces of one transaction, numbered as they are staged; time goes by in tenths."""

    def __init__(self, kind=PiecesAhead):
        self.core = kind()
        self.staged = 0
        self.now = 0.0

    def words(self, rng):
        word = rng.choice([*EVENTS, "stage", "stage", "stage", "kept", "kept", "out", "slow"])
        if word in ("kept", "out"):
            word += f" {rng.randint(1, max(1, self.staged))}"
        return word

    def play(self, word):
        kind, *more = word.split()
        self.now += 1.0 if kind == "slow" else 0.1
        if kind == "slow":
            return []
        if kind == "stage":
            self.staged += 1
            event = PieceStaged(self.staged)
        elif kind in ("kept", "out"):
            event = (PieceKept if kind == "kept" else PieceLeftOut)(int(more[0]))
        else:
            event = EVENTS[kind]
        return state_tables.shown(self.core.handle(event, self.now))

    def observe(self):
        core = self.core
        return {
            "stage": core.stage.name.lower(),
            "there": sorted(core.there),
            "under way": sorted(core.under_way),
            "waiting": list(core._waiting),
            "at most": core._most,
            "done": core.is_done,
        }


@pytest.mark.parametrize(
    "example", state_tables.read(EXAMPLES), ids=lambda each: "; ".join(each.script)
)
def test_pieces_ahead_do_what_the_examples_say(example):
    assert state_tables.outcome(Transaction, PiecesAhead, example.script) == example.outcome


def test_each_line_of_the_table_of_pieces_has_an_example_in_each_of_its_states():
    examples = state_tables.read(EXAMPLES)
    found = set().union(
        *(state_tables.fired(Transaction, PiecesAhead, each.script) for each in examples)
    )
    assert state_tables.every_line(AHEAD) - found == set()


def test_a_wrong_value_in_any_cell_of_the_table_of_pieces_fails_an_example_of_its_line():
    examples = state_tables.read(EXAMPLES)
    assert state_tables.survivors(Transaction, PiecesAhead, examples) == set(
        SAME
    ) | state_tables.wider(EXAMPLES)


def test_a_slow_line_has_one_piece_under_way_and_a_quick_one_has_more():
    pieces = PiecesAhead()
    sent = [
        effect for ordinal in range(1, 9) for effect in pieces.handle(PieceStaged(ordinal), 0.0)
    ]
    assert sent == [SendPiece(1)]
    slow = pieces.handle(PieceKept(1), AHEAD_QUICK_S * 2)
    assert slow == [SendPiece(2)]
    quick = pieces.handle(PieceKept(2), AHEAD_QUICK_S * 3)
    assert quick == [SendPiece(ordinal) for ordinal in range(3, 3 + AHEAD_PIECES_UNDER_WAY)]


if __name__ == "__main__":
    state_tables.write(EXAMPLES, Transaction, PiecesAhead, walks=4_000, steps=10)
