"""Messages of a range as Arrow columns, from the bytes of an answer, without an object a row.

    rows  (`RANGE_ROW`)  -> numpy -> positions, times, marks       as they are
    body  (records)      -> numpy -> headers, 64 bytes of each     ids, sizes
                         -> one copy of all bodies, behind their checksums

Only properties, which few messages have, are read one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dray.errors import ProtocolError
from dray.spark.schema import MESSAGES, spark_arrow
from dray.wire.message_frames import FOLLOWING_MAX, MARK_FIRST, MARK_LARGE, MARK_LAST
from dray.wire.range_frames import RANGE_ROW, ROW_ORDINAL_BITS
from dray.wire.record import HEADER_BYTES, MAGIC, VERSION, read_header, read_properties

if TYPE_CHECKING:
    from dray.spark.source.offsets import QueuePlace
    from dray.wire.range_frames import RangeRead

_ROW = np.dtype(
    [
        ("lookup_id", "<i8"), ("transaction", "<u8"), ("sent", "<i8"), ("arrived", "<i8"),
        ("length", "<u4"), ("crc", "<u4"), ("given", "<u4"), ("place", "<u4"),
        ("message_class", "<u2"), ("marks", "u1"), ("zero", "V1"),
    ]
)  # fmt: skip
_HEADER = np.dtype(
    [
        ("magic", "S4"), ("version", "u1"), ("part", "u1"), ("priority", "u1"), ("flags", "u1"),
        ("properties", "<u4"), ("body", "<u4"), ("source", "<u8", 2), ("number", "<u8"),
        ("app_specific", "<i4"), ("rest", "V20"),
    ]
)  # fmt: skip
assert _ROW.itemsize == RANGE_ROW.size
assert _HEADER.itemsize == HEADER_BYTES
_ORDINAL_MASK = (1 << ROW_ORDINAL_BITS) - 1
_TIME = pa.timestamp("us", tz="UTC")
_ID_SEPARATOR = "\\"


class MessageColumns:
    """The messages of one answer."""

    def __init__(self, answer: RangeRead, body: memoryview, *, whole: bool) -> None:
        """Check that the records are those that the rows tell of; `whole` if with their bodies.

        Raises `ProtocolError` if they are not.
        """
        self.rows: np.ndarray[Any, Any] = np.frombuffer(answer.rows, _ROW)
        self._body = body
        self._whole = whole
        given = self.rows["given"].astype(np.int64)
        ends = np.cumsum(given)
        self._starts = ends - given
        bytes_given = int(ends[-1]) if len(ends) else 0
        if bytes_given != len(body) or (given < HEADER_BYTES).any():
            raise ProtocolError("the records in an answer do not match its rows")
        raw = np.frombuffer(body, np.uint8)
        if len(given) and (given == given[0]).all():
            header_bytes = np.ascontiguousarray(raw.reshape(len(given), -1)[:, :HEADER_BYTES])
        else:
            header_bytes = raw[self._starts[:, None] + np.arange(HEADER_BYTES)]
        self.headers: np.ndarray[Any, Any] = header_bytes.reshape(-1).view(_HEADER)
        properties = self.headers["properties"].astype(np.int64)
        self._begins = self._starts + HEADER_BYTES + properties
        self.body_sizes = self.headers["body"].astype(np.int64)
        sizes = HEADER_BYTES + properties + self.body_sizes
        told = sizes if whole else sizes - self.body_sizes
        if (
            (self.headers["magic"] != MAGIC).any()
            or (self.headers["version"] != VERSION).any()
            or (sizes != self.rows["length"]).any()
            or (told != given).any()
        ):
            raise ProtocolError("a message record does not fill its place")
        if whole:
            self._check_sums(ends)

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.rows)

    @property
    def last(self) -> int:
        """The position of the last one."""
        return int(self.rows["lookup_id"][-1])

    def batch(self, place: QueuePlace) -> pa.RecordBatch:
        """The columns of `schema.MESSAGES`."""
        sources = self._sources()
        columns = {
            **self._place(place),
            **self._properties(),
            **self._transactions(sources),
            "lookup_id": self.rows["lookup_id"],
            "id": _ids(sources, pa.array(self.headers["number"])),
            "body": self._bodies(),
            "body_size": self.body_sizes,
            "priority": np.where(self.rows["transaction"], 0, self.headers["priority"]),
            "message_class": self.rows["message_class"],
            "app_specific": self.headers["app_specific"],
            "source": sources,
            "sent_time": pa.array(self.rows["sent"]).cast(_TIME),
            "arrived_time": pa.array(self.rows["arrived"]).cast(_TIME),
        }
        schema = spark_arrow(MESSAGES)
        arrays = [_column(columns[field.name], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _check_sums(self, ends: np.ndarray[Any, Any]) -> None:
        body, crc_of = self._body, crc32c.crc32c
        found = [
            crc_of(body[start:end])
            for start, end in zip(self._starts.tolist(), ends.tolist(), strict=True)
        ]
        if (np.array(found, np.uint32) != self.rows["crc"]).any():
            raise ProtocolError(
                "a message was damaged in the store or in transit: its CRC32C does not match"
            )

    def _place(self, place: QueuePlace) -> dict[str, pa.Array]:
        told = {
            "manager": place.url,
            "manager_id": place.manager_id,
            "queue": place.queue,
            "queue_born": place.born,
        }
        return {name: pa.repeat(value, len(self)) for name, value in told.items()}

    def _properties(self) -> dict[str, pa.Array]:
        count = len(self)
        having = np.flatnonzero(self.headers["properties"]).tolist()
        if not having:
            none = pa.nulls(count, pa.string())
            return {"label": pa.repeat("", count), "correlation_id": none}
        labels: list[str] = [""] * count
        correlations: list[str | None] = [None] * count
        for at in having:
            start = int(self._starts[at])
            properties = read_properties(self._body, read_header(self._body, start), start)
            labels[at], correlations[at] = properties.label, properties.correlation_id
        return {
            "label": pa.array(labels, pa.string()),
            "correlation_id": pa.array(correlations, pa.string()),
        }

    def _transactions(self, sources: pa.Array) -> dict[str, pa.Array]:
        rows = self.rows
        outside = rows["transaction"] == 0
        ordinal = (rows["place"] & _ORDINAL_MASK).astype(np.int32)
        following = (rows["place"] >> ROW_ORDINAL_BITS).astype(np.int32)
        unknown = outside | (ordinal == 0) | (following >= FOLLOWING_MAX)
        has_large = rows["marks"] & MARK_LARGE != 0
        size = np.where(has_large, following, ordinal + following)
        return {
            "transaction_id": self._transaction_ids(sources, outside),
            "transaction_size": pa.array(size, mask=unknown),
            "position_in_transaction": pa.array(ordinal, mask=outside),
            "first_in_transaction": pa.array(rows["marks"] & MARK_FIRST != 0),
            "last_in_transaction": pa.array(rows["marks"] & MARK_LAST != 0),
        }

    def _transaction_ids(self, sources: pa.Array, outside: np.ndarray[Any, Any]) -> pa.Array:
        """One text for neighbours of one transaction, since most of them have many."""
        numbers, pairs = self.rows["transaction"], self.headers["source"]
        begins = np.ones(len(self), bool)
        begins[1:] = (numbers[1:] != numbers[:-1]) | (pairs[1:] != pairs[:-1]).any(axis=1)
        first = pa.array(np.flatnonzero(begins))
        ids = _ids(sources.take(first), pa.array(numbers, mask=outside).take(first))
        return ids.take(pa.array(np.cumsum(begins) - 1))

    def _sources(self) -> pa.Array:
        """The manager id of each source, as text."""
        pairs = self.headers["source"]
        if (pairs == pairs[:1]).all():
            return pa.repeat(pairs[0].tobytes().hex(), len(self))
        unique, which = np.unique(pairs, axis=0, return_inverse=True)
        names = pa.array([each.tobytes().hex() for each in unique])
        return names.take(pa.array(which.reshape(-1)))

    def _bodies(self) -> pa.Array:
        if not self._whole:
            return pa.nulls(len(self), pa.binary())
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(self.body_sizes, out=offsets[1:])
        data = self._even_bodies() if len(self) else b""
        if data is None:
            ends = (self._begins + self.body_sizes).tolist()
            body = self._body
            data = b"".join(
                [body[start:end] for start, end in zip(self._begins.tolist(), ends, strict=True)]
            )
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)

    def _even_bodies(self) -> Any:
        """All bodies in one copy, if each record has the same form; else None."""
        width, skipped = int(self.rows["given"][0]), int(self._begins[0])
        sizes = self.body_sizes
        even = (self.rows["given"] == width).all() and (sizes == sizes[0]).all()
        if not even:
            return None
        records = np.frombuffer(self._body, np.uint8).reshape(len(self), width)
        return np.ascontiguousarray(records[:, skipped:])


def _ids(sources: pa.Array, numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(sources, numbers.cast(pa.string()), _ID_SEPARATOR)


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    found = values if isinstance(values, pa.Array) else pa.array(values)
    return found if found.type == kind else found.cast(kind)
