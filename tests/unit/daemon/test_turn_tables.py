"""Every line of the tables of a turn, and every cell of them, is held by an example.

`python -m tests.unit.daemon.test_turn_tables` finds the examples anew; read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.daemon.pacing.checkpoints import CHECKPOINT, CheckpointCourse, Checkpoints
from dray.daemon.pacing.passes import PASS, Pass, PassState
from dray.daemon.pacing.syncs import SYNC, Syncs, SyncState
from dray.daemon.turns import SERVICE, ServiceState, Turns
from dray.machine import Machine, always, nothing
from tests import state_tables

EXAMPLES = Path(__file__).with_name("turn_examples")


def noting(kind, table):
    """The machine, with actions that only say their name, and conditions that the word says."""
    named = {line.does.__name__ for line in table if line.does is not nothing}
    asked = {line.when.__name__ for line in table if line.when is not always}
    acts = {name: lambda _self, _event, _now, name=name: [name] for name in named}
    asks = {name: lambda self, _event, _now, name=name: name in self.true for name in asked}
    return type(kind.__name__, (kind,), {**acts, **asks, "table": table})


class Table:
    """A machine that is driven by the names of its events, behind the conditions that hold."""

    kind: type[Machine]
    first: object

    def __init__(self, kind):
        self.core = kind.__new__(kind)
        Machine.__init__(self.core, self.first)
        self.core.true = ()
        self.events = {line.event.__name__: line.event for line in kind.table}
        self.asked = sorted({line.when.__name__ for line in kind.table if line.when is not always})

    def words(self, rng):
        return " ".join(
            [each for each in self.asked if rng.random() < 0.4]
            + [
                rng.choice(
                    [name for name in self.events if name != "GivenUp" or rng.random() < 0.1]
                )
            ]
        )

    def play(self, word):
        *self.core.true, name = word.split()
        event = self.events[name]
        return self.core.handle(event(*event._fields), 0.0)

    def observe(self):
        return {"stage": self.core.stage.name.lower().replace("_", " ")}


def table(kind, lines, first):
    return type(kind.__name__, (Table,), {"kind": noting(kind, lines), "first": first})


TABLES = [
    table(Pass, PASS, PassState.EMPTY),
    table(Syncs, SYNC, SyncState.IDLE),
    table(Checkpoints, CHECKPOINT, CheckpointCourse.NONE),
    table(Turns, SERVICE, ServiceState.SERVING),
]


def examples_of(world):
    return state_tables.read(EXAMPLES / f"{world.__name__.lower()}.txt")


@pytest.mark.parametrize(
    ("world", "example"),
    [(world, example) for world in TABLES for example in examples_of(world)],
    ids=lambda each: "; ".join(each.script) if isinstance(each, tuple) else each.__name__,
)
def test_a_turn_does_what_the_examples_say(world, example):
    assert state_tables.outcome(world, world.kind, example.script) == example.outcome


@pytest.mark.parametrize("world", TABLES, ids=lambda world: world.__name__)
def test_each_line_of_a_table_has_an_example_in_each_of_its_states(world):
    found = set().union(
        *(state_tables.fired(world, world.kind, each.script) for each in examples_of(world))
    )
    assert state_tables.every_line(world.kind.table) - found == set()


@pytest.mark.parametrize("world", TABLES, ids=lambda world: world.__name__)
def test_a_wrong_value_in_any_cell_of_a_table_fails_an_example(world):
    same = state_tables.wider(EXAMPLES / f"{world.__name__.lower()}.txt")
    assert state_tables.survivors(world, world.kind, examples_of(world)) == same


if __name__ == "__main__":
    EXAMPLES.mkdir(exist_ok=True)
    for each in TABLES:
        path = EXAMPLES / f"{each.__name__.lower()}.txt"
        state_tables.write(path, each, each.kind, walks=2_000, steps=8)
