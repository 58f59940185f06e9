"""Lands large messages: payload files, a table of what arrived, and only then settles the queue.

    queue -> rows of format("dray") -> executors pull payloads into files -> a commit of the table
          -> the queue is settled

Each step may be done again after a crash, and finds what the one before it left: payload files have
names of their own and are checked by digest; the table knows every sequence id it has; settling is
idempotent, and what was landed but not settled is presented again. Spark's `commit(end)` comes late
or never, so nothing rests on it. Below the directory landed into:

    payload/    one file for each large message          table/    the table, Parquet
    _dray/      checkpoint/ of the query, and the lock that keeps a second landing out

A landing into a store puts the payloads there, as objects (`objects.py`).
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dray.client.calls.public_calls import checked
from dray.errors import (
    InvalidConfiguration,
    MessageNotFound,
    QueueNotFound,
    QueueRecreated,
    StoreError,
)
from dray.model.words import counted, size_in_bytes
from dray.spark.failure import disk_told
from dray.spark.landing.generations import working_alone
from dray.spark.landing.outs import directory_of
from dray.spark.landing.query import AT_ONCE, LandingQuery, Until
from dray.spark.landing.streams import (
    COMMIT_EVERY_S,
    BatchLimits,
    between_commits,
    contents_of,
    looked_at,
    streams,
    told_options,
    what_is_left,
)
from dray.spark.managers import credentials_named
from dray.spark.session import spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dray.spark.landing.batch import Examined
    from dray.spark.landing.delta import DeltaLandedTable
    from dray.spark.landing.objects import StorePayloads
    from dray.spark.landing.places import Payloads
    from dray.spark.landing.puller import ManagerPuller
    from dray.spark.landing.settler import ManagerSettler
    from dray.spark.landing.summary import LandingSummary
    from dray.spark.landing.table import LandedTable
    from dray.spark.source.catalogue import Catalogue

logger = logging.getLogger(__name__)

BYTES_PER_BATCH = "4GiB"
"""Payload of one micro-batch: enough that Spark's own second or two a batch hardly shows, also on a
quick disk. A crash does not repeat it all, since payloads that are in place are kept."""
TABLES = ("parquet", "delta")

Report = Callable[["LandingSummary"], None]


@checked
def land(
    url: str,
    queue: str,
    out: str | Path,
    *,
    as_: str = "auto",
    until: Until = AT_ONCE,
    session: SparkSession | None = None,
    bytes_per_batch: int | str = BYTES_PER_BATCH,
    rows_per_batch: int | None = None,
    commit_every: float = COMMIT_EVERY_S,
    fail_on_data_loss: bool = False,
    accept_new_queue: bool = False,
    table: str = TABLES[0],
    state: str | Path | None = None,
    credentials: str | Path | None = None,
    report: Report | None = None,
) -> LandingSummary:
    """Land the messages of a queue below the directory or URL `out`; give what was done.

    Large messages become files and rows of a table, small ones rows with their bodies. `as_` is
    "large" or "messages" to land only one kind, or "auto" for both. Messages that do not land stay
    in the queue; the summary counts them (`skipped`) and names their queue. `url` and `queue` may
    name several, comma-separated. `report` is called after each micro-batch with the summary so
    far. Without a `session`, the active one is used, or a local one started. A large message with a
    hole becomes a row with state "hole" and its parts are removed. One that only a newer program
    can read is moved to the sub-queue "unreadable" and named in the summary. A message that another
    receiver takes while it is landed is counted as `taken`; with `fail_on_data_loss` it ends the
    landing with `MessageNotFound`. One that a receiver holds is waited for. With
    `accept_new_queue`, a queue that was deleted and made again since it was landed into `out` is
    landed from its first position. `table` is "parquet" or "delta", always the same for one
    directory. A landing that follows a queue commits to the table every `commit_every` seconds, and
    at once when a micro-batch has half of its limit; 0 commits what comes at once. `out` may be a
    URL that fsspec knows, such as `s3://bucket/x`: the payloads become objects below it, and
    `state` is the directory for the table, the checkpoint and the lock. `credentials` is a TOML
    file with `ca`, `cert`, `key` and `token_file`, which the driver and all executors have.

    Raises `StoreLocked` while another landing works there, `StoreFull` or `StoreError` for its
    disk, `QueueRecreated` for a queue that was made again and is not accepted, and the error of a
    manager or payload as it is; what landed before stays landed, and another call goes on there.
    """
    from dray.spark.landing.puller import ManagerPuller
    from dray.spark.landing.settler import ManagerSettler

    began = time.monotonic()
    directory, payloads = _places(out, state, table)
    contents = contents_of(as_)
    named = credentials_named(credentials, url)
    options = told_options(url, queue, named, fail=fail_on_data_loss, accept=accept_new_queue)
    every_s = between_commits(commit_every, until.idle_s)
    bytes_max = size_in_bytes(bytes_per_batch)
    limits = BatchLimits(rows_per_batch, bytes_max, every_s, cuts=payloads is None)
    settler = ManagerSettler(named)
    try:
        with _session(session) as spark:
            landing = Landing(
                directory, ManagerPuller(named), settler, report,
                fail_on_data_loss=fail_on_data_loss,
                accept_new_queue=accept_new_queue,
                table=table,
                payloads=payloads,
                checkpoint="checkpoint" if as_ == "large" else f"checkpoint-{as_}",
            )  # fmt: skip
            summary = landing.run(streams(spark, contents, options, limits), until)
            with looked_at(url, queue, named) as catalogue:
                landing.look_back(catalogue, as_)
            summary.seconds = time.monotonic() - began
            return summary
    finally:
        settler.close()


class Landing:
    """One landing into one directory, of rows from anywhere."""

    def __init__(
        self,
        out: Path,
        puller: ManagerPuller,
        settler: ManagerSettler,
        report: Report | None = None,
        *,
        fail_on_data_loss: bool = False,
        accept_new_queue: bool = False,
        table: str = TABLES[0],
        payloads: StorePayloads | None = None,
        checkpoint: str = "checkpoint",
    ) -> None:
        """Take the directory and the ways to the managers; nothing is touched yet.

        With `payloads`, the payloads go there and the rest into the directory.
        """
        from dray.spark.landing.places import FolderPayloads
        from dray.spark.landing.summary import LandingSummary

        self.out = out.absolute()
        self._payloads: Payloads = payloads or FolderPayloads(self.out / "payload")
        self._url = payloads.url if payloads else None
        self._ranges = self.out / "_dray" / "messages"
        self.summary = LandingSummary(
            out=self.out,
            payload_directory=self._payloads.folder,
            table_directory=self.out / "table",
        )
        self._puller = puller
        self._settler = settler
        self._report = report
        self._fail_on_data_loss = fail_on_data_loss
        self._accept_new_queue = accept_new_queue
        self._kind = table
        self._checkpoint = checkpoint
        self._table: LandedTable | DeltaLandedTable | None = None
        self._started_at = self._first_batch_at = 0.0

    def run(self, rows: DataFrame, until: Until = AT_ONCE) -> LandingSummary:
        """Land the streaming `rows` (`schema.LARGE`) until told to end; give the summary."""
        from dray.spark.landing.messages import remove_ranges
        from dray.spark.landing.places import note_url

        self._started_at = time.monotonic()
        with disk_told(self.out):
            self._ranges.mkdir(parents=True, exist_ok=True)
        refusal = f"another landing works in {self.out}; wait for it or land elsewhere"
        with working_alone(self.summary.table_directory, "lock", refusal):
            note_url(self.out, self._url)
            self._payloads.begin()
            with disk_told(self.out):
                remove_ranges(self._ranges)
                self._table = self._open_table()
            checkpoint = self.out / "_dray" / self._checkpoint
            LandingQuery(rows, self._land_batch, checkpoint, until).run()
        self.summary.seconds = time.monotonic() - self._started_at
        return self.summary

    def look_back(self, catalogue: Catalogue, as_: str) -> None:
        """Settle what has landed and came back since, and count what stays in the queues.

        A receiver may have claimed a message while it landed, and given it back after the
        settling: the offsets of the query are behind it, so no later batch has it.
        """
        assert self._table is not None
        reached = self._table.reached
        for place in catalogue.places:
            landed = reached.queue(place.manager_id, place.queue)
            if landed.born == place.born:
                key = (place.url, place.manager_id, place.queue)
                settled = self._settler.settle(key, landed)
                reached = reached.with_queue(place.manager_id, place.queue, settled)
        self._table.settled(reached)
        for count, sentence in what_is_left(catalogue, as_):
            self.summary.skipped += count
            self.summary.left.append(sentence)

    def _open_table(self) -> LandedTable | DeltaLandedTable:
        if self._kind == "delta":
            from dray.spark.landing.delta import DeltaLandedTable

            return DeltaLandedTable(self.summary.table_directory)
        from dray.spark.landing.table import LandedTable

        return LandedTable(self.summary.table_directory)

    def _land_batch(self, rows: DataFrame) -> None:
        import pyarrow.compute as pc

        from dray.spark.landing.batch import check_births, examine
        from dray.spark.landing.messages import remove_ranges
        from dray.spark.schema import RANGE
        from dray.spark.source.planned import planned_sources

        assert self._table is not None
        self._first_batch_at = self._first_batch_at or time.monotonic()
        # Before a payload takes the place of that of another message.
        self._refuse_reused_ids(
            rows.where("sequence_id is not null")
            .selectExpr("sequence_id", "size", "digest", "cast(null as binary) as body")
            .toArrow()
        )
        pulled = self._pulled(rows)
        if not self._accept_new_queue:
            check_births(pulled, self._table.reached)
        is_range = pc.equal(pulled["state"], RANGE)
        large, ranges = pulled.filter(pc.invert(is_range)), pulled.filter(is_range)
        landed = self._table.already_landed(large["sequence_id"])
        examined = examine(large, landed, self._table.reached)
        self._check_payloads(examined.rows, pulled)
        examined = self._with_messages(examined, ranges)
        for _, spans in planned_sources(rows)[1]:
            examined = examined._replace(reached=examined.reached.with_receipts(spans))
        if examined.rows.num_rows:
            with disk_told(self.summary.table_directory):
                self._table.commit(examined.rows, examined.reached)
            self.summary.moving_seconds = time.monotonic() - self._first_batch_at
        remove_ranges(self._ranges)
        self._settle(examined)
        self._count(examined)

    def _pulled(self, rows: DataFrame) -> pa.Table:
        """Have the executors put payloads in place; give the rows in queue order."""
        from dray.spark.landing.batch import in_order
        from dray.spark.landing.pulling import PullInto, whole_once
        from dray.spark.schema import PULLED, TAKEN, spark_schema

        attempt = secrets.token_hex(6)
        pull = PullInto(
            self._payloads, self._puller, self._fail_on_data_loss, self._ranges, attempt=attempt
        )
        has_ended = False
        try:
            pulled = rows.mapInArrow(pull.all, spark_schema(PULLED)).toArrow()
            whole = whole_once(pulled)
            has_ended = whole is pulled or TAKEN not in whole["state"].to_pylist()
            return in_order(whole)
        finally:
            if not has_ended:
                self._payloads.drop(attempt)

    def _with_messages(self, examined: Examined, ranges: pa.Table) -> Examined:
        """Add the small messages of a micro-batch."""
        from dray.spark.landing.messages import (
            content_of,
            count_again,
            in_table_order,
            land_rows,
            read_ranges,
        )

        assert self._table is not None
        planned = sum(ranges["fragment_count"].to_pylist())
        messages = read_ranges(self._ranges, ranges)
        gone = planned - messages.num_rows
        if gone and self._fail_on_data_loss:
            raise MessageNotFound(
                f"another receiver took {counted(gone)} during the landing; call land() again,"
                " without fail_on_data_loss to go on over them"
            )
        landed = self._table.already_landed(messages["id"])
        if any(landed):
            self._refuse_reused_ids(content_of(messages))
        now = datetime.fromtimestamp(time.time(), UTC)
        count_again(self.summary, messages, landed, examined.reached)
        rows, reached = land_rows(messages, ranges, landed, examined.reached, now=now)
        self.summary.messages += rows.num_rows
        self.summary.taken += gone
        queues = dict.fromkeys(examined.queues)
        for row in ranges.select(["manager", "manager_id", "queue"]).to_pylist():
            queues[row["manager"], row["manager_id"], row["queue"]] = None
        return examined._replace(
            rows=in_table_order(examined.rows, rows),
            reached=reached,
            queues=tuple(queues),
            bytes=examined.bytes + sum(rows["size"].to_pylist()),
            files=examined.rows.num_rows,
        )

    def _refuse_reused_ids(self, rows: pa.Table) -> None:
        """Raise `StoreError` for a message with the id of another one that the table has.

        A queue manager whose store was put back gives ids out again, until it finds that out.
        """
        import pyarrow as pa

        from dray.spark.landing.landed_ids import contents_in

        assert self._table is not None
        known = pa.array(self._table.already_landed(rows["sequence_id"]), pa.bool_())
        found = contents_in(rows.filter(known))
        there = self._table.contents(found)
        for sequence_id, content in found.items():
            if there.get(sequence_id, content) != content:
                raise StoreError(
                    f"message {sequence_id} has the id of another one that landed in {self.out}:"
                    " the store of its queue manager was put back to an older state, and the id"
                    " given out again; land its queue into another directory. Nothing of this"
                    " micro-batch was settled"
                )

    def _check_payloads(self, rows: pa.Table, pulled: pa.Table) -> None:
        """Raise `StoreError` if this machine does not see what the executors put in place."""
        from dray.spark.landing.payload import PutPayload

        new = set(rows["payload"].to_pylist())
        put = [
            PutPayload(row["payload"], row["size"], row["etag"])
            for row in pulled.select(["payload", "size", "etag", "state"]).to_pylist()
            if row["state"] == "landed" and row["payload"] in new
        ]
        self._payloads.check(put)

    def _settle(self, examined: Examined) -> None:
        """Take from the queues what the table has; a crash before this is made good by the next."""
        assert self._table is not None
        for key, sequence_id in examined.unreadable:
            sentence = self._settler.set_aside(key, sequence_id)
            if sentence:
                logger.warning("%s", sentence)
                self.summary.unreadable.append(sentence)
        reached = examined.reached
        for key in examined.queues:
            _, manager_id, queue = key
            try:
                settled = self._settler.settle(key, reached.queue(manager_id, queue))
            except QueueRecreated:
                if not self._accept_new_queue:
                    raise
                # Nothing is left to settle of the queue that was read; the next batch begins anew.
                continue
            except QueueNotFound:
                logger.warning("queue %r was deleted after its messages had landed", queue)
                continue
            reached = reached.with_queue(manager_id, queue, settled)
        self._table.settled(reached)

    def _count(self, examined: Examined) -> None:
        summary = self.summary
        summary.batches += 1
        summary.files += examined.files - len(examined.holes)
        summary.bytes += examined.bytes
        summary.duplicates += examined.duplicates
        summary.replayed += examined.replayed
        summary.out_of_order += examined.out_of_order
        summary.taken += examined.taken
        summary.holes.extend(examined.holes)
        summary.seconds = time.monotonic() - self._started_at
        if self._report is not None:
            self._report(summary)


def _places(
    out: str | Path, state: str | Path | None, table: str
) -> tuple[Path, StorePayloads | None]:
    """The directory of a landing, and the store for its payloads if they go to one.

    Raises `InvalidConfiguration`, before anything is started, for what cannot be used.
    """
    if table not in TABLES:
        raise InvalidConfiguration(f"table is {table!r}; it can be {' or '.join(TABLES)}")
    directory = directory_of(str(out))
    if directory is not None:
        if state is not None:
            raise InvalidConfiguration(
                "state is for payloads that go to a store; a landing into a directory keeps its"
                " table there, so leave state out"
            )
        return directory, None
    from dray.folders.fsspec import file_system
    from dray.spark.landing.objects import StorePayloads

    file_system(str(out))
    if state is None:
        raise InvalidConfiguration(
            f"a landing into {out} needs a directory for its table, checkpoint and lock; name it"
            " with state (--state DIR)"
        )
    return Path(state), StorePayloads(str(out))


@contextmanager
def _session(given: SparkSession | None) -> Iterator[SparkSession]:
    if given is not None:
        if ".connect." in type(given).__module__:
            raise InvalidConfiguration(
                "land() needs a driver of its own, since it holds a lock and a table there, and a"
                " session of Spark Connect runs its batches on the server; land in a program that"
                " spark-submit starts, or read with format('dray')"
            )
        yield given
        return
    with spark_session(name="dray land") as started:
        yield started
