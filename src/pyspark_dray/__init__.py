"""Lets Spark find `format("dray")` by itself: it loads every module named `pyspark_...`."""

from dray.spark.source.data_source import DraySource as DefaultSource

__all__ = ["DefaultSource"]
