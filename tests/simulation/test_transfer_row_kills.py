"""The whole crash matrix of a file transfer: each end killed at each row of its state table.

A walk drives one core at random until all of its table has happened. At each row the end is killed
after none, some and all of the row's effects. What it had kept by then, and a file as long as its
consumer's, are given to two new cores, and they have to bring the transfer to its end.
"""

from __future__ import annotations

import random
from functools import partial
from typing import NamedTuple

import pytest

from dray.machine import Tick
from dray.model.transfer import TransferState
from dray.transfer.consumer import CONSUMER, Consumer
from dray.transfer.copies import PRODUCER, ConsumerCopy
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Checked,
    Heard,
    Keep,
    Resume,
    StartOver,
    Suspend,
    Tell,
    Terms,
    WriteFragment,
)
from dray.transfer.producer import Producer
from dray.wire.transfer_frames import Cancelled, Farewell, Handshake, Joined, JoinRefused, Verified
from tests.unit.transfer.events_at_random import (
    consumer_event,
    consumer_state,
    name_of,
    producer_event,
    producer_state,
)
from tests.worlds.transfer_world import End, Faults, TransferWorld

WALKS, STEPS, TIMES = 3_000, 40, 2
CALM_S = 200.0
"""Longer than silence and every retry."""
GIVEN_UP = (TransferState.CANCELLED, TransferState.FAILED)


RESUMED_ALONE = (Heard(Handshake("a", 0)), Suspend(), Resume("a"), Tick())
"""One consumer of an offer that is suspended falls silent; walks hardly ever find that."""


class Left(NamedTuple):
    """What a kill has left behind."""

    terms: Terms
    kept: dict[str, tuple[str, int, TransferState]]
    """The producer's copies, by key: id, first fragment that is not acknowledged, state."""
    stored: int = 0
    """Fragments in the consumer's file."""
    published: bool = False
    spoilt: bool = False
    is_open: bool = True
    """Whether the offer may still be joined."""
    over_there: bool = False
    """Whether the consumer has kept that for him it is over."""


class Afterwards(TransferWorld):
    """Both ends begin anew from what was left, over a perfect line."""

    def __init__(self, left: Left) -> None:
        super().__init__(0)
        self.faults = Faults(0, 0, 0, 0.01, 0, 0, 0)
        self.many, self.terms, self._kept = False, left.terms, dict(left.kept)
        self._discovery_until = self.now + (5.0 if left.is_open else -5.0)
        self.end = End("a")
        self.end.file = list(range(left.stored))
        self.end.published, self.end.spoilt = left.published, left.spoilt
        self.end.cancelled = left.over_there
        self.ends = {"a": self.end}

    def run(self) -> None:
        self._start_producer()
        self._after(0.5, partial(self._start_consumer, self.end))
        for _ in range(3):
            self._until(self.now + CALM_S)
            self._calm()
        self._until(self.now + CALM_S)

    def _check(self, end: End, core: Consumer) -> None:
        """A digest fits or does not, however often it is taken."""
        if end.core is core:
            end.published = end.published or not end.spoilt
            self._give_consumer(end, Checked(not end.spoilt))


def assert_comes_to_its_end(left: Left) -> str:
    """Judge what the two make of it; say what it was."""
    world = Afterwards(left)
    world.run()
    end, copy = world.end, world.producer.copies.get("a")
    if left.over_there:
        assert end.core is None
        return "over there"
    state = end.core.state
    given_up = copy is None or copy.state in GIVEN_UP
    if given_up and not end.published:
        assert state in (*GIVEN_UP, TransferState.TIMED_OUT)
        return "given up"
    assert end.published
    assert end.file == list(range(left.terms.fragment_count))
    if given_up:
        # The file was there already when somebody cancelled what was left to be told.
        assert state in (TransferState.DONE, *GIVEN_UP)
    else:
        assert state is copy.state is TransferState.DONE
    return "delivered"


def kept_by(producer: Producer) -> dict[str, tuple[str, int, TransferState]]:
    return {
        key: (copy.consumer_id, copy.window.base, copy.state)
        for key, copy in producer.copies.items()
    }


class Matrix:
    """Which rows were met how often, with a kill behind each of their effects."""

    def __init__(self, table) -> None:
        self.left = {
            (state.name, line.event.__name__, line.next.name): TIMES
            for line in table
            for state in line.states
            if line.next not in (None, state)
        }
        self.ends: set[str] = set()

    def wants(self, row) -> bool:
        if not self.left.get(row):
            return False
        self.left[row] -= 1
        return True

    def kill(self, row, left: Left) -> None:
        try:
            self.ends.add(assert_comes_to_its_end(left))
        except AssertionError as error:
            raise AssertionError(f"killed at {row}, which left {left}") from error

    @property
    def full(self) -> bool:
        return not any(self.left.values())

    def missed(self):
        return [row for row, times in self.left.items() if times == TIMES]


