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
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dray.errors import MessageNotFound, QueueNotFound, StoreError
from dray.spark.landing.messages import write_range
from dray.spark.landing.payload import Expected, payload_name
from dray.spark.landing.pieces import Piece
from dray.spark.landing.places import FolderPayloads, Payloads
from dray.spark.schema import PIECE, PULLED, RANGE, TAKEN, UNREADABLE, batch_of

if TYPE_CHECKING:
    from dray.spark.landing.puller import ManagerPuller

_WORTH = ("landed", "hole", UNREADABLE, TAKEN, PIECE)
"""States of the pieces of one message: which of them tells of the whole."""


class PullInto(NamedTuple):
    """Puts what rows name in place; its `all` is the function for `mapInArrow`."""

    payloads: Payloads
    puller: ManagerPuller
    fail_on_data_loss: bool = False
    ranges: Path = Path()
    """The file that the small messages of a range are written to."""
    attempt: str = ""
    """Tells the files of this micro-batch from those of a driver that was killed."""

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
        piece = Piece(row["piece"], row["pieces"]) if row.get("pieces") else None
        etag = ""
        while True:
            try:
                if piece is not None:
                    if not self._put_piece(row, name, expected, piece):
                        return {**row, "state": PIECE, "payload": None, "landed_time": _now()}
                    break
                etag = self._put(row, name, expected)
                break
            except (MessageNotFound, QueueNotFound):
                if self.puller.comes_back(row):
                    continue
                if self.fail_on_data_loss:
                    raise
                return {**row, "state": TAKEN, "payload": None, "landed_time": _now()}
        told = {"state": "landed", "payload": name, "etag": etag}
        return {**row, **told, "landed_time": _now()}

    def _put(self, row: dict[str, Any], name: str, expected: Expected) -> str:
        placement = self.payloads.placement(name, expected)
        if not placement.is_done():
            placement.fill(lambda target: self.puller.pull(row, target))
        return placement.etag

    def _put_piece(self, row: dict[str, Any], name: str, expected: Expected, piece: Piece) -> bool:
        """Put one piece in its place; whether the whole payload is there now."""
        assert isinstance(self.payloads, FolderPayloads), "only they are cut"
        placement = self.payloads.piece_placement(name, expected, piece, self.attempt)
        return placement.is_done() or placement.fill(
            lambda target: self.puller.pull_piece(row, piece, target)
        )

    def _write_range(self, row: dict[str, Any]) -> dict[str, Any]:
        name, size, count = write_range(self.ranges, self.puller.messages(row))
        told = {"state": RANGE, "payload": name, "size": size, "fragments_present": count}
        return {**row, **told, "landed_time": _now()}


def whole_once(pulled: pa.Table) -> pa.Table:
    """The rows with one for each message that came in pieces: that of the task that ended last.

    A message of which somebody took a piece meanwhile was taken. Raises `StoreError` if no task
    found all pieces.
    """
    rows = [row for row in pulled.to_pylist() if row["pieces"]]
    if not rows:
        return pulled
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        before = best.get(row["sequence_id"])
        if before is None or _WORTH.index(row["state"]) < _WORTH.index(before["state"]):
            best[row["sequence_id"]] = row
    for row in best.values():
        if row["state"] == PIECE:
            raise StoreError(
                f"no executor found all {row['pieces']} pieces of {row['sequence_id']}; land into a"
                " directory that the driver and all executors share. Nothing was settled"
            )
    whole = pulled.filter(pc.is_null(pulled["pieces"]))
    joined = pa.Table.from_pylist(list(best.values()), schema=pulled.schema)
    return pa.concat_tables([whole, joined])


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return batch.to_pylist()


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
