"""Every line of the consumer's table, and every cell of it, is held by an example.

`python -m tests.unit.transfer.test_consumer_table` finds the examples anew; read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.machine import Tick
from dray.transfer.consumer import CONSUMER, Consumer
from dray.transfer.events import (
    Begin,
    Cancel,
    Checked,
    Disconnected,
    FragmentCame,
    Heard,
    Resume,
    Stirred,
    Suspend,
    Terms,
)
from dray.wire.transfer_frames import (
    Cancelled,
    Farewell,
    Handshake,
    Joined,
    JoinRefused,
    Resumed,
    Suspended,
)
from tests import state_tables

EXAMPLES = Path(__file__).with_name("consumer_examples.txt")
EVENTS = {
    "begin": Begin(),
    "good": Checked(good=True),
    "bad": Checked(good=False),
    "suspended": Heard(Suspended("a")),
    "resumed": Heard(Resumed("a")),
    "farewell": Heard(Farewell("a")),
    "refused": Heard(JoinRefused("a", "no")),
    "cancelled": Heard(Cancelled("a")),
    "broken": Heard(Cancelled("a", "TransferError", "it failed")),
    "greeted": Heard(Handshake("a", 0)),
    "resume": Resume(),
    "suspend": Suspend(),
    "cancel": Cancel(),
    "lost": Disconnected(""),
    "stirred": Stirred(),
    "early-tick": Tick(),
}
LIKELY = {
    "IDLE": ["begin"],
    "HANDSHAKE": ["joined", "joined", "tick"],
    "RECEIVING": ["piece", "piece", "piece", "tick", "joined"],
    "CHECKING": ["good", "bad"],
    "SPOILED": ["joined", "tick", "joined"],
    "REPORTING": ["farewell", "tick"],
    "HELD_HERE": ["piece", "resume", "resumed"],
    "HELD_THERE": ["piece", "joined", "resume", "resumed", "tick"],
}
_HEARD = "every message of the producer is a sign of life already"
SAME = {
    **{f"line {line}, does: note_life for nothing": _HEARD for line in (3, 9, 23, 25, 27, 35)},
    **{f"line {line}, does: begin for shake_hands": _HEARD for line in (16, 26)},
}
"""Other values that say the same, and why."""
RARE = (
    "empty; begin; joined 1; bad; joined 2; bad; joined 3; bad",
    "begin; joined 1; wait; piece 1 whole",
)


class Receiving:
    """A consumer of a file of three fragments; the first word may choose another one."""

    def __init__(self, kind=Consumer):
        self.kind = kind
        self.now = 1.0
        self.core = kind("a", "t", Terms(28, 10, 8))
        self.begun = False

    def words(self, rng):
        if not self.begun and rng.random() < 0.3:
            return rng.choice(["empty", "verified"])
        kinds = [*EVENTS, "joined", "piece", "tick", "late-tick", "wait"]
        word = rng.choice(LIKELY.get(self.core.stage.name, kinds) if rng.random() < 0.6 else kinds)
        if word == "joined":
            return f"joined {rng.choice([1, 1, 2, 3])}"
        if word == "piece":
            number = max(0, self.core.expected + rng.choice([0, 0, 0, -1, 1]))
            return f"piece {number} {rng.choice(['whole', 'whole', 'whole', 'damaged', 'short'])}"
        return word

    def play(self, word):
        kind, *more = word.split()
        self.begun = True
        match kind:
            case "empty":
                self.core = self.kind("a", "t", Terms(0, 10, 8))
                return []
            case "verified":
                self.core = self.kind("a", "t", Terms(28, 10, 8), expected=3, verified=True)
                return []
            case "wait":
                self.now += 0.4
                return []
            case "joined":
                return self.give(Heard(Joined("a", "1", int(more[0]), 0)))
            case "piece":
                number = int(more[0])
                size = self.core.terms.length(number) - (more[1] == "short")
                return self.give(FragmentCame(number, size, more[1] != "damaged"))
            case "tick" | "late-tick":
                self.now = max(self.now, self.core.deadline() or 0.0)
                self.now += 100.0 * (kind == "late-tick")
                return self.give(Tick())
            case _:
                return self.give(EVENTS[kind])

    def give(self, event):
        return state_tables.shown(self.core.handle(event, self.now))

    def observe(self):
        core = self.core
        return {
            "stage": core.stage.name.lower().replace("_", " "),
            "error": repr(core.error),
            "expected": core.expected,
            "round": core._round,
            "asked": core._asked,
            "acknowledged": core._acked,
            "acknowledges at": core._ack_at,
            "spoiled": core._spoiled,
            "resuming": core._resuming,
            "retry": core._retry_s,
            "says again at": core._retry_at,
            "heard at": core._heard_at,
            "told at": core._told_at,
            "joined as": core.consumer_id,
            "farewell": core.farewell,
        }


@pytest.mark.parametrize(
    "example", state_tables.read(EXAMPLES), ids=lambda each: "; ".join(each.script)
)
def test_a_consumer_does_what_the_examples_say(example):
    assert state_tables.outcome(Receiving, Consumer, example.script) == example.outcome


def test_each_line_of_the_table_has_an_example_in_each_of_its_states():
    examples = state_tables.read(EXAMPLES)
    found = set().union(
        *(state_tables.fired(Receiving, Consumer, each.script) for each in examples)
    )
    assert state_tables.every_line(CONSUMER) - found == set()


@pytest.mark.slow
def test_a_wrong_value_in_any_cell_of_the_table_fails_an_example():
    examples = state_tables.read(EXAMPLES)
    assert state_tables.survivors(Receiving, Consumer, examples) == set(SAME) | state_tables.wider(
        EXAMPLES
    )


if __name__ == "__main__":
    state_tables.write(EXAMPLES, Receiving, Consumer, walks=8_000, steps=10, more=RARE)
