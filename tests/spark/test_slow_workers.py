"""On a busy machine Spark gives up on a worker too soon; a landing begins again, so many times."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from dray.errors import DrayError, StoreLocked
from dray.spark.failure import STARTS_MAX, WORKER_TOO_SLOW
from dray.spark.landing.landing import Landing
from dray.spark.landing.query import AT_ONCE, LandingQuery
from dray.spark.settle_batches import _write_patiently

SLOW = f"[STREAM_FAILED] Query [id = 1] terminated with exception: {WORKER_TOO_SLOW}. SQLSTATE: X"


class Query:
    """As much of a query as a landing sees, and how it ends."""

    def __init__(self, end: Exception | None) -> None:
        self.end = end
        self.stopped = False

    def awaitTermination(self, _seconds):  # noqa: N802 - Spark's name
        if self.end is not None:
            raise self.end
        return True

    def stop(self):
        self.stopped = True


class Rows:
    """Streaming rows whose queries end one after the other as they are told to."""

    def __init__(self, *ends: Exception | None) -> None:
        self.queries = [Query(end) for end in ends]
        self.begun: list[Query] = []
        self.writeStream = self
        self.on_start = lambda _rows: None

    def foreachBatch(self, land):  # noqa: N802 - Spark's name
        self.land = land
        return self

    def option(self, _name, _value):
        return self

    def trigger(self, **_when):
        return self

    def start(self):
        self.begun.append(self.queries.pop(0))
        self.on_start(self)
        return self.begun[-1]


def slow() -> PySparkException:
    return PySparkException(SLOW)


def land(tmp_path, rows):
    return Landing(tmp_path / "out", puller=None, settler=None).run(rows)


def test_a_worker_that_was_too_slow_is_started_again(tmp_path, caplog):
    rows = Rows(slow(), slow(), None)
    land(tmp_path, rows)
    assert len(rows.begun) == 3
    assert all(query.stopped for query in rows.begun)
    assert caplog.text.count("took too long to start") == 2


def test_a_worker_that_is_always_too_slow_is_told(tmp_path):
    rows = Rows(*(slow() for _ in range(STARTS_MAX + 1)))
    with pytest.raises(DrayError, match=WORKER_TOO_SLOW):
        land(tmp_path, rows)
    assert len(rows.begun) == STARTS_MAX


def test_no_other_failure_is_tried_again(tmp_path):
    rows = Rows(PySparkException("[STREAM_FAILED] something else"), None)
    with pytest.raises(DrayError, match="something else"):
        land(tmp_path, rows)
    assert len(rows.begun) == 1


def test_a_failure_of_our_own_is_told_even_if_it_sounds_like_it(tmp_path):
    rows = Rows(slow(), None)

    def refuse(_batch):
        raise StoreLocked("ours")

    def land_one(rows):
        with pytest.raises(StoreLocked):
            rows.land(None, 1)

    rows.on_start = land_one
    with pytest.raises(StoreLocked):
        LandingQuery(rows, refuse, tmp_path, AT_ONCE).run()
    assert len(rows.begun) == 1


class Writing:
    """What a program writes of a batch, and how each attempt ends."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)

    def __call__(self):
        end = self.ends.pop(0)
        if end is not None:
            raise end


def test_settling_writes_a_batch_again_whose_worker_was_too_slow(caplog):
    writing = Writing(slow(), slow(), None)
    _write_patiently(writing)
    assert not writing.ends
    assert caplog.text.count("took too long to start") == 2


def test_settling_tells_of_a_worker_that_is_always_too_slow():
    writing = Writing(*(slow() for _ in range(STARTS_MAX + 1)))
    with pytest.raises(PySparkException, match=WORKER_TOO_SLOW):
        _write_patiently(writing)
    assert len(writing.ends) == 1


def test_settling_tries_no_other_failure_again():
    writing = Writing(ValueError("something else"), None)
    with pytest.raises(ValueError, match="something else"):
        _write_patiently(writing)
    assert writing.ends == [None]
