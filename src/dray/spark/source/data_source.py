"""`format("dray")`: queues as Spark streams and tables, with the options of `options.py`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from dray.errors import InvalidConfiguration
from dray.spark.schema import spark_schema
from dray.spark.sink.sink_options import read_sink_options
from dray.spark.sink.writers import BatchSink, StreamSink
from dray.spark.source.batch import BatchReader, FilteringReader
from dray.spark.source.filters import is_asked_for_filters
from dray.spark.source.options import (
    Options,
    check_for_batch,
    check_for_stream,
    read_options,
)
from dray.spark.source.reader import StreamReader


class DraySource(DataSource):
    """Queues, read without taking anything from them, and written batch by batch."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "dray"

    def schema(self) -> StructType:
        """The columns, which follow from the option `content`."""
        return spark_schema(self._read_options().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        check_for_batch(self.options)
        kind = FilteringReader if is_asked_for_filters() else BatchReader
        return kind(_for_columns(self._read_options(), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        check_for_stream(self.options)
        return StreamReader(_for_columns(self._read_options(), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """For `df.write`."""
        return BatchSink(read_sink_options(self.options, schema, overwrite=overwrite, stream=False))

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - the signature is Spark's
    ) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        return StreamSink(read_sink_options(self.options, schema, overwrite=overwrite, stream=True))

    def _read_options(self) -> Options:
        return read_options(self.options)


def _for_columns(options: Options, asked: StructType) -> Options:
    """The options of a reader that gives the columns of `.schema(...)`; all without it."""
    there = {field.name: field.dataType for field in spark_schema(options.schema)}
    for field in asked:
        if there.get(field.name) != field.dataType:
            raise InvalidConfiguration(
                f"the schema of the query has {field.name} {field.dataType.simpleString()}, and"
                " format('dray') has "
                + ", ".join(f"{name} {kind.simpleString()}" for name, kind in there.items())
                + "; leave the others out of .schema(...), and write each as it is here"
            )
    columns = tuple(asked.fieldNames())
    for name in columns:
        if columns.count(name) > 1:
            raise InvalidConfiguration(
                f"the schema of the query has {name} twice; name it once in .schema(...)"
            )
    return options if columns == tuple(there) else options._replace(columns=columns)
