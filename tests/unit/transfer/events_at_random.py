"""Events of a file transfer at random, as walks through its tables need them."""

from __future__ import annotations

import random

from dray.errors import TransferSourceChanged
from dray.machine import Tick
from dray.transfer.consumer import Consumer
from dray.transfer.copies import CopyState
from dray.transfer.events import (
    Begin,
    Cancel,
    Checked,
    Disconnected,
    FragmentCame,
    Heard,
    Resume,
    Room,
    SourceBroke,
    SourceChecked,
    Suspend,
)
from dray.transfer.producer import Producer
from dray.wire.transfer_frames import (
    Acked,
    Cancelled,
    Farewell,
    Handshake,
    Joined,
    JoinRefused,
    Resumed,
    Spoiled,
    Suspended,
    Verified,
    Wanted,
)

CHANGED = TransferSourceChanged("it changed", path="f", transfer_id="t")


def producer_state(producer: Producer) -> str:
    copy = producer.copies.get("a")
    return CopyState.NEW.name if copy is None else copy.stage.name


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
        Disconnected("a"),
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


def consumer_state(consumer: Consumer) -> str:
    return consumer.stage.name


def consumer_event(consumer: Consumer, rng: random.Random):
    key, number = consumer.key, consumer.expected - (rng.random() < 0.1)
    often = [
        Begin(),
        Begin(),
        Heard(Joined(key, "1", rng.randint(1, 5), 0)),
        Heard(Joined(key, "1", rng.randint(1, 5), 0)),
        FragmentCame(max(0, number), 10, rng.random() < 0.8),
        FragmentCame(max(0, number), 10, intact=True),
        Checked(good=rng.random() < 0.3),
        Heard(Suspended(key)),
        Heard(Resumed(key)),
        Resume(),
        Disconnected(""),
        Tick(),
    ]
    seldom = [
        Suspend(),
        Heard(Farewell(key)),
        Heard(JoinRefused(key, "no")),
        Heard(Cancelled(key)),
        Heard(Cancelled(key, "error", "it failed")),
        Cancel(),
    ]
    return rng.choice(seldom if rng.random() < 0.1 else often)
