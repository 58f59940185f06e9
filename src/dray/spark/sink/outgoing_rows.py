"""Rows on their way into queues, and the digest of a batch that does not depend on their order.

The digest of a row is that of its queue, properties and body; of a file, of its size and digest.
The digest of a batch is the sum of those, modulo 2^256: the same for any order of the rows and any
division into tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec
from blake3 import blake3

from dray.client.blocking.large import LargeMessageQueue
from dray.errors import InvalidConfiguration, SourceUnreadable

if TYPE_CHECKING:
    import pyarrow as pa

    from dray.client.blocking.manager import Manager
    from dray.client.blocking.queue import Queue
    from dray.client.blocking.transaction import Transaction

_MODULUS = 1 << 256
_READ_BYTES = 1 << 20
_APP_SPECIFIC_LIMIT = 1 << 31
_encode = msgspec.msgpack.Encoder().encode


class OutgoingRow(NamedTuple):
    """One row: a body, or the path of a file."""

    queue: str
    body: bytes | None
    path: str | None
    properties: dict[str, Any]


class RowSender:
    """Sends the rows of one task in a transaction, and adds up their digests."""

    def __init__(self, manager: Manager, transaction: Transaction) -> None:
        """Begin with nothing sent."""
        self._manager = manager
        self._transaction = transaction
        self._queues: dict[str, Queue] = {}
        self._digests = 0
        self.count = 0

    @property
    def digest(self) -> bytes:
        """The sum of the digests of all rows so far."""
        return self._digests.to_bytes(32, "big")

    def send(self, row: OutgoingRow) -> None:
        """Send one row. Raises what the queue manager refuses it with, sooner or later."""
        queue = self._queues.get(row.queue)
        if queue is None:
            queue = self._queues[row.queue] = self._manager.queue(row.queue)
        if row.path is not None:
            content = _HashedFile(row.path)
            large = LargeMessageQueue(queue)
            large.send(content.pieces(), transaction=self._transaction, **row.properties)
            told: tuple[object, ...] = ("file", content.size, content.digest)
        else:
            assert row.body is not None
            queue.send(row.body, transaction=self._transaction, **row.properties)
            told = ("body", row.body)
        properties = row.properties
        digest = blake3(
            _encode(
                (
                    row.queue,
                    properties.get("label", ""),
                    properties.get("correlation_id"),
                    properties.get("app_specific", 0),
                    told,
                )
            )
        ).digest()
        self._digests = (self._digests + int.from_bytes(digest, "big")) % _MODULUS
        self.count += 1


class _HashedFile:
    """A file that is read once, in pieces, and hashed meanwhile."""

    def __init__(self, path: str) -> None:
        self._path = _file_named(path)
        self._hash = blake3()
        self.size = 0

    @property
    def digest(self) -> bytes:
        return self._hash.digest()

    def pieces(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                while piece := file.read(_READ_BYTES):
                    self._hash.update(piece)
                    self.size += len(piece)
                    yield piece
        except (OSError, ValueError) as error:
            # A path with a null character is a ValueError.
            why = getattr(error, "strerror", None) or error
            raise SourceUnreadable(
                f"cannot read {self._path}, which the column path names: {why};"
                " use a directory that all executors share"
            ) from error


def _file_named(path: str) -> Path:
    """The file of a path or a `file:` URL; columns of Spark have URLs with and without escapes."""
    if not path.startswith("file:/"):
        return Path(path)
    plain = Path("/" + path.removeprefix("file:").lstrip("/"))
    meant = Path(unquote(str(plain)))
    if plain == meant or not plain.exists():
        return meant
    if meant.exists():
        raise SourceUnreadable(
            f"the column path has {path}, which may be {plain} or {meant}; give the path without"
            " file:, or rename one of these files"
        )
    return plain


def add_digests(digests: Iterable[bytes]) -> bytes:
    """The digest of a batch, of those of its tasks."""
    total = sum(int.from_bytes(each, "big") for each in digests) % _MODULUS
    return total.to_bytes(32, "big")


def outgoing_rows(batch: pa.RecordBatch, default_queue: str) -> Iterator[OutgoingRow]:
    """The rows of a record batch; raises `InvalidConfiguration` for one that is no message."""
    names = batch.schema.names
    columns = [_values(*named) for named in zip(names, batch.columns, strict=True)]
    for values in zip(*columns, strict=True):
        row = dict(zip(names, values, strict=True))
        body, path = row.pop("body", None), row.pop("path", None)
        if (body is None) == (path is None):
            raise InvalidConfiguration(
                "a row for format('dray') has either a body or a path, and this one has"
                f" {'neither' if body is None else 'both'}; filter such rows out"
            )
        queue = row.pop("queue", None) or default_queue
        if not queue:
            raise InvalidConfiguration(
                "a row has no value in the column queue, and there is no option queue; give one"
            )
        number = row.get("app_specific")
        if number is not None and not -_APP_SPECIFIC_LIMIT <= number < _APP_SPECIFIC_LIMIT:
            raise InvalidConfiguration(f"app_specific is a 32-bit number, and {number} is not")
        given = {name: value for name, value in row.items() if value is not None}
        yield OutgoingRow(queue, body, path, given)


def _values(name: str, column: pa.Array) -> list[Any]:
    """The values of a column. A body is bytes: Spark's text may be no UTF-8."""
    import pyarrow as pa

    if name == "body" and not pa.types.is_null(column.type):
        column = column.cast(pa.large_binary())
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError as error:
        raise InvalidConfiguration(
            f"the column {name} has a text that is no UTF-8 ({error}); only a body may have such"
            " bytes"
        ) from error
