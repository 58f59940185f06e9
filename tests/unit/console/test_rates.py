"""Rates of 15 minutes: samples come and go, and two lines share a scale."""

from __future__ import annotations

from dray.console.pages.rates import EVERY_S, HEIGHT, SAMPLES, QueueRates
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.rates import Rates


def info(reached, depth=0, *, name="orders", born=1):
    return QueueInfo(
        name=name,
        kind=QueueKind.PRIVATE,
        transactional=True,
        last_position=reached,
        message_count=depth,
        born=born,
    )


def test_a_queue_that_nobody_uses_has_no_line():
    rates = QueueRates()
    for at in range(3):
        rates.look([info(7)], at * EVERY_S)
    assert rates.chart("orders").arriving == ""
    assert rates.now("orders") == rates.now("missing") == Rates(0.0, 0.0)


def test_the_line_rises_where_messages_came():
    rates = QueueRates()
    rates.look([info(0)], 0.0)
    rates.look([info(50, 25)], EVERY_S)
    chart = rates.chart("orders")
    assert chart.now == Rates(10.0, 5.0)
    assert chart.arriving.endswith(",1.0")
    assert chart.arriving.startswith(f"M0,{HEIGHT - 1}.0 ")
    assert chart.leaving.endswith(",12.0")


def test_samples_older_than_fifteen_minutes_are_forgotten():
    rates = QueueRates()
    rates.look([info(0)], 0.0)
    rates.look([info(50)], EVERY_S)
    for at in range(SAMPLES):
        rates.look([info(50)], (at + 2) * EVERY_S)
    assert rates.chart("orders").arriving == ""


def test_positions_that_a_start_of_the_queue_manager_skips_are_no_traffic():
    rates = QueueRates()
    rates.look([info(2, 2)], 0.0, uptime=100.0)
    rates.look([info(4096)], EVERY_S, uptime=1.0)
    assert rates.now("orders") == Rates(0.0, 0.0)
    rates.look([info(4101, 5)], 2 * EVERY_S, uptime=1.0 + EVERY_S)
    assert rates.now("orders") == Rates(1.0, 0.0)


def test_a_queue_that_was_made_anew_begins_anew_and_a_deleted_one_is_forgotten():
    rates = QueueRates()
    rates.look([info(0), info(0, name="gone")], 0.0)
    rates.look([info(50), info(9, name="gone")], EVERY_S)
    rates.look([info(9, born=2)], 2 * EVERY_S)
    assert rates.now("orders") == Rates(0.0, 0.0)
    assert rates.chart("gone").arriving == ""
