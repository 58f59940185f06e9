"""A micro-batch as a whole: rows of a queue that was made again are of another queue."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dray.errors import QueueRecreated
from dray.spark.landing.batch import check_births, examine
from dray.spark.landing.table import QueueReached, Reached
from dray.spark.positions import LandingProgress
from dray.spark.schema import PULLED, UNREADABLE

MANAGER = "a" * 32
LANDED = QueueReached(LandingProgress(10), holed=(f"{MANAGER}\\3",), born=7)
REACHED = Reached().with_queue(MANAGER, "parcels", LANDED)


def rows(born, **given):
    row = {
        "manager": "dray://127.0.0.1",
        "manager_id": MANAGER,
        "queue": "parcels",
        "queue_born": born,
        "first_lookup_id": 11,
        "last_lookup_id": 13,
        "lookup_ranges": [[11, 13]],
        "sequence_id": f"{MANAGER}\\9",
        "label": "",
        "size": 5,
        "fragment_count": 1,
        "missing": [],
        "state": "landed",
        "payload": "file",
    }
    return pa.Table.from_pylist([row | given], schema=PULLED)


def reached_behind(batch):
    return examine(batch, [False], REACHED).reached.queue(MANAGER, "parcels")


def test_rows_of_another_birth_of_a_queue_are_refused():
    check_births(rows(7), REACHED)
    check_births(rows(8, queue="letters"), REACHED)

    with pytest.raises(QueueRecreated, match=r"queue 'parcels' .* accept_new_queue"):
        check_births(rows(8), REACHED)


def test_what_was_landed_of_an_earlier_queue_does_not_count_for_the_new_one():
    assert reached_behind(rows(7)).progress == LandingProgress(10, ((11, 13),))
    assert reached_behind(rows(7)).holed == LANDED.holed

    anew = reached_behind(rows(8))

    assert (anew.born, anew.holed) == (8, ())
    assert anew.progress == LandingProgress(0, ((11, 13),))


def test_a_queue_of_which_nothing_can_be_read_has_its_birth_number_too():
    assert reached_behind(rows(8, state=UNREADABLE, payload=None)) == QueueReached(born=8)
