"""`dray.spark.audit`: compares what landed with what was sent, and measures it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dray.client.calls.public_calls import checked
from dray.spark.failure import plainly
from dray.spark.managers import credentials_named
from dray.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dray.spark.auditing.report import AuditReport
    from dray.spark.auditing.sources import AuditSources, Given


@checked
def audit(
    sources: Given | Sequence[Given],
    *,
    out: str | Path | None = None,
    session: SparkSession | None = None,
    credentials: str | Path | None = None,
) -> AuditReport:
    """Audit what was landed; with `out`, write the tables and a page into that directory.

    `sources` are directories landed into, and queues that explain what is missing there:
    `dray://host:port/orders`, `.../journal:orders`, `.../deadletter:`, or pairs of address and
    queue. No landing may work in the directories meanwhile. Nothing is taken from a queue.
    `credentials` is the file of that name, as for `land`.

    Raises `InvalidConfiguration` for a source that is none, and the error of a manager.
    """
    from dray.spark.auditing.sources import read_sources

    given = read_sources(sources)
    urls = ",".join(each.url for each in given.queues)
    given = given._replace(credentials=credentials_named(credentials, urls))
    if session is not None:
        return _audit(session, given, out)
    with spark_session(name="dray audit") as spark:
        return _audit(spark, given, out)


def _audit(spark: SparkSession, given: AuditSources, out: str | Path | None) -> AuditReport:
    from pyspark.errors import PySparkException

    from dray.spark.auditing.checks import find_all
    from dray.spark.auditing.measures import hours_of, streams_of
    from dray.spark.auditing.report import AuditReport
    from dray.spark.source.data_source import DraySource

    spark.dataSource.register(DraySource)
    try:
        report = AuditReport(
            find_all(spark, given), hours_of(spark, given), streams_of(spark, given)
        )
    except PySparkException as error:
        raise plainly(error) from error
    if out is not None:
        report.write(out)
    return report
