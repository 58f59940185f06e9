"""`spark.read.format("dray")`: what queues hold now, between offsets and within filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from dray.errors import InvalidConfiguration
from dray.spark.source.filters import EVERYTHING, position_column
from dray.spark.source.offsets import Offsets, QueueSpan, spans, went_back
from dray.spark.source.reader import Reading


class BatchReader(Reading, DataSourceReader):
    """Reads what is there now, once."""

    wanted = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        try:
            return self.ask(lambda: self.tasks(*self._ends()))
        finally:
            self.catalogue.close()

    def wanted_spans(self, start: Offsets, end: Offsets) -> Iterator[QueueSpan]:
        """The ranges that no filter excludes."""
        return chain.from_iterable(map(self.wanted.within, spans(start, end)))

    def _ends(self) -> tuple[Offsets, Offsets]:
        """The beginning and the end of the query."""
        options = self.options
        start = self._offsets_of(options.starting, options.starting_time, "startingOffsets")
        ending = self._offsets_of(options.ending, options.ending_time, "endingOffsets")
        back = went_back(_of_the_same_queues(start, ending), ending)
        if back:
            raise InvalidConfiguration(
                f"the query ends before it begins: {', '.join(back)}; correct endingOffsets or"
                " endingTimestamp"
            )
        return start, self.catalogue.latest(start, ending)

    def _offsets_of(self, given: str | Offsets, seconds: float | None, option: str) -> Offsets:
        if seconds is not None:
            return self.catalogue.offsets_at(seconds)
        if isinstance(given, str):
            return {}
        self.catalogue.check_managers(given, option)
        self.check_nothing_lost(given)
        return given


class FilteringReader(BatchReader):
    """Leaves out what Spark filters out, as far as ranges of queues can express it."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take the filters that narrow what is read; give the others back, for Spark to apply."""
        column = position_column(self.options.content)
        for each in filters:
            narrowed = self.wanted.narrowed(each, column)
            if narrowed is None:
                yield each
            else:
                self.wanted = narrowed


def _of_the_same_queues(offsets: Offsets, others: Offsets) -> Offsets:
    return {
        manager_id: {
            queue: offset for queue, offset in queues.items() if queue in others.get(manager_id, {})
        }
        for manager_id, queues in offsets.items()
    }
