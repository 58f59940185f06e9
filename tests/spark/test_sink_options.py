"""What cannot be written is refused in a sentence, before Spark starts."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from dray.errors import InvalidConfiguration, SourceUnreadable

pytestmark = pytest.mark.spark

URL = {"url": "dray://localhost:7340"}
QUEUE = {**URL, "queue": "rows"}
BODY = "body binary"


def read(given, columns=BODY, *, overwrite=False, stream=False):
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

    from dray.spark.sink.sink_options import read_sink_options

    kinds = {
        "binary": BinaryType(),
        "string": StringType(),
        "int": IntegerType(),
        "bigint": LongType(),
    }
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split()
        schema.add(name, kinds[kind])
    return read_sink_options(given, schema, overwrite=overwrite, stream=stream)


@pytest.mark.parametrize(
    ("given", "columns", "sentence"),
    [
        ({**QUEUE, "path": "x"}, BODY, "no option 'path' for writing"),
        ({"queue": "rows", "url": " "}, BODY, "one queue manager"),
        ({**QUEUE, "url": "dray://a:1,dray://b:2"}, BODY, "one queue manager"),
        (QUEUE, "body binary, colour string", "cannot write the column 'colour'"),
        (QUEUE, "body int", "'body' is of type int"),
        (QUEUE, "body binary, label int", "'label' is of type int"),
        (QUEUE, "label string", "select one of them"),
        (URL, BODY, "needs the option queue"),
        ({**QUEUE, "query_id": "q"}, BODY, "give both options or none"),
        ({**QUEUE, "batch_id": "1"}, BODY, "give both options or none"),
        ({**QUEUE, "query_id": "write$1", "batch_id": "1"}, BODY, "so choose another one"),
        ({**QUEUE, "query_id": "q", "batch_id": "-1"}, BODY, "a number from 0 on"),
        ({**QUEUE, "query_id": "q", "batch_id": f"{1 << 64}"}, BODY, "batch_id must be"),
        ({**QUEUE, "query_id": "q", "batch_id": "9" * 5_000}, BODY, "batch_id must be"),
        ({**QUEUE, "query_id": "q" * 201, "batch_id": "1"}, BODY, "query_id has 201 characters"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_sentence(given, columns, sentence):
    with pytest.raises(InvalidConfiguration, match=sentence):
        read(given, columns)


def test_overwriting_and_the_batch_id_of_a_stream_are_refused():
    with pytest.raises(InvalidConfiguration, match="only adds messages"):
        read(QUEUE, overwrite=True)
    with pytest.raises(InvalidConfiguration, match="leave out the option batch_id"):
        read({**QUEUE, "batch_id": "1"}, stream=True)


def test_options_of_spark_itself_and_all_columns_are_taken():
    given = {**URL, "checkpointLocation": "x", "queryName": "n", "query_id": "q"}
    columns = (
        "body string, path string, label string, correlation_id string, app_specific bigint,"
        " queue string"
    )
    options = read({**given, "credentials": "c.toml"}, columns, stream=True)
    assert options.credentials == "c.toml"
    assert (options.url, options.queue, options.query_id) == (URL["url"], "", "q")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"body": None, "path": None}, "neither"),
        ({"body": b"x", "path": "y"}, "both"),
        ({"body": b"x", "queue": None}, "no value in the column queue"),
        ({"body": b"x", "queue": "q", "app_specific": 1 << 31}, "32-bit"),
    ],
)
def test_a_row_that_is_no_message_is_refused(row, sentence):
    import pyarrow as pa

    from dray.spark.sink.outgoing_rows import outgoing_rows

    batch = pa.RecordBatch.from_pylist([row])
    with pytest.raises(InvalidConfiguration, match=sentence):
        list(outgoing_rows(batch, ""))


@pytest.mark.parametrize("kind", ["string", "large_string", "binary"])
def test_a_body_of_bytes_that_are_no_text_is_sent_as_it_is(kind):
    """`cast(body AS string)` of Spark keeps all bytes."""
    import pyarrow as pa

    from dray.spark.sink.outgoing_rows import outgoing_rows

    column = pa.array([b"\xffA", b"", None], pa.binary()).cast(kind, safe=False)
    paths = pa.array([None, None, "a file"])
    batch = pa.RecordBatch.from_arrays([column, paths], ["body", "path"])

    assert [row.body for row in outgoing_rows(batch, "q")] == [b"\xffA", b"", None]


@pytest.mark.parametrize("name", ["label", "correlation_id", "queue"])
def test_a_property_that_is_no_text_is_refused_with_its_column(name):
    import pyarrow as pa

    from dray.spark.sink.outgoing_rows import outgoing_rows

    odd = pa.array([b"\xffA"], pa.binary()).cast(pa.string(), safe=False)
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"]), odd], ["body", name])

    with pytest.raises(InvalidConfiguration, match=f"the column {name} has a text that is no UTF"):
        list(outgoing_rows(batch, "q"))


@pytest.mark.parametrize("name", ["none", "nu\0ll"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    from dray.spark.sink.outgoing_rows import _HashedFile

    with pytest.raises(SourceUnreadable, match="column path names"):
        list(_HashedFile(str(tmp_path / name)).pieces())


@pytest.mark.parametrize("name", ["a.bin", "with space.bin", "per%20cent.bin", "ü#1.bin"])
def test_a_file_is_found_by_its_path_and_by_each_url_that_spark_has_for_it(tmp_path, name):
    from dray.spark.sink.outgoing_rows import _HashedFile

    file = tmp_path / name
    file.write_bytes(b"the file")
    escaped = quote(str(file))
    # Of the column path of binaryFile, of _metadata.file_path, and of input_file_name().
    for given in (str(file), f"file:{file}", f"file:{escaped}", f"file://{escaped}"):
        assert b"".join(_HashedFile(given).pieces()) == b"the file"


def test_a_url_that_may_be_two_files_is_refused(tmp_path):
    from dray.spark.sink.outgoing_rows import _HashedFile

    for name in ("a b", "a%20b"):
        (tmp_path / name).write_bytes(name.encode())

    with pytest.raises(SourceUnreadable, match="give the path without file:"):
        _HashedFile(f"file:{tmp_path}/a%20b")
    assert b"".join(_HashedFile(str(tmp_path / "a%20b")).pieces()) == b"a%20b"
