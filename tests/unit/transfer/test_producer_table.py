"""Every line of the table of a consumer's copy, and every cell of it, is held by an example.

`python -m tests.unit.transfer.test_producer_table` finds the examples anew; read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import TransferSourceChanged
from dray.machine import Tick
from dray.model.transfer import TransferState
from dray.transfer.copies import PRODUCER, ConsumerCopy, CopyState
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Cancel,
    Disconnected,
    Heard,
    Resume,
    Room,
    SourceBroke,
    SourceChecked,
    Suspend,
    Terms,
)
from dray.transfer.producer import Producer
from dray.transfer.window import Window
from dray.wire.transfer_frames import (
    Acked,
    Cancelled,
    Handshake,
    Spoiled,
    Suspended,
    Verified,
    Wanted,
)
from tests import state_tables

EXAMPLES = Path(__file__).with_name("producer_examples.txt")
EVENTS = {
    "verified": Heard(Verified("a")),
    "spoiled": Heard(Spoiled("a")),
    "suspended": Heard(Suspended("a")),
    "cancelled": Heard(Cancelled("a")),
    "broken": Heard(Cancelled("a", "TransferError", "it failed")),
    "room": Room("a"),
    "lost": Disconnected("a"),
    "checked": SourceChecked("a"),
    "broke": SourceBroke(TransferSourceChanged("it changed", path="f", transfer_id="t")),
    "suspend": Suspend("a"),
    "suspend-all": Suspend(),
    "resume": Resume("a"),
    "resume-all": Resume(),
    "cancel": Cancel("a"),
    "cancel-all": Cancel(),
    "early-tick": Tick(),
}
LIKELY = {
    "NEW": ["handshake", "handshake", "suspend-all"],
    "JOINED": ["wanted", "wanted", "tick"],
    "SENDING": ["room", "acked", "tick", "wanted"],
    "SILENT": ["handshake", "wanted", "acked", "suspend-all"],
    "HELD_HERE": ["handshake", "wanted", "resume"],
    "HELD_THERE": ["handshake", "wanted", "resume"],
}
SAME = {
    "line 11, does: go_back for nothing": "a request beyond the window moves nothing",
    "line 36, does: tell_error for tell_cancelled": "no error is known of a copy that goes on",
}
"""Other values that say the same, and why."""
UNKNOWN = ("room", "lost", "checked", "suspend", "resume", "cancel", "early-tick", "broke")
"""Events that come only to copies that are known; a new one does nothing about them."""
RARE = tuple(f"new {word}" for word in UNKNOWN)


class Offering:
    """An offer of four fragments to one; the first word may make it one to many, or an old one."""

    def __init__(self, kind=ConsumerCopy):
        class Watched(Producer):
            def _copy(self, key, consumer_id, start, stage):
                window = Window(self.terms.window_size, self.terms.fragment_count, start)
                return kind(self._offer, key, consumer_id, window, stage=stage)

        self.make = Watched
        self.now = 1.0
        self.producer = self.offer()
        self.begun = False

    def offer(self, *, many=False):
        return self.make(Terms(40, 10, 2), Discovery(many=many, until=50.0))

    @property
    def copy(self):
        return self.producer.copies.get("a")

    def words(self, rng):
        if not self.begun and rng.random() < 0.4:
            return rng.choice(["many", "restored", "close", "taken", "cancel-all", "broke"])
        kinds = [*EVENTS, "handshake", "wanted", "acked", "tick"]
        stage = self.copy.stage if self.copy else CopyState.NEW
        word = rng.choice(LIKELY.get(stage.name, kinds) if rng.random() < 0.6 else kinds)
        if word == "handshake":
            word = f"handshake {rng.choice([0, 2, 9])}{rng.choice(['', ' resume'])}"
        if word in ("wanted", "acked"):
            base = self.copy.window.base if self.copy else 0
            word = f"{word} {rng.choice([base, base, base + 1, 9])}{rng.choice(['', '', ' old'])}"
        return word

    def play(self, word):
        self.begun = True
        kind, *more = word.split()
        match kind:
            case "new":
                copy = self.producer._copy("a", "1", 0, CopyState.NEW)
                effects = copy.handle(EVENTS[more[0]], self.now)
                if copy.stage is not CopyState.NEW:
                    self.producer.copies["a"] = copy
                return state_tables.shown(effects)
            case "many":
                self.producer = self.offer(many=True)
                return []
            case "restored":
                self.producer.restore("a", "1", 2, TransferState.SENDING)
                return []
            case "close":
                self.producer.discovery.close()
                return []
            case "taken":
                return self.give(Heard(Handshake("b", 0)))
            case "tick":
                self.now = max(self.now, self.producer.deadline() or 0.0)
                return self.give(Tick())
            case "handshake":
                return self.give(Heard(Handshake("a", int(more[0]), "resume" in more)))
            case "wanted" | "acked":
                round_ = (self.copy.round if self.copy else 0) - ("old" in more)
                said = (Wanted if kind == "wanted" else Acked)("a", max(0, round_), int(more[0]))
                return self.give(Heard(said))
            case _:
                return self.give(EVENTS[kind])

    def give(self, event):
        return state_tables.shown(self.producer.handle(event, self.now))

    def observe(self):
        copy, discovery = self.copy, self.producer.discovery
        seen = {
            "offer": self.producer.state.value,
            "joined": discovery.joined,
            "open": discovery.open,
        }
        window = copy.window if copy else Window(1, 1)
        return {
            **seen,
            "stage": copy.stage.name.lower().replace("_", " ") if copy else "new",
            "copy": copy.state.value if copy else None,
            "round": copy.round if copy else 0,
            "window": (window.base, window.next, window.top),
            "heard at": copy.heard_at if copy else None,
            "error": repr(copy.error) if copy else None,
        }


@pytest.mark.parametrize(
    "example", state_tables.read(EXAMPLES), ids=lambda each: "; ".join(each.script)
)
def test_a_copy_does_what_the_examples_say(example):
    assert state_tables.outcome(Offering, ConsumerCopy, example.script) == example.outcome


def test_each_line_of_the_table_has_an_example_in_each_of_its_states():
    examples = state_tables.read(EXAMPLES)
    found = set().union(
        *(state_tables.fired(Offering, ConsumerCopy, each.script) for each in examples)
    )
    assert state_tables.every_line(PRODUCER) - found == set()


@pytest.mark.slow
def test_a_wrong_value_in_any_cell_of_the_table_fails_an_example():
    examples = state_tables.read(EXAMPLES)
    assert state_tables.survivors(Offering, ConsumerCopy, examples) == set(
        SAME
    ) | state_tables.wider(EXAMPLES)


if __name__ == "__main__":
    state_tables.write(EXAMPLES, Offering, ConsumerCopy, walks=8_000, steps=9, more=RARE)
