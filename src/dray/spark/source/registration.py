"""`register`: a session learns `format("dray")` where it cannot find it by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.client.calls.public_calls import checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@checked
def register(spark: SparkSession) -> None:
    """Make `format("dray")` known to a session, also where Dray was shipped and not installed.

    A session finds the format by itself where Dray is installed.
    """
    from dray.spark.source.data_source import DraySource

    spark.dataSource.register(DraySource)
