"""The work of executors: pull the payload of each row from its manager into its file.

Runs in Spark's Python workers, inside `mapInArrow`: rows of `schema.LARGE` in, rows of
`schema.PULLED` out. The payload never enters a row. A task that runs again finds what it had
finished and keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from dray.errors import MessageNotFound
from dray.spark.landing.messages import write_range
from dray.spark.landing.payload import Expected, PayloadTarget, payload_name
from dray.spark.schema import LARGE, PULLED, RANGE, TAKEN, UNREADABLE, batch_of

if TYPE_CHECKING:
    from dray.spark.landing.places import Payloads


class Puller(Protocol):
    """Where payload bytes come from. It goes to the executors pickled, and is used by one task."""

    def pull(self, row: dict[str, Any], target: PayloadTarget) -> str:
        """Write the whole payload of `row` to `target`; give the digest of what was written."""
        ...

    def messages(self, row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The small messages of a range (`schema.MESSAGES`)."""
        ...

    def comes_back(self, row: dict[str, Any]) -> bool:
        """Wait while a transaction holds what `pull` did not find; whether to try again."""
        ...

    def close(self) -> None:
        """Let go of what it holds, at the end of the task."""
        ...


class PullInto(NamedTuple):
    """Puts what rows name in place; its `all` is the function for `mapInArrow`."""

    payloads: Payloads
    puller: Puller
    fail_on_data_loss: bool = False
    ranges: Path = Path()
    """Where the small messages of a range are written to."""

    def all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give each row back with what became of its payload."""
        try:
            for batch in batches:
                pulled = [self._pull(row) for row in _rows(batch)]
                # Names must outlast a crash before the table says that they are there.
                self.payloads.keep_names()
                yield batch_of(pulled, PULLED)
        finally:
            self.puller.close()

    def _pull(self, row: dict[str, Any]) -> dict[str, Any]:
        if row["sequence_id"] is None:
            return self._write_range(row)
        if row["missing"] == [TAKEN]:
            return {**row, "state": TAKEN, "payload": None, "landed_time": _now()}
        if row["missing"]:
            return {**row, "state": "hole", "payload": None, "landed_time": _now()}
        if row["digest"] is None:
            return {**row, "state": UNREADABLE, "payload": None, "landed_time": _now()}
        name = payload_name(row["sequence_id"], row["label"])
        expected = Expected(row["size"], row["digest"], row["digest_kind"])
        placement = self.payloads.placement(name, expected)
        while not placement.is_done():
            try:
                placement.fill(lambda target: self.puller.pull(row, target))
                break
            except MessageNotFound:
                if self.puller.comes_back(row):
                    continue
                if self.fail_on_data_loss:
                    raise
                return {**row, "state": TAKEN, "payload": None, "landed_time": _now()}
        told = {"state": "landed", "payload": name, "etag": placement.etag}
        return {**row, **told, "landed_time": _now()}

    def _write_range(self, row: dict[str, Any]) -> dict[str, Any]:
        name, size, count = write_range(self.ranges, self.puller.messages(row))
        told = {"state": RANGE, "payload": name, "size": size, "fragments_present": count}
        return {**row, **told, "landed_time": _now()}


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return batch.select(LARGE.names).to_pylist()


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
