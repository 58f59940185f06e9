"""The tables of a transfer's states say what the cores do: no more, no less."""

from __future__ import annotations

import random

from dray.errors import TransferSourceChanged
from dray.transfer.consumer import Consumer, Phase
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Begin,
    Cancel,
    Checked,
    Heard,
    PieceCame,
    Resume,
    Room,
    SourceBroke,
    SourceChecked,
    Suspend,
    Terms,
    Tick,
    WayLost,
)
from dray.transfer.producer import Producer
from dray.transfer.tables import CONSUMER, PRODUCER
from dray.wire.transfer_frames import (
    Acked,
    Cancelled,
    Farewell,
    Handshake,
    Joined,
    Refused,
    Resumed,
    Spoiled,
    Suspended,
    Verified,
    Wanted,
)

WALKS, STEPS = 1_500, 40
CHANGED = TransferSourceChanged("it changed", path="f", transfer_id="t")


def producer_state(producer: Producer) -> str:
    copy = producer.copies.get("a")
    return "none" if copy is None else str(copy.state)


def producer_event(producer: Producer, rng: random.Random):
    copy = producer.copies.get("a")
    round_ = (copy.round if copy else 0) - (rng.random() < 0.1)
    base = copy.window.base if copy else 0
    number = rng.choice([base, base + 1, base + 2, 8])
    often = [
        Heard(Handshake("a", number, rng.random() < 0.2)),
        Heard(Wanted("a", max(0, round_), number)),
        Heard(Acked("a", max(0, round_), number)),
        *[Heard(Wanted("a", max(0, round_), base))] * 3,
        *[Heard(Acked("a", max(0, round_), number))] * 2,
        *[Room("a")] * 4,
        WayLost("a"),
        Heard(Spoiled("a")),
        Heard(Suspended("a")),
        SourceChecked("a"),
        Suspend(rng.choice(["", "a"])),
        Resume(rng.choice(["", "a"])),
        Tick(),
    ]
    seldom = [
        Heard(Verified("a")),
        Heard(Cancelled("a")),
        Heard(Cancelled("a", "error", "it failed")),
        Cancel("a"),
        SourceBroke(CHANGED),
    ]
    return rng.choice(seldom if rng.random() < 0.1 else often)


def name_of(event) -> str:
    return type(event.message if isinstance(event, Heard) else event).__name__


def test_every_step_of_a_copy_is_in_the_table_and_all_of_the_table_happens():
    seen = set()
    for seed in range(WALKS):
        rng = random.Random(seed)
        discovery = Discovery(many=False, until=50.0)
        producer = Producer(Terms(80, 10, rng.randint(1, 3)), discovery)
        if seed % 7 == 0:
            discovery.close()
        now = 1.0
        for _ in range(STEPS):
            event = producer_event(producer, rng)
            if isinstance(event, Tick):
                now = max(now, producer.deadline() or now)
            before = producer_state(producer)
            producer.handle(event, now)
            seen.add((before, name_of(event), producer_state(producer)))
    table = {(row.state, row.event, row.next) for row in PRODUCER}
    assert {way for way in seen - table if way[0] != way[2]} == set()
    assert table - seen == set()


def consumer_state(consumer: Consumer) -> str:
    if consumer.phase is Phase.OVER:
        return str(consumer.state).replace("-", " ")
    return consumer.phase.name.lower().replace("_", " ")


def consumer_event(consumer: Consumer, rng: random.Random):
    key, number = consumer.key, consumer.expected - (rng.random() < 0.1)
    often = [
        Begin(),
        Begin(),
        Heard(Joined(key, "1", rng.randint(1, 5), 0)),
        Heard(Joined(key, "1", rng.randint(1, 5), 0)),
        PieceCame(max(0, number), 10, rng.random() < 0.8),
        PieceCame(max(0, number), 10, intact=True),
        Checked(good=rng.random() < 0.3),
        Heard(Suspended(key)),
        Heard(Resumed(key)),
        Resume(),
        WayLost(""),
        Tick(),
    ]
    seldom = [
        Suspend(),
        Heard(Farewell(key)),
        Heard(Refused(key, "no")),
        Heard(Cancelled(key)),
        Heard(Cancelled(key, "error", "it failed")),
        Cancel(),
    ]
    return rng.choice(seldom if rng.random() < 0.1 else often)


def test_every_step_of_a_consumer_is_in_the_table_and_all_of_the_table_happens():
    seen = set()
    for seed in range(2 * WALKS):
        rng = random.Random(seed)
        terms = Terms(rng.choice([0, 10, 20]), 10, 2)
        consumer = Consumer("a", "t", terms, verified=rng.random() < 0.1)
        now = 1.0
        for _ in range(STEPS):
            event = consumer_event(consumer, rng)
            if isinstance(event, Tick):
                now = max(now, consumer.deadline() or now) + rng.choice([0, 0, 100])
            before = consumer_state(consumer)
            consumer.handle(event, now)
            seen.add((before, name_of(event), consumer_state(consumer)))
    table = {(row.state, row.event, row.next) for row in CONSUMER}
    assert {way for way in seen - table if way[0] != way[2]} == set()
    assert table - seen == set()
