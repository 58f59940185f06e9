"""Every line of the table of an outgoing stream, and every cell of it, is held by an example.

`python -m tests.unit.delivery.test_outgoing_table` finds the examples anew; read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.delivery.events import (
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    Paused,
    PeerState,
    Refused,
    Unpaused,
)
from dray.delivery.lineage import Past
from dray.delivery.outgoing import OUTGOING, OutgoingStream
from dray.machine import Tick
from tests import state_tables

from .sender import NOON_ID, Sender

EXAMPLES = Path(__file__).with_name("outgoing_examples.txt")
EVENTS = {
    "lost": LinkLost(),
    "grown": Grown(),
    "invited": Invited(),
    "pause": Paused(),
    "resume": Unpaused(),
    "early-tick": Tick(),
}
FACTS = ["restart", "incarnation", "diverge", "resolve", "settle", "note", "expire", "busy"]
WORDS = [*EVENTS, *FACTS, "admit", "admit", "ready", "ack", "refuse", "tick"]
SAME = {
    "line 6, does: resume_and_ask for ask": "a stream that may ask is not paused",
    "line 25, when: may_ask for carries_messages": "a stream that waits was not refused for good",
    "line 26, when: may_ask for carries_messages": "an open stream was not refused for good",
}
"""Other values that say the same, and why."""
RARE = (
    "admit 1; ready; refuse 0 0 final; expire; grown",
    "admit 1; pause; ready; grown",
)


class Stream:
    """An outgoing stream with its queue and its facts. Sequence ids count from the first one."""

    def __init__(self, kind=OutgoingStream):
        self.sender = Sender(kind=kind)
        self.busy = False
        """Whether the manager notes no facts."""

    @property
    def core(self):
        return self.sender.stream

    def words(self, rng):
        likely = {
            "NO_LINK": ["ready", "ready", "ready", "refuse"],
            "SILENT": ["admit", "admit", "refuse", "ack", "grown", "invited"],
            "ASKED": ["ack", "ack", "refuse", "tick", "ready"],
            "REFUSED": ["tick", "invited", "resume", "refuse", "ack", "admit"],
            "OPEN": ["ack", "admit", "tick", "refuse", "invited", "pause"],
            "DIVERGED": ["resolve", "ready", "ack", "refuse"],
        }[self.core.stage.name]
        word = rng.choice(likely if rng.random() < 0.6 else WORDS)
        if word == "admit":
            return f"admit {rng.choice([1, 1, 2, 4])}"
        if word in ("ack", "refuse"):
            number = rng.choice([0, 1, 2, max(0, self.core.last - self.core.base)])
            word = f"{word} {rng.choice([0, 0, 0, 0, 1])} {number}"
            word += rng.choice(["", " earlier"]) + rng.choice(["", "", "", " of 1", " of 7"])
            if word[0] == "r":
                word += rng.choice(["", "", " final"])
        return word

    def play(self, word):
        effects = self._play(word)
        return [self._shown(each) for each in effects or ()]

    def _play(self, word):
        sender, kind, *more = self.sender, *word.split()
        if kind in FACTS:
            return self._fact(kind)
        if kind == "admit":
            return None if self.busy else sender.admit(int(more[0]))
        if kind == "tick":
            return self.give(Tick(), at=max(sender.now, self.core.deadline() or 0.0))
        return self.give(EVENTS[kind] if kind in EVENTS else self._said(kind, *more))

    def _fact(self, kind):
        sender, stream = self.sender, self.core
        match kind:
            case "expire":
                sender.expire(*sender.queue.lengths)
            case "busy":
                self.busy = True
            case "note":
                stream.acknowledged(stream.last)
            case "restart":
                sender.restart()
            case "incarnation":
                sender.begin_incarnation()
            case "diverge":
                stream.diverge(NOON_ID, 9)
            case "resolve":
                stream.resolved()
            case "settle":
                stream.began_anew()

    def _said(self, kind, sequence="0", number="0", *more):
        """The answer to the last question or an earlier one, with an incarnation of ours."""
        stream, sender = self.core, self.sender
        if kind == "ready":
            return LinkReady(Past(tuple(sender.incarnations), sender.sent_in))
        sequence_id = max(NOON_ID, stream.sequence_id) + int(sequence)
        question = stream._question - 1 or -1 if "earlier" in more else stream._question
        incarnation = int(more[more.index("of") + 1]) if "of" in more else 0
        if kind == "ack":
            return PeerState(sequence_id, int(number), question, incarnation)
        known = sequence_id if int(number) else 0
        final = "final" in more
        return Refused("full", known, int(number), question, final=final, incarnation=incarnation)

    def give(self, event, at=None):
        sender = self.sender
        if not self.busy:
            return sender.give(event, at)
        sender.now = sender.now if at is None else at
        return self.core.handle(event, sender.now)

    def _shown(self, effect):
        return str(effect).replace(str(NOON_ID), "S").replace(str(NOON_ID + 1), "S+1")

    def observe(self):
        stream = self.core
        refusals = stream.refusals
        durable = stream.state()
        seen = {
            "stage": stream.stage.name.lower().replace("_", " "),
            "paused": stream._paused,
            "question": stream._question,
            "deadline": stream.deadline(),
            "flight": [lookup_id for lookup_id, _ in stream._flight.messages],
            "flight bytes": stream._flight.bytes,
            "acknowledged": durable.acknowledged,
            "confirmed": stream._confirmed,
            "in doubt upto": stream._doubtful,
            "passed": stream._passed,
            "probing": stream._probing,
            "frame": stream._frame_size.bytes,
            "resend": stream._resend_index,
            "counters": tuple(stream.counters),
            "refused": refusals.current and refusals.current.sentence,
            "in vain": refusals.in_vain,
            "divergence": durable.divergence,
            "anew": durable.anew,
            "condition": stream.condition.value,
        }
        return {name: self._shown(value) for name, value in seen.items()}


@pytest.mark.parametrize(
    "example", state_tables.read(EXAMPLES), ids=lambda each: "; ".join(each.script)
)
def test_an_outgoing_stream_does_what_the_examples_say(example):
    assert state_tables.outcome(Stream, OutgoingStream, example.script) == example.outcome


def test_each_line_of_the_table_has_an_example_in_each_of_its_states():
    examples = state_tables.read(EXAMPLES)
    found = set().union(
        *(state_tables.fired(Stream, OutgoingStream, each.script) for each in examples)
    )
    assert state_tables.every_line(OUTGOING) - found == set()


@pytest.mark.slow
def test_a_wrong_value_in_any_cell_of_the_table_fails_an_example_of_its_line():
    examples = state_tables.read(EXAMPLES)
    assert state_tables.survivors(Stream, OutgoingStream, examples) == set(
        SAME
    ) | state_tables.wider(EXAMPLES)


if __name__ == "__main__":
    state_tables.write(EXAMPLES, Stream, OutgoingStream, walks=25_000, steps=14, more=RARE)
