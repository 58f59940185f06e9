"""Dray on Spark: `format("dray")` reads and writes queues, and `land` makes files and a table.

Rows carry what is known of payloads and where they are; executors pull the bytes from their queue
manager straight into files. Heavy bytes cross no shuffle and never have to fit in memory.
"""

import dray.spark.extra  # noqa: F401 - before all that needs the packages

# isort: split

from dray.spark.auditing.audit import audit
from dray.spark.auditing.report import AuditReport
from dray.spark.java import Java, find_java
from dray.spark.landing.compact import FILE_SIZE, CompactionSummary, compact
from dray.spark.landing.landing import BYTES_PER_BATCH, land
from dray.spark.landing.query import Until
from dray.spark.landing.summary import HoleLanded, LandingSummary
from dray.spark.payloads import open_payload
from dray.spark.session import spark_session
from dray.spark.settle_batches import settling
from dray.spark.source.registration import register

__all__ = [
    "BYTES_PER_BATCH",
    "FILE_SIZE",
    "AuditReport",
    "CompactionSummary",
    "HoleLanded",
    "Java",
    "LandingSummary",
    "Until",
    "audit",
    "compact",
    "find_java",
    "land",
    "open_payload",
    "register",
    "settling",
    "spark_session",
]
