"""Columns that a query names with `.schema(...)`, since Spark prunes none of a source in Python."""

from __future__ import annotations

import pytest

import dray
from dray.errors import InvalidConfiguration
from dray.spark.source.data_source import DraySource

SOME = "body binary, label string, lookup_id bigint"


@pytest.fixture
def orders(manager):
    """A queue with three small messages."""
    queue = manager.create_queue("orders")
    for number in range(3):
        queue.send(dray.Message(body=b"body %d" % number, label=f"label {number}"))
    return queue


@pytest.fixture
def source(daemon):
    return DraySource({"url": daemon.url, "queue": "orders"})


def structure(text):
    """The schema of a text in Spark's language, without a session."""
    from pyspark.sql import types

    kinds = {"bigint": types.LongType(), "string": types.StringType(), "binary": types.BinaryType()}
    pairs = [each.split() for each in text.split(", ")]
    return types.StructType([types.StructField(name, kinds[kind]) for name, kind in pairs])


def read(reader):
    try:
        return [row for part in reader.partitions() for row in _rows(reader, part)]
    finally:
        reader.catalogue.close()


def _rows(reader, part):
    return [row for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_gets_the_columns_that_it_names_in_its_order(spark, daemon, orders, tmp_path):
    wanted = [(b"body %d" % n, f"label {n}", n + 1) for n in range(3)]
    options = {"url": daemon.url, "queue": "orders"}

    rows = spark.read.format("dray").schema(SOME).options(**options).load()
    assert [tuple(map(_plain, row)) for row in rows.collect()] == wanted

    seen = []
    stream = spark.readStream.format("dray").schema(SOME).options(**options).load()
    writer = stream.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [tuple(map(_plain, row)) for row in seen] == wanted


def _plain(value):
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("bodies", ["inline", "reference"])
def test_columns_are_the_same_with_bodies_and_without(source, orders, bodies):
    source.options["bodies"] = bodies
    reader = source.reader(structure("lookup_id bigint, body_size bigint"))
    assert read(reader) == [{"lookup_id": n + 1, "body_size": 6} for n in range(3)]


def test_all_columns_are_read_where_none_is_named(source, orders):
    reader = source.reader(source.schema())
    assert reader.options.columns is None
    assert set(read(reader)[0]) == set(source.schema().fieldNames())


def test_a_column_that_is_named_twice_is_an_error(source):
    with pytest.raises(InvalidConfiguration, match="has body twice; name it once"):
        source.reader(structure("body binary, body binary"))


@pytest.mark.parametrize("column", ["lable string", "lookup_id string", "body string"])
@pytest.mark.parametrize("way", ["reader", "streamReader"])
def test_a_column_or_type_that_is_not_there_is_an_error_with_those_that_are(source, column, way):
    name, _, kind = column.partition(" ")
    with pytest.raises(InvalidConfiguration, match=rf"has {name} {kind}, .* lookup_id bigint"):
        getattr(source, way)(structure(column))
