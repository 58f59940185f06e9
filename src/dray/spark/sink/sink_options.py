"""The options and columns of `format("dray")` for writing, checked before any row moves.

url         the queue manager, one
queue       the queue for rows without a value in the column `queue`
query_id    the name of the query; a stream has the id of its checkpoint by default
batch_id    of `df.write`, with query_id: the number of the batch, which never goes back
credentials the file with certificate and key, as for reading

body        bytes or text of a message            label, correlation_id    text
path        a file that is sent as a large one    app_specific             a 32-bit number
queue       the queue of the row
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dray.errors import InvalidConfiguration
from dray.model.arguments import shown
from dray.model.limits import QUERY_ID_CHARACTERS_MAX
from dray.model.names import REQUEST_KEY, UNNAMED_WRITE
from dray.model.words import whole_number
from dray.net.doors import default_url

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OPTIONS = ("url", "queue", "query_id", "batch_id", "credentials")
_OF_SPARK = ("checkpointlocation", "queryname")
"""Options of the stream that Spark hands on to its sink."""
_TEXT = ("string", "varchar", "char")
_COLUMNS = {
    "body": ("binary", *_TEXT),
    "path": _TEXT,
    "label": _TEXT,
    "correlation_id": _TEXT,
    "app_specific": ("tinyint", "smallint", "int", "bigint"),
    "queue": _TEXT,
}


class SinkOptions(NamedTuple):
    """Options of a writer. `query_id` is empty if Spark's is to be taken."""

    url: str
    queue: str
    query_id: str
    batch_id: int | None
    credentials: str | None = None


def read_sink_options(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, stream: bool
) -> SinkOptions:
    """Read what stands in `.option(...)`, and check the columns; raises `InvalidConfiguration`."""
    by_key = {key.lower(): value for key, value in given.items()}
    for key in by_key:
        if key not in _OPTIONS and key not in _OF_SPARK:
            raise InvalidConfiguration(
                f"format('dray') has no option {key!r} for writing; it has {', '.join(_OPTIONS)}"
            )
    if overwrite:
        raise InvalidConfiguration(
            "format('dray') only adds messages to queues; use mode('append'), or"
            " outputMode('append') of a stream"
        )
    url = by_key.get("url", default_url()).strip()
    if not url or "," in url:
        raise InvalidConfiguration(
            "format('dray') writes to one queue manager; give its address with the option url"
            " (dray://localhost:7340), or leave it out to use that of this account"
        )
    options = SinkOptions(
        url,
        by_key.get("queue", "").strip(),
        by_key.get("query_id", ""),
        _batch_id(by_key),
        by_key.get("credentials"),
    )
    if stream and options.batch_id is not None:
        raise InvalidConfiguration(
            "a stream has batch ids of its own; leave out the option batch_id"
        )
    if not stream and bool(options.query_id) != (options.batch_id is not None):
        raise InvalidConfiguration(
            "df.write knows a batch by query_id and batch_id together; give both options or none"
        )
    if len(options.query_id) > QUERY_ID_CHARACTERS_MAX:
        raise InvalidConfiguration(
            f"query_id has {len(options.query_id):,} characters, and"
            f" {QUERY_ID_CHARACTERS_MAX} are the most; choose a shorter one"
        )
    if options.query_id.startswith((UNNAMED_WRITE, REQUEST_KEY)):
        raise InvalidConfiguration(
            f"query_id is {shown(options.query_id)}; names that begin with {UNNAMED_WRITE!r} or"
            f" {REQUEST_KEY!r} are of writes and requests without a query, so choose another one"
        )
    _check_columns(schema, options)
    return options


def _batch_id(by_key: Mapping[str, str]) -> int | None:
    given = by_key.get("batch_id")
    if given is None:
        return None
    number = whole_number(given)
    if number is None:
        raise InvalidConfiguration(
            f"batch_id must be a number from 0 on, of at most 18 digits, not {shown(given)}"
        )
    return number


def _check_columns(schema: StructType, options: SinkOptions) -> None:
    names = [field.name for field in schema.fields]
    for field in schema.fields:
        kind = field.dataType.simpleString().partition("(")[0]
        if field.name not in _COLUMNS:
            raise InvalidConfiguration(
                f"format('dray') cannot write the column {field.name!r}; it takes"
                f" {', '.join(_COLUMNS)}: select these, and put everything else into the body"
            )
        if kind not in _COLUMNS[field.name]:
            raise InvalidConfiguration(
                f"the column {field.name!r} is of type {kind}, and must be"
                f" {' or '.join(_COLUMNS[field.name])}; cast it"
            )
    if "body" not in names and "path" not in names:
        raise InvalidConfiguration(
            "format('dray') writes the column body, or the files in the column path; select one of"
            " them"
        )
    if "queue" not in names and not options.queue:
        raise InvalidConfiguration(
            "writing with format('dray') needs the option queue, or a column of that name"
        )
