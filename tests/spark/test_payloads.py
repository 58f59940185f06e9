"""A large message as a file inside a job: seekable, pulled as it is read, checked, not taken."""

from __future__ import annotations

import random

import pytest

from dray.errors import DrayError, InvalidArgument, LargeMessageCorrupt, LargeMessageHole
from dray.spark import open_payload

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BODY = random.Random(11).randbytes(95_000)


@pytest.fixture
def rows(spark, daemon, parcels):
    """Read the rows of what is in the queue."""

    def read():
        reader = spark.read.format("dray").option("url", daemon.url).option("content", "large")
        return reader.option("queue", "parcels").load()

    return read


def test_an_executor_reads_ranges_of_a_payload_and_the_whole(rows, manager, parcels):
    parcels.send(BODY, label="one")

    def read(frames):
        import pandas as pd

        for frame in frames:
            pieces = []
            for _, row in frame.iterrows():
                with open_payload(row) as file:
                    end = file.seek(-10, 2)
                    tail = file.read()
                    file.seek(0)
                    pieces.append((row["label"], end, tail + file.read()))
            yield pd.DataFrame(pieces, columns=["label", "place", "body"])

    found = rows().mapInPandas(read, "label string, place long, body binary").collect()
    assert [(row.label, row.place) for row in found] == [("one", len(BODY) - 10)]
    assert bytes(found[0].body) == BODY[-10:] + BODY
    assert manager.queue("parcels", raw=True).info().message_count == 12


def test_a_row_may_be_a_row_or_a_dict_and_an_empty_body_is_a_file(rows, parcels):
    parcels.send(b"")
    (row,) = rows().collect()
    for each in (row, row.asDict()):
        with open_payload(each) as file:
            assert file.readable()
            assert file.seekable()
            assert file.read() == b""


def test_fragments_are_pulled_when_they_are_read(rows, manager, parcels):
    parcels.send(3 * BODY)
    (row,) = rows().collect()
    raw = manager.queue("parcels", raw=True)
    positions = [message.lookup_id for message in raw.messages()]
    with open_payload(row) as file:
        assert file.read(100) == BODY[:100]
        raw.receive_by_lookup_id(positions[20])
        file.seek(60_000)
        assert file.read(100) == BODY[60_000:60_100]
        file.seek(195_000)
        with pytest.raises(DrayError):
            file.read(100)


@pytest.mark.parametrize("step", [-1, 7_000, 100_000])
def test_a_digest_that_does_not_fit_is_told_at_the_end(rows, parcels, step):
    parcels.send(BODY)
    (row,) = rows().collect()
    wrong = {**row.asDict(), "digest": "00" * 32}
    with open_payload(wrong) as file:
        assert file.read(50_000) == BODY[:50_000]
        file.seek(20_000)
        with pytest.raises(LargeMessageCorrupt, match="digest does not fit"):
            list(iter(lambda: file.read(step), b""))


def test_a_row_with_a_hole_and_what_is_no_row_are_refused(rows, manager, parcels):
    parcels.send(BODY)
    parcels.send(b"behind it")
    raw = manager.queue("parcels", raw=True)
    raw.receive_by_lookup_id([message.lookup_id for message in raw.messages()][5])
    holed = next(row for row in rows().collect() if row.missing)
    with pytest.raises(LargeMessageHole, match="has no 5"):
        open_payload(holed)
    for wrong in ({"manager": "x"}, {}):
        with pytest.raises(InvalidArgument, match="columns"):
            open_payload(wrong)
