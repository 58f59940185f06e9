"""The streams that a landing reads, by what it is to land, and what stays in the queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, NamedTuple

from dray.client.connections.address import parse_address
from dray.errors import InvalidConfiguration
from dray.model.limits import MIB
from dray.model.words import counted
from dray.spark.source.options import RANGES, names_in, read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dray.spark.source.catalogue import Catalogue

KINDS = ("auto", "large", "messages")
"""The kinds of messages that a landing can be limited to."""
PIECES_FROM_BYTES = 256 * MIB
"""A shorter message takes one task a second or two, which is what another task costs to begin."""
_LARGE_PER_BATCH = 5_000
_MESSAGES_PER_BATCH = 200_000
_MESSAGE_BYTES_PER_BATCH = 256 * MIB
"""Small messages of one micro-batch: the driver holds their bodies while it writes the commit."""


COMMIT_EVERY_S = 10.0
"""Between two commits of a landing that follows a queue: few enough files, and rows soon enough."""


class BatchLimits(NamedTuple):
    """The most of each kind that one micro-batch takes; without rows, what fits the kind.

    One that has less than half of that waits until `every_s` seconds after the one before.
    """

    rows: int | None
    bytes: int
    every_s: float = 0.0
    cuts: bool = False
    """Whether several tasks pull a long message."""


def streams(
    spark: SparkSession,
    contents: tuple[str, ...],
    options: Mapping[str, str],
    limits: BatchLimits,
) -> DataFrame:
    """The rows of all contents, each with its own offsets, in one query."""
    from dray.spark.source.data_source import DraySource

    spark.dataSource.register(DraySource)
    found: DataFrame | None = None
    for content in contents:
        rows_max, bytes_max = _LARGE_PER_BATCH, limits.bytes
        if content == RANGES:
            rows_max = _MESSAGES_PER_BATCH
            bytes_max = min(limits.bytes, _MESSAGE_BYTES_PER_BATCH)
        told = {
            **options,
            "content": content,
            "maxOffsetsPerTrigger": str(limits.rows or rows_max),
            "maxBytesPerTrigger": str(bytes_max),
            "minPartitions": str(2 * spark.sparkContext.defaultParallelism),
            "markTaken": "true",
        }
        if limits.cuts:
            told["pieceBytes"] = str(PIECES_FROM_BYTES)
        if limits.every_s:
            told["commitEvery"] = f"{max(1, round(limits.every_s * 1000))}ms"
        rows = spark.readStream.format("dray").options(**told).load()
        found = rows if found is None else found.union(rows)
    assert found is not None
    return found


def told_options(
    url: str, queue: str, credentials: str | None, *, fail: bool, accept: bool
) -> dict[str, str]:
    """The options of the source that both kinds share; raises `InvalidConfiguration`."""
    for name, given in (("url", url), ("queue", queue)):
        if not names_in(given):
            raise InvalidConfiguration(f"{name} is {given!r}, which names none")
    for each in names_in(url):
        parse_address(each)
    named = {} if credentials is None else {"credentials": credentials}
    return {
        "url": url,
        "queue": queue,
        **named,
        "failOnDataLoss": str(fail).lower(),
        "acceptNewQueue": str(accept).lower(),
    }


def between_commits(seconds: float, idle_s: float | None) -> float:
    """The wait of a micro-batch: shorter than the time after which an idle landing ends."""
    return seconds if idle_s is None else min(seconds, idle_s / 2)


def contents_of(as_: str) -> tuple[str, ...]:
    """The contents of `format("dray")` that make a landing; raises `InvalidConfiguration`."""
    if as_ not in KINDS:
        raise InvalidConfiguration(f"as_ is {as_!r}; it can be {' or '.join(KINDS)}")
    return {"auto": ("large", RANGES), "large": ("large",), "messages": (RANGES,)}[as_]


def looked_at(
    url: str, queue: str, credentials: str | None = None
) -> AbstractContextManager[Catalogue]:
    """The queues of a landing that has run, from a connection of the driver's own."""
    from dray.spark.source.catalogue import Catalogue

    options = told_options(url, queue, credentials, fail=False, accept=False)
    return closing(Catalogue(read_options(options), begun=True))


def what_is_left(catalogue: Catalogue, as_: str) -> Iterator[tuple[int, str]]:
    """Say what is in the queues that this landing does not take, and how many messages it is."""
    for place, large, plain, held in catalogue.what_stays():
        where = f"queue {place.queue!r} at {place.url} has"
        stay = " that this landing leaves there; land with --as auto, or receive"
        if plain and as_ == "large":
            yield plain, f"{where} {counted(plain, 'plain message')}{stay}"
        if large and as_ == "messages":
            yield large, f"{where} {counted(large, 'large message')}{stay}"
        if held:
            later = "land again when it has committed or aborted"
            yield held, f"{where} {counted(held)} that a receiver holds; {later}"
