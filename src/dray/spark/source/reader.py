"""Reads ranges of queues for Spark, without removing anything; see `dray.spark.source.offsets`.

The planner, a process of its own beside the driver, asks how far the queues reach and cuts a range
into partitions. Executors read a partition each. A range may be read any number of times: nothing
leaves a queue here. A query that was restarted may be given a range of which part was settled
meanwhile; what is gone from it was landed, and is not missed.

A queue may be deleted and made again at any moment. Offsets and ranges therefore name the birth of
their queue, and an executor asks for the birth number behind each read, before it gives the rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from dray.errors import (
    InvalidConfiguration,
    MessageNotFound,
    QueueNotFound,
    QueueRecreated,
    StoreError,
)
from dray.model.words import counted
from dray.spark.managers import Managers, patiently
from dray.spark.schema import batch_of
from dray.spark.source.catalogue import Catalogue, Reach
from dray.spark.source.large import describe_large, describe_range, describe_taken
from dray.spark.source.offsets import (
    Offsets,
    QueueBirth,
    QueuePlace,
    QueueSpan,
    check_birth,
    check_offsets,
    lost,
    position_in,
    spans,
    went_back,
    with_position,
)
from dray.spark.source.options import RANGES, Options
from dray.spark.source.partitions import LargePartition, LargeWork, MessagePartition, divided
from dray.spark.source.ranges import is_there, pages, tell_gone
from dray.wire.large_frames import LargeEntry

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 256
_LOOKS = 10
"""Looks at the queue between two commits: measuring what waits costs the queue manager time."""
_Result = TypeVar("_Result")


class Limits(NamedTuple):
    """The most that one micro-batch takes of each queue; None is no limit."""

    rows: int | None = None
    bytes: int | None = None

    def are_used_up(self, reach: Reach) -> bool:
        """Whether a range has as much as fits; half is enough, since it ends at a transaction."""
        rows_full = self.rows is not None and 2 * reach.messages >= self.rows
        return rows_full or (self.bytes is not None and 2 * reach.bytes >= self.bytes)


class Reading:
    """Shared by batch and stream readers. It goes to the executors, without its connections."""

    goes_on = False
    """Whether the query never reads a range again once it is behind it."""

    def __init__(self, options: Options) -> None:
        """Connect to nothing yet."""
        self.options = options
        self._catalogue: Catalogue | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_catalogue": None}

    @property
    def catalogue(self) -> Catalogue:
        """The queues, as the planner sees them."""
        if self._catalogue is None:
            self._catalogue = Catalogue(self.options)
        return self._catalogue

    def ask(self, call: Callable[[], _Result]) -> _Result:
        """Ask managers; one that has answered before is waited for if it does not answer now.

        It asks again if a queue was deleted, or made again, since it was looked for. The second
        time refuses it in the words of the query, or goes on without it where that is wanted.
        """
        try:
            return self._ask_once(call)
        except (QueueRecreated, QueueNotFound):
            self.catalogue.forget()
            return self._ask_once(call)

    def _ask_once(self, call: Callable[[], _Result]) -> _Result:
        return patiently(call) if self.catalogue.has_answered else call()

    def wanted_spans(self, start: Offsets, end: Offsets) -> Iterator[QueueSpan]:
        """The ranges to read."""
        return spans(start, end)

    def check_nothing_lost(self, start: Offsets) -> None:
        """Raise an error if a queue that `start` names is gone, or another one of the name."""
        if not self.options.accept_new_queue:
            self.catalogue.check_births(start)
        if not self.options.fail_on_data_loss:
            return
        missing = lost(start, self.catalogue.known())
        if missing:
            raise StoreError(
                f"the query had read from {', '.join(missing)}, which cannot be found any more;"
                " set failOnDataLoss to false to go on without"
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, on an executor; only the columns that the query asks for."""
        columns = self.options.columns
        for batch in self._read(partition):
            yield batch if columns is None else batch.select(columns)

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        managers = Managers(self.options.credentials)
        try:
            if isinstance(partition, LargePartition):
                yield from self._read_large(managers, partition)
            elif isinstance(partition, MessagePartition):
                if self.options.content == RANGES:
                    row = describe_range(partition.place, partition.span, partition.messages)
                    yield batch_of([row], self.options.schema)
                else:
                    yield from self._read_messages(managers, partition)
        finally:
            managers.close()

    def _read_large(
        self, managers: Managers, partition: LargePartition
    ) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(partition.work), _ROWS_AT_ONCE):
            work = partition.work[at : at + _ROWS_AT_ONCE]
            described = [(each, self._describe(managers, each.place, each.entry)) for each in work]
            places = {each.place for each in work}
            still = {place for place in places if self._is_still(managers, place)}
            rows = [
                each.row(row) for each, row in described if row is not None and each.place in still
            ]
            if rows:
                yield batch_of(rows, self.options.schema)

    def _describe(
        self, managers: Managers, place: QueuePlace, entry: LargeEntry
    ) -> dict[str, Any] | None:
        """The row of a large message; None if it or its queue is gone and may be.

        One that a receiver holds is waited for: it may come back.
        """
        queue = managers.raw_queue(place.url, place.queue)
        while True:
            try:
                return describe_large(place, queue, entry)
            except MessageNotFound:
                if is_there(queue, entry.first_lookup_id, self.options.claim_timeout_s):
                    continue
                # In a queue that was made again nothing of it is found: then that is the error.
                if not self._is_still(managers, place):
                    return None
                if self.options.fail_on_data_loss:
                    raise
                return describe_taken(place, entry) if self.options.mark_taken else None
            except QueueNotFound:
                if self.options.fail_on_data_loss:
                    raise
                return None

    def _is_still(self, managers: Managers, place: QueuePlace) -> bool:
        """Whether a queue is the one that was planned for, and what was read so far is of it.

        Raises `QueueRecreated` if it is not, unless a new queue is accepted, and `QueueNotFound` if
        it was deleted, unless messages may be lost.
        """
        try:
            born = managers.raw_queue(place.url, place.queue).info().born
        except QueueNotFound:
            if self.options.fail_on_data_loss:
                raise
            _warn_of_deleted(place.birth)
            return False
        return self._is_same(place, born)

    def _is_same(self, place: QueuePlace, born: int) -> bool:
        if not self.options.accept_new_queue:
            check_birth(place.birth._replace(born=born), place.born)
        return born == place.born

    def _read_messages(
        self, managers: Managers, partition: MessagePartition
    ) -> Iterator[pa.RecordBatch]:
        place, span = partition.place, partition.span
        queue = managers.raw_queue(place.url, place.queue)
        gone = partition.messages
        try:
            for page in pages(queue, span.after, span.upto, bodies=self.options.inline):
                # Nothing is found of an earlier queue, which is not an empty range.
                if not self._is_same(place, page.born):
                    return
                if page.messages:
                    gone -= len(page.messages)
                    yield page.messages.batch(place)
        except QueueNotFound:
            if self.options.fail_on_data_loss:
                raise
            _warn_of_deleted(place.birth)
            return
        if gone > 0 and self.goes_on:
            sentence = (
                f"{counted(gone)} between positions {span.after + 1} and {span.upto} left queue"
                f" {span.queue!r} of manager {span.manager_id} before the query read what it had"
                " planned"
            )
            tell_gone(sentence, fail=self.options.fail_on_data_loss)

    def tasks(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """The partitions between two offsets."""
        self.catalogue.state(end)
        wanted = [span for span in self.wanted_spans(start, end) if self._is_there(span)]
        if self.options.content == "large":
            found = [
                LargeWork(self.catalogue.place(span), entry)
                for span in wanted
                for entry in self.catalogue.large_in(span)
            ]
            return divided(found, self.options.partitions, self.options.piece_bytes)
        return [
            MessagePartition(self.catalogue.place(span), piece, messages)
            for span in wanted
            for piece, messages in self.catalogue.cut(span, self.options.partitions)
        ]

    def _is_there(self, span: QueueSpan) -> bool:
        """Whether a range can be read: not if its queue is gone or another one, and that may be."""
        try:
            self.catalogue.place(span)
        except QueueRecreated:
            if not self.options.accept_new_queue:
                raise
            return False
        except QueueNotFound:
            if self.options.fail_on_data_loss or not self.catalogue.is_deleted(span):
                raise
            _warn_of_deleted(QueueBirth(span.manager_id, span.queue, span.born))
            return False
        return True


class StreamReader(Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on, from offset to offset."""

    goes_on = True

    def __init__(self, options: Options) -> None:
        """Begin without a target."""
        super().__init__(options)
        self._target: Offsets | None = None
        self._reached: Offsets = {}
        self._last_batch_at = time.monotonic()
        self._is_full = False
        self._next_commit_at = self._next_look_at = 0.0

    def initialOffset(self) -> Offsets:
        """The offset at which a query without a checkpoint begins."""
        since = self.options.starting_time
        if since is not None:
            return self.ask(lambda: self.catalogue.offsets_at(since))
        match self.options.starting:
            case "earliest":
                return {}
            case "latest":
                return self.ask(lambda: self.catalogue.latest({}))
            case str(other):
                raise AssertionError(other)
            case offsets:
                self.ask(lambda: self.catalogue.check_managers(offsets))
                return offsets

    def getDefaultReadLimit(self) -> ReadLimit:
        """The read limits. Spark has no limit of both kinds; `latestOffset` applies both."""
        if self.options.rows_min is not None:
            return ReadMinRows(self.options.rows_min)
        if self.options.rows_max is not None:
            return ReadMaxRows(self.options.rows_max)
        if self.options.bytes_max is not None:
            return ReadMaxBytes(self.options.bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """The offset up to which the next micro-batch reads."""
        _check_form(start)
        if self._is_early() and time.monotonic() < self._next_look_at:
            return start
        limits = _limits(limit, self.options)
        end = self.ask(lambda: self._next(start, limits))
        if not isinstance(limit, ReadAllAvailable) and (
            self._is_early() or self._is_too_little(start, end)
        ):
            return start
        if end != start:
            self._last_batch_at = time.monotonic()
            self._next_commit_at = self._last_batch_at + self.options.commit_every_s
        self._reached = end
        return end

    def _is_early(self) -> bool:
        """Whether a small micro-batch waits for more, so that each commit of a landing has much."""
        return (
            self._target is None and not self._is_full and time.monotonic() < self._next_commit_at
        )

    def _is_too_little(self, start: Offsets, end: Offsets) -> bool:
        """Whether a micro-batch waits for more rows; with a target no more would ever come."""
        least = self.options.rows_min
        if least is None or self._target is not None:
            return False
        if time.monotonic() - self._last_batch_at >= self.options.trigger_delay_s:
            return False
        return self.ask(lambda: sum(map(self.catalogue.count, spans(start, end)))) < least

    def _next(self, start: Offsets, limits: Limits) -> Offsets:
        self.catalogue.refresh()
        self.check_nothing_lost(start)
        end = start
        places = self.catalogue.places
        share = Limits(_share(limits.rows, len(places)), _share(limits.bytes, len(places)))
        self._is_full = False
        self._next_look_at = time.monotonic() + self.options.commit_every_s / _LOOKS
        for place in places:
            after = position_in(start, place.birth)
            target = None if self._target is None else position_in(self._target, place.birth)
            reach = self.catalogue.reach(
                place,
                after,
                rows_max=share.rows,
                bytes_max=share.bytes,
                upto=target,
                start=start,
            )
            self._is_full |= share.are_used_up(reach)
            if reach.upto > after:
                gone = self.catalogue.gone(place.birth)
                end = with_position(end, place.birth, reach.upto, gone=gone, receipt=reach.receipt)
        assert not went_back(start, end)
        return end

    def reportLatestOffset(self) -> Offsets | None:
        """The end of the queues now, so that the progress of a query shows its lag."""
        if self.options.rows_max is None and self.options.bytes_max is None:
            return self._reached
        return self.ask(lambda: self.catalogue.latest(self._reached))

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember how far the queues reach now; nothing behind that is read in this run."""
        self._target = self.ask(lambda: self.catalogue.latest({}))

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """The tasks of one micro-batch."""
        _check_form(start)
        _check_form(end)
        return self.ask(lambda: self.tasks(start, end))

    def commit(self, end: Offsets) -> None:
        """Spark has put this in its log. It comes late or never, so nothing is done upon it."""

    def stop(self) -> None:
        """Close the planner's connections."""
        if self._catalogue is not None:
            self._catalogue.close()


def _warn_of_deleted(birth: QueueBirth) -> None:
    logger.warning(
        "queue %r of manager %s was deleted before the query had read what it had planned; the"
        " query goes on without it",
        birth.queue,
        birth.manager_id,
    )


def _check_form(offsets: Offsets) -> None:
    """Refuse offsets of a checkpoint that do not say which birth of a queue they are of."""
    try:
        check_offsets(offsets)
    except ValueError as error:
        raise InvalidConfiguration(
            f"{error}; remove the checkpoint of the query and start it again"
        ) from error


def _limits(limit: ReadLimit, options: Options) -> Limits:
    if isinstance(limit, ReadAllAvailable):
        return Limits()
    return Limits(options.rows_max, options.bytes_max)


def _share(limit: int | None, among: int) -> int | None:
    return None if limit is None else max(1, limit // max(1, among))
