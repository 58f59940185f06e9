"""Offered files arrive whole, in worlds where everything goes wrong; and the worlds notice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dray.transfer.consumer import Consumer
from dray.transfer.events import FragmentCame, WriteFragment
from dray.transfer.producer import Producer
from dray.transfer.window import Window
from tests.worlds.transfer_world import TransferWorld

SHORT, LONG, BLOCK = 400, 20_000, 50


def run(seed: int) -> TransferWorld:
    world = TransferWorld(seed)
    try:
        world.run()
    except AssertionError:
        print(f"seed {seed}: {world.faults} {world.terms}")
        raise
    return world


@pytest.mark.parametrize("first", range(0, SHORT, BLOCK))
def test_offered_files_arrive(first, went_through):
    for seed in range(first, first + BLOCK):
        run(seed)
        went_through["worlds of file transfers"] += 1


@pytest.mark.torture
@pytest.mark.parametrize("first", range(SHORT, LONG, 1_000))
def test_offered_files_arrive_in_many_more_worlds(first, went_through):
    for seed in range(first, first + 1_000):
        run(seed)
        went_through["worlds of file transfers"] += 1


@pytest.mark.parametrize("seed", [145, 151, 175, 249, 345])
def test_seeds_that_once_failed(seed):
    run(seed)


def test_the_worlds_are_bad_enough_to_mean_something():
    worlds = [run(seed) for seed in range(60)]
    assert sum(world.kills for world in worlds) > 30
    assert sum(world.resent for world in worlds) > 300
    assert {world.many for world in worlds} == {True, False}


def test_the_same_seed_is_the_same_world_whatever_the_hashes():
    code = (
        "from tests.worlds.transfer_world import TransferWorld\n"
        "for seed in range(20):\n"
        "    world = TransferWorld(seed); world.run(); print(world.digest.hexdigest())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            check=True,
            timeout=100,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert told[0] == told[1]


def fails_somewhere() -> bool:
    for seed in range(60):
        try:
            TransferWorld(seed).run()
        except AssertionError:
            return True
    return False


def test_a_window_that_is_not_kept_is_noticed(monkeypatch):
    monkeypatch.setattr(Window, "has_room", property(lambda window: window.next < window.count))
    assert fails_somewhere()


def test_a_consumer_that_takes_what_is_out_of_order_is_noticed(monkeypatch):
    decide = Consumer.handle

    def careless(consumer, event, now):
        if isinstance(event, FragmentCame) and event.number > consumer.expected:
            consumer.expected = event.number + 1
            return [WriteFragment(event.number)]
        return decide(consumer, event, now)

    monkeypatch.setattr(Consumer, "handle", careless)
    assert fails_somewhere()


def test_a_producer_that_does_not_go_back_is_noticed(monkeypatch):
    monkeypatch.setattr(Window, "back_to", lambda window, start: window.acked(start) or True)
    assert fails_somewhere()


def test_a_producer_that_says_farewell_before_it_is_kept_is_noticed(monkeypatch):
    decide = Producer.handle

    def hasty(producer, event, now):
        return [each for each in decide(producer, event, now) if type(each).__name__ != "Keep"]

    monkeypatch.setattr(Producer, "handle", hasty)
    assert fails_somewhere()
