"""The tables of states say what the cores do: no more, no less."""

from __future__ import annotations

import random

import pytest

from dray.delivery.confirmation import Outbox
from dray.delivery.events import (
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    Paused,
    PeerState,
    Refused,
    Resumed,
    Tick,
)
from dray.delivery.incoming import Position, StreamKey, accepts
from dray.delivery.tables import CONFIRMATION, INCOMING, OUTGOING

from .sender import Sender

WALKS, STEPS = 400, 40
EXPIRY = 0.1
FINAL = 0.3
STALE = 0.1
BEYOND = 0.1


def state_of(sender: Sender) -> str:
    return sender.stream._talk.name.lower().replace("_", " ")


def step(sender: Sender, rng: random.Random) -> tuple[str, str, str] | None:
    """One event at random; the way it went, if it is one that tables tell."""
    before, stream = state_of(sender), sender.stream
    if sender.queue.lengths and rng.random() < EXPIRY:
        sender.expire(*sender.queue.lengths)
        return None
    asked = stream._question - (stream._question > 1 and rng.random() < STALE)
    if stream.divergence is not None and rng.random() < STALE:
        stream.resolved()
        return before, "Resolved", state_of(sender)
    kind = rng.choice(
        [LinkReady, LinkLost, PeerState, Refused, Invited, Grown, Paused, Resumed, Tick]
    )
    if kind is Grown:
        sender.admit(rng.randint(1, 3))
        return before, "Grown", state_of(sender)
    if kind is PeerState:
        number = rng.choice([0, rng.randint(0, 12), stream.last - stream.base])
        sequence_id = stream.sequence_id + rng.choice([0, 0, 0, 0, 1, -1])
        sender.give(PeerState(max(0, sequence_id), number, asked))
    elif kind is Refused:
        final = rng.random() < FINAL
        beyond = (stream.sequence_id + 1, 9) if rng.random() < BEYOND else (0, 0)
        sender.give(Refused("full", *beyond, question=asked, final=final))
    elif kind is Tick:
        at = stream.deadline()
        if at is None:
            return None
        sender.give(Tick(), at=max(at, sender.now))
    else:
        sender.give(kind())
    return before, kind.__name__, state_of(sender)


def test_every_step_of_an_outgoing_stream_is_in_the_table_and_all_of_the_table_happens() -> None:
    table = {(row.state, row.event, row.next) for row in OUTGOING}
    seen: set[tuple[str, str, str]] = set()
    for seed in range(WALKS):
        rng, sender = random.Random(seed), Sender()
        for _ in range(STEPS):
            way = step(sender, rng)
            if way is None:
                continue
            seen.add(way)
    assert {way for way in seen - table if way[0] != way[2]} == set()
    assert table - seen == set()


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