def walk_a_producer(rng: random.Random, matrix: Matrix, *, is_open: bool) -> None:
    discovery = Discovery(many=False, until=50.0)
    terms = Terms(80, 10, rng.randint(1, 3))
    producer = Producer(terms, discovery)
    if not is_open:
        discovery.close()
    now, kept = 1.0, {}
    first = list(RESUMED_ALONE) if rng.random() < 0.1 else []
    for _ in range(STEPS):
        event = first.pop(0) if first else producer_event(producer, rng)
        if isinstance(event, Tick):
            now = max(now, producer.deadline() or now)
        before = producer_state(producer)
        effects = producer.handle(event, now)
        row = (before, name_of(event), producer_state(producer))
        after = kept_by(producer)
        heard = event.message if isinstance(event, Heard) else None
        published = isinstance(heard, Verified)
        # What the producer believes to be acknowledged, its consumer has.
        base = producer.copies["a"].window.base if producer.copies else 0
        stored = terms.fragment_count if published else base
        for done in range(len(effects) + 1) if matrix.wants(row) else ():
            durable = after if Keep() in effects[:done] else kept
            over_there = isinstance(heard, Cancelled)
            left = Left(terms, durable, stored, published, False, is_open, over_there)
            matrix.kill(row, left)
        kept = after if Keep() in effects else kept


def kill_producers() -> Matrix:
    matrix = Matrix(PRODUCER)
    for seed in range(WALKS):
        walk_a_producer(random.Random(seed), matrix, is_open=seed % 7 != 0)
        if matrix.full:
            break
    return matrix


def test_a_producer_killed_at_every_row_of_its_table():
    matrix = kill_producers()
    assert matrix.missed() == []
    assert matrix.ends == {"delivered", "given up", "over there"}


class Walk:
    """One consumer on its way, and what its producer must know of it."""

    def __init__(self, rng: random.Random) -> None:
        self.terms = Terms(rng.choice([0, 10, 20]), 10, 2)
        self.published = rng.random() < 0.1
        self.stored = self.terms.fragment_count if self.published else 0
        self.consumer = Consumer(
            "a", "t", self.terms, expected=self.stored, verified=self.published
        )
        self.joined = self.published
        self.spoilt, self.is_open = False, True
        self.copy = TransferState.WAITING

    def note(self, event) -> None:
        """The world around it moves first."""
        heard = event.message if isinstance(event, Heard) else None
        match heard:
            case Joined():
                self.joined = True
            case Cancelled():
                self.copy = TransferState.FAILED if heard.error else TransferState.CANCELLED
                self.joined = True
            case Farewell():
                self.copy = TransferState.DONE
            case JoinRefused():
                self.is_open = False
        if isinstance(event, Checked):
            self.spoilt = not event.good
            self.published = self.published or event.good

    def act(self, effect) -> None:
        match effect:
            case WriteFragment():
                self.stored += 1
            case StartOver():
                self.stored, self.spoilt = 0, False
            case Tell(Cancelled()):
                self.copy, self.joined = TransferState.CANCELLED, True

    def left(self, *, over_there: bool) -> Left:
        kept = {"a": ("1", self.stored, self.copy)} if self.joined else {}
        return Left(
            self.terms, kept, self.stored, self.published, self.spoilt, self.is_open, over_there
        )


def is_sensible(walk: Walk, event) -> bool:
    """Whether a world could say so: nobody bids farewell to, or refuses, whom he does not know."""
    heard = event.message if isinstance(event, Heard) else None
    if isinstance(heard, Farewell):
        return walk.published
    if isinstance(heard, JoinRefused):
        return not walk.joined
    if isinstance(event, Checked):
        good = event.good or not walk.published
        return good and consumer_state(walk.consumer) == "CHECKING"
    return True


def walk_a_consumer(rng: random.Random, matrix: Matrix) -> None:
    walk, now = Walk(rng), 1.0
    consumer = walk.consumer
    for _ in range(STEPS):
        event = consumer_event(consumer, rng)
        if not is_sensible(walk, event):
            continue
        if isinstance(event, Tick):
            now = max(now, consumer.deadline() or now) + rng.choice([0, 0, 100])
        before = consumer_state(consumer)
        walk.note(event)
        effects = consumer.handle(event, now)
        row = (before, name_of(event), consumer_state(consumer))
        wanted = matrix.wants(row)
        over = consumer.state in GIVEN_UP
        if wanted:
            matrix.kill(row, walk.left(over_there=False))
        for done, effect in enumerate(effects, 1):
            walk.act(effect)
            if wanted:
                matrix.kill(row, walk.left(over_there=over and Keep() in effects[:done]))
        if over:
            return


def test_a_consumer_killed_at_every_row_of_its_table():
    matrix = Matrix(CONSUMER)
    for seed in range(2 * WALKS):
        walk_a_consumer(random.Random(seed), matrix)
        if matrix.full:
            break
    assert matrix.missed() == []
    assert matrix.ends == {"delivered", "given up", "over there"}


def test_an_end_that_does_not_go_on_after_a_kill_is_noticed(monkeypatch):
    monkeypatch.setattr(ConsumerCopy, "_join", lambda *_: [])
    with pytest.raises(AssertionError, match="killed at"):
        kill_producers()
