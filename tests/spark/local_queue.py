"""A queue that is a directory, so that landing can be tested without a queue manager.

`queue.json` lists the large messages with their positions, payload files lie beside it, and
`settled` holds the position up to which was settled. A real streaming source gives the rows, a
puller reads the payload files, a settler writes `settled`. What was settled is not shown again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from dray.spark.schema import LARGE, batch_of, spark_schema

MANAGER_ID = "a" * 32
QUEUE = "parcels"


class LocalQueue:
    """The queue, as a test sees it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        if not (directory / "queue.json").exists():
            self._write([])

    @property
    def rows(self) -> list[dict]:
        return json.loads((self.directory / "queue.json").read_text())

    @property
    def settled(self) -> int:
        path = self.directory / "settled"
        return int(path.read_text()) if path.exists() else 0

    def add(self, body: bytes, label: str = "", *, parts: int = 3, **given) -> dict:
        """Append one large message of `parts` positions (header, fragments, trailer)."""
        rows = self.rows
        first = given.pop("first", rows[-1]["last_lookup_id"] + 1 if rows else 1)
        number = given.pop("number", first)
        name = f"body-{len(rows)}"
        (self.directory / name).write_bytes(body)
        row = {
            "manager": str(self.directory),
            "manager_id": MANAGER_ID,
            "queue": QUEUE,
            "queue_born": 1,
            "first_lookup_id": first,
            "last_lookup_id": first + parts - 1,
            "lookup_ranges": [[first, first + parts - 1]],
            "sequence_id": f"{MANAGER_ID}\\{number}",
            "label": label,
            "size": len(body),
            "digest": hashlib.sha256(body).hexdigest(),
            "digest_kind": "sha256",
            "fragment_count": parts - 2,
            "fragments_present": parts - 2,
            "missing": [],
            "app_specific": 0,
            "correlation_id": name,
            "transaction_id": f"{MANAGER_ID}\\1",
            "source": MANAGER_ID,
            "sent_time": 1.0,
            "arrived_time": 2.0,
        } | given
        self._write([*rows, row])
        return row

    def _write(self, rows: list[dict]) -> None:
        (self.directory / "queue.json").write_text(json.dumps(rows))


class LocalSource(DataSource):
    """`format("localqueue")`."""

    @classmethod
    def name(cls):
        return "localqueue"

    def schema(self):
        return spark_schema(LARGE)

    def streamReader(self, schema):  # noqa: ARG002, N802 - Spark's name
        return LocalReader(self.options["directory"], int(self.options.get("atonce", "1000")))


class Rows(InputPartition):
    def __init__(self, rows):
        self.rows = rows


class LocalReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, directory, at_once):
        self.queue = LocalQueue(Path(directory))
        self.at_once = at_once
        self.target = None

    def prepareForTriggerAvailableNow(self):  # noqa: N802 - Spark's name
        self.target = len(self.queue.rows)

    def initialOffset(self):  # noqa: N802 - Spark's name
        return {"index": 0}

    def latestOffset(self, start, limit):  # noqa: ARG002, N802 - Spark's name
        end = len(self.queue.rows) if self.target is None else self.target
        return {"index": max(start["index"], min(end, start["index"] + self.at_once))}

    def partitions(self, start, end):
        settled = self.queue.settled
        rows = [
            row
            for row in self.queue.rows[start["index"] : end["index"]]
            if row["last_lookup_id"] > settled
        ]
        return [Rows(rows[::2]), Rows(rows[1::2])] if rows else []

    def read(self, partition) -> Iterator[pa.RecordBatch]:
        rows = [
            row
            | {
                name: datetime.fromtimestamp(row[name], UTC)
                for name in ("sent_time", "arrived_time")
            }
            for row in partition.rows
        ]
        if rows:
            yield batch_of(rows, LARGE)


class LocalPuller:
    """Reads the payload files in small pieces."""

    def pull(self, row, target):
        digest = hashlib.sha256()
        with (Path(row["manager"]) / row["correlation_id"]).open("rb") as file:
            while piece := file.read(1000):
                digest.update(piece)
                target.write(piece)
        return digest.hexdigest()

    def messages(self, row):  # noqa: ARG002 - all are large
        return iter(())

    def comes_back(self, row):  # noqa: ARG002 - nobody else receives
        return False

    def close(self):
        pass


class LocalSettler:
    """Writes down up to where was settled."""

    def settle(self, key, reached):
        progress = reached.progress.advanced(lambda _: None)
        (Path(key[0]) / "settled").write_text(str(progress.upto))
        return reached._replace(progress=progress, holed=())

    def close(self):
        pass
