"""Filters of a batch query that spare reading: on queue, queue manager and position.

Spark gives filters to a source only with `spark.sql.python.filterPushdown.enabled`, in a worker of
its own, and refuses a reader that would take some without it. Spark does not apply a filter that
the source takes, so the source takes only filters that ranges express exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from dray.spark.positions import Range, ranges_of
from dray.spark.source.offsets import QueueSpan

_POSITION_MAX = (1 << 63) - 1
_RANGES_MAX = 1_000
"""Each range is read by itself; with more of them, reading everything and filtering is faster."""
_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class WantedRows(NamedTuple):
    """The rows that no filter excludes; None is no restriction."""

    queues: frozenset[str] | None = None
    manager_ids: frozenset[str] | None = None
    positions: tuple[Range, ...] = ((1, _POSITION_MAX),)

    def narrowed(self, wanted: Filter, position_column: str) -> WantedRows | None:
        """The same with one more filter, or None if ranges of queues cannot express it."""
        if not isinstance(wanted, (EqualTo, In, *_COMPARISONS)):
            return None
        match wanted.attribute, wanted:
            case ("queue",), EqualTo() | In():
                return self._replace(queues=_both(self.queues, _values(wanted)))
            case ("manager_id",), EqualTo() | In():
                return self._replace(manager_ids=_both(self.manager_ids, _values(wanted)))
            case (column,), _ if column == position_column:
                ranges = _ranges(wanted)
                return None if ranges is None else self._at(ranges)
            case _:
                return None

    def within(self, span: QueueSpan) -> Iterator[QueueSpan]:
        """The wanted parts of a range."""
        if self.queues is not None and span.queue not in self.queues:
            return
        if self.manager_ids is not None and span.manager_id not in self.manager_ids:
            return
        for first, last in self.positions:
            after, upto = max(span.after, first - 1), min(span.upto, last)
            if upto > after:
                yield span._replace(after=after, upto=upto)

    def _at(self, ranges: list[Range]) -> WantedRows | None:
        both = [
            (max(first, begin), min(last, end))
            for first, last in self.positions
            for begin, end in ranges
            if max(first, begin) <= min(last, end)
        ]
        return self._replace(positions=tuple(both)) if len(both) <= _RANGES_MAX else None


EVERYTHING = WantedRows()
_COMPARISONS = (LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)


def is_asked_for_filters() -> bool:
    """Whether this process is the worker in which Spark gives filters to a source."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or (main is not None and main.name == _WORKER)


def position_column(content: str) -> str:
    """The column with the position of a row in its queue."""
    return "first_lookup_id" if content == "large" else "lookup_id"


def _values(wanted: EqualTo | In) -> frozenset[object]:
    return frozenset([wanted.value] if isinstance(wanted, EqualTo) else wanted.value)


def _both(before: frozenset[str] | None, values: frozenset[object]) -> frozenset[str]:
    texts = frozenset(value for value in values if isinstance(value, str))
    return texts if before is None else before & texts


def _ranges(wanted: Filter) -> list[Range] | None:
    match wanted:
        case EqualTo(_, int(value)):
            return [(value, value)]
        case In(_, values) if all(isinstance(value, int) for value in values):
            return ranges_of(values)
        case LessThan(_, int(value)):
            return [(1, value - 1)]
        case LessThanOrEqual(_, int(value)):
            return [(1, value)]
        case GreaterThan(_, int(value)):
            return [(value + 1, _POSITION_MAX)]
        case GreaterThanOrEqual(_, int(value)):
            return [(value, _POSITION_MAX)]
        case _:
            return None
