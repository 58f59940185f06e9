"""The columns of `format("dray")` and of the table of what was landed.

`queue_born` is the birth number of the queue in which a row was read. `transaction_size` is how
many messages, or large messages, its transaction sent to the queue; null if that is not known.
`lookup_ranges` are the positions that a large message's parts take in its queue, as [first, last];
`missing` names what is not there, as "3-5" (fragment numbers), "header" or "trailer".
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIME = pa.timestamp("us", tz="UTC")
_RANGES = pa.list_(pa.list_(pa.int64()))

_PLACE: list[tuple[str, pa.DataType]] = [
    ("manager", pa.string()),
    ("manager_id", pa.string()),
    ("queue", pa.string()),
    ("queue_born", pa.int64()),
]
_SENDER: list[tuple[str, pa.DataType]] = [
    ("app_specific", pa.int32()),
    ("correlation_id", pa.string()),
    ("transaction_id", pa.string()),
    ("transaction_size", pa.int32()),
    ("source", pa.string()),
    ("sent_time", _TIME),
    ("arrived_time", _TIME),
]

LARGE = pa.schema(
    [
        *_PLACE,
        ("first_lookup_id", pa.int64()),
        ("last_lookup_id", pa.int64()),
        ("lookup_ranges", _RANGES),
        ("sequence_id", pa.string()),
        ("label", pa.string()),
        ("size", pa.int64()),
        ("digest", pa.string()),
        ("digest_kind", pa.string()),
        ("fragment_count", pa.int32()),
        ("fragments_present", pa.int32()),
        ("missing", pa.list_(pa.string())),
        *_SENDER,
    ]
)

MESSAGES = pa.schema(
    [
        *_PLACE,
        ("lookup_id", pa.int64()),
        ("id", pa.string()),
        ("label", pa.string()),
        ("body", pa.binary()),
        ("body_size", pa.int64()),
        ("priority", pa.int32()),
        ("message_class", pa.int32()),
        ("position_in_transaction", pa.int32()),
        ("first_in_transaction", pa.bool_()),
        ("last_in_transaction", pa.bool_()),
        *_SENDER,
    ]
)

_PIECES: list[tuple[str, pa.DataType]] = [("piece", pa.int32()), ("pieces", pa.int32())]

CUT = pa.schema([*LARGE, *_PIECES])
"""For landings: a long message has a row for each task that pulls a piece of it, else null."""

PULLED = pa.schema(
    [
        *CUT,
        ("state", pa.string()),
        ("payload", pa.string()),
        ("etag", pa.string()),
        ("landed_time", _TIME),
    ]
)
"""A result of the executors: the row, and the outcome of its payload."""

PIECE = "piece"
"""The state of a piece of a large message whose other pieces are not all there yet."""

UNREADABLE = "unreadable"
"""The state of what only a newer program can read; it does not enter the table."""

TAKEN = "taken"
"""The state of a large message that somebody took while it was landed; it is not in the table."""

RANGE = "range"
"""The state of a row that stands for a range of small messages, in an Arrow file of their own."""

LANDED = pa.schema(
    [
        *LARGE,
        ("priority", pa.int32()),
        ("message_class", pa.int32()),
        ("body", pa.binary()),
        ("position_in_transaction", pa.int32()),
        ("state", pa.string()),
        ("payload", pa.string()),
        ("landed_time", _TIME),
    ]
)
"""The table. `state` is "landed" or "hole". A large message has a `payload`, relative to the
directory landed into; a small one has a `body`."""


def schema_for(content: str, *, cut: bool = False) -> pa.Schema:
    """The columns that a reader of `content` gives; `cut` if it cuts long messages."""
    if content == "messages":
        return MESSAGES
    return CUT if cut else LARGE


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns in Spark's terms."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


@cache
def spark_arrow(schema: pa.Schema) -> pa.Schema:
    """The same columns as Spark wants them back: its own spelling of nested fields."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark_schema(schema), timezone="UTC")


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one record batch that Spark takes."""
    return pa.RecordBatch.from_pylist(rows, schema=spark_arrow(schema))
