"""The rows that an audit compares, from directories landed into and from queues.

A source is a directory that a landing wrote, or the URL of a queue: `dray://host:port/orders`, also
`.../journal:orders` and `.../deadletter:`; for a socket the pair of its URL and the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from dray.errors import InvalidConfiguration
from dray.spark.landing.places import payloads_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Given = str | Path | tuple[str, str]
"""One source, as callers name it."""


class QueueSource(NamedTuple):
    """Queues of a manager."""

    url: str
    queue: str

    def __str__(self) -> str:
        return f"{self.url}/{self.queue}"

    @property
    def is_elsewhere(self) -> bool:
        """Whether it holds messages that have left their queue: a journal, dead letters."""
        return self.queue.startswith("journal:") or self.queue == "deadletter:"


class AuditSources(NamedTuple):
    """All sources of one audit."""

    directories: tuple[Path, ...] = ()
    queues: tuple[QueueSource, ...] = ()
    credentials: str | None = None
    """The file for the connections to the queue managers."""


def read_sources(given: Given | Sequence[Given]) -> AuditSources:
    """Tell directories from queues; raises `InvalidConfiguration`."""
    several = [given] if isinstance(given, (str, Path)) or _is_pair(given) else given
    directories: list[Path] = []
    queues: list[QueueSource] = []
    for each in several:
        if isinstance(each, tuple):
            queues.append(QueueSource(*each))
        elif "://" in str(each):
            url, _, queue = str(each).rpartition("/")
            if url.endswith("/") or not queue or url.startswith("dray+unix"):
                raise InvalidConfiguration(
                    f"{each} names no queue; write dray://host:port/orders, or the pair of the"
                    " address and the queue"
                )
            queues.append(QueueSource(url, queue))
        else:
            directories.append(_landed(Path(each)))
    if not directories:
        raise InvalidConfiguration(
            "an audit needs a directory that a landing wrote; queues, journals and dead letters"
            " only explain what is missing there"
        )
    return AuditSources(tuple(directories), tuple(queues))


def landed_rows(spark: SparkSession, sources: AuditSources) -> DataFrame:
    """All rows of the landed tables, with their table and the path of their payload."""
    from pyspark.sql import functions as f

    return _union(
        [
            _known(spark.read.parquet(*_files_of(directory / "table")))
            .withColumn("origin", f.lit(str(directory)))
            .withColumn(
                "path",
                f.concat(f.lit(f"{payloads_of(directory.absolute()).folder}/"), f.col("payload")),
            )
            for directory in sources.directories
        ]
    )


def _files_of(table: Path) -> list[str]:
    """The files of a table; beside those of a Delta table there may be some of no commit."""
    if not (table / "_delta_log").exists():
        # One generation, should somebody compact the table meanwhile.
        return [str(table.resolve())]
    from dray.spark.landing.delta import files_of

    return [str(path) for path in files_of(table.absolute())]


def waiting_positions(spark: SparkSession, sources: AuditSources) -> DataFrame | None:
    """The position of each message that is still in a queue: one row a position."""
    frames = [
        _read(spark, sources, each, "messages").select(
            "manager_id", "queue", "queue_born", "lookup_id", "transaction_id"
        )
        for each in sources.queues
        if not each.is_elsewhere
    ]
    return _union(frames) if frames else None


def left_messages(spark: SparkSession, sources: AuditSources) -> DataFrame | None:
    """Messages that are in a journal or a dead-letter queue, and how many positions each took."""
    from pyspark.sql import functions as f

    found: list[DataFrame] = []
    for each in sources.queues:
        if not each.is_elsewhere:
            continue
        large = _read(spark, sources, each, "large").withColumn(
            "positions", f.col("fragment_count") + 2
        )
        large = large.withColumnRenamed("sequence_id", "id")
        positions = f.explode(f.sequence(f.col("range")[0], f.col("range")[1]))
        parts = large.select("queue", f.explode("lookup_ranges").alias("range"))
        single = _read(spark, sources, each, "messages").join(
            parts.select("queue", positions.alias("lookup_id")), ["queue", "lookup_id"], "left_anti"
        )
        found += [
            large.withColumn("message_class", f.lit(0)),
            single.withColumn("positions", f.lit(1)),
        ]
    columns = ["manager_id", "queue", "id", "transaction_id", "positions", "message_class"]
    return _union([frame.select(*columns) for frame in found]) if found else None


def _read(
    spark: SparkSession, sources: AuditSources, source: QueueSource, content: str
) -> DataFrame:
    reader = spark.read.format("dray").option("url", source.url).option("queue", source.queue)
    if sources.credentials is not None:
        reader = reader.option("credentials", sources.credentials)
    reader = reader.option("content", content)
    return (reader.option("bodies", "reference") if content == "messages" else reader).load()


def _known(rows: DataFrame) -> DataFrame:
    """The rows with a size of each transaction, which older tables do not have."""
    from pyspark.sql import functions as f

    if "transaction_size" in rows.columns:
        return rows
    return rows.withColumn("transaction_size", f.lit(None).cast("int"))


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda first, second: first.unionByName(second), frames)


def _landed(directory: Path) -> Path:
    if not any((directory / "table").glob("*.parquet")):
        raise InvalidConfiguration(
            f"{directory} has no table of a landing; name the directory that the landing wrote"
            " into, or a queue as dray://host:port/orders"
        )
    return directory


def _is_pair(given: Given | Sequence[Given]) -> TypeGuard[tuple[str, str]]:
    """Whether this is one address with its queue, and no two sources."""
    if not isinstance(given, tuple) or len(given) != 2:  # noqa: PLR2004 - address and queue
        return False
    url, queue = map(str, given)
    return "://" in url and "://" not in queue and not Path(queue).is_dir()


def number_of(identity: Column) -> Column:
    """The number in a message id or sequence id: its source draws them in rising order."""
    from pyspark.sql import functions as f

    return f.substring_index(identity, "\\", -1).cast("bigint")
