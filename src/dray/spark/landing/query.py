"""The streaming query of one landing: how it begins, who watches it, when it ends."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from dray.errors import DrayError, StoreLocked
from dray.spark.failure import STARTS_MAX, WORKER_TOO_SLOW, plainly
from dray.spark.query_end import stop, told_briefly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_TRIGGER_INTERVAL = "500 milliseconds"
_SET_BACK_S = 2.0
"""Spark waits by the clock for the next trigger: if the clock is set back, for as long as that."""


class Until(NamedTuple):
    """When a landing ends. By default: when all that was there at the start is landed.

    With `follow`, it goes on until `stop` is set or nothing has come for `idle_s` seconds.
    """

    follow: bool = False
    idle_s: float | None = None
    stop: threading.Event | None = None


AT_ONCE = Until()


class LandingQuery:
    """Hands the micro-batches of streaming rows to one function, in the driver."""

    def __init__(
        self,
        rows: DataFrame,
        land_batch: Callable[[DataFrame], None],
        checkpoint: Path,
        until: Until,
    ) -> None:
        """Begin nothing yet."""
        self._rows = rows
        self._land_batch = land_batch
        self._checkpoint = checkpoint
        self._until = until
        self._failure: Exception | None = None
        self._busy = False
        self._has_waited = False
        self._last_rows_at = time.monotonic()
        self._clock_ahead_s = _clock_ahead_s()
        self._was_set_back = False

    def run(self) -> None:
        """Run to the end that `until` says; a start again neither loses nor repeats a batch."""
        left = STARTS_MAX
        while not self._run_once(last=left == 1):
            left -= not self._was_set_back
            self._was_set_back = False

    def _run_once(self, *, last: bool) -> bool:
        """Run one query to its end; false if it ended for a reason that passes.

        A Python worker called too late; the Java of a driver that was killed wrote once more; or
        the clock was set back.
        """
        query = self._start()
        try:
            self._await(query)
        except DrayError as error:
            is_late = WORKER_TOO_SLOW in str(error.__cause__)
            if last or self._failure is not None or not (is_late or isinstance(error, StoreLocked)):
                raise
            why = "a Python worker of Spark took too long to start" if is_late else error
            logger.warning("%s; once more", why)
            return False
        finally:
            stop(query)
        return not self._was_set_back

    def _start(self) -> StreamingQuery:
        self._has_waited = False
        _remove_if_only_begun(self._checkpoint)
        writer = self._rows.writeStream.foreachBatch(self._land).option(
            "checkpointLocation", str(self._checkpoint)
        )
        if self._until.follow:
            return writer.trigger(processingTime=_TRIGGER_INTERVAL).start()
        return writer.trigger(availableNow=True).start()

    def _await(self, query: StreamingQuery) -> None:
        from pyspark.errors import PySparkException

        with _interrupts_noted() as interrupted:
            try:
                # Spark takes fractions of a second, though its annotation says whole ones.
                while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                    self._watch(query)
                    if interrupted.is_set() or (self._until.follow and self._is_over()):
                        self._was_set_back = False
                        stop(query)
                    elif self._is_stuck():
                        logger.warning("the clock was set back; the query begins anew")
                        stop(query)
            except (PySparkException, DrayError) as error:
                # The signal went to Spark's processes too, which may fail of it.
                if not interrupted.is_set():
                    told = plainly(self._failure or error)
                    raise told from (None if told is error else error)
        if interrupted.is_set():
            raise KeyboardInterrupt

    def _watch(self, query: StreamingQuery) -> None:
        """Count as idle only while Spark has looked for rows and found none; it starts slowly."""
        status = query.status
        self._has_waited = self._has_waited or status["message"].startswith("Waiting")
        if self._busy or status["isDataAvailable"] or not self._has_waited:
            self._last_rows_at = time.monotonic()

    def _is_stuck(self) -> bool:
        """Whether Spark waits for a time that the clock had reached before it was set back."""
        before, self._clock_ahead_s = self._clock_ahead_s, _clock_ahead_s()
        is_set_back = before - self._clock_ahead_s > _SET_BACK_S
        self._was_set_back |= is_set_back and self._until.follow
        return self._was_set_back and not self._busy

    def _is_over(self) -> bool:
        stop, idle_s = self._until.stop, self._until.idle_s
        if stop is not None and stop.is_set():
            return True
        idle = time.monotonic() - self._last_rows_at
        return idle_s is not None and not self._busy and idle > idle_s

    @told_briefly()
    def _land(self, rows: DataFrame, batch_id: int) -> None:
        """One micro-batch, in the driver; what it raises ends the query."""
        self._busy = True
        try:
            self._land_batch(rows)
        except Exception as error:
            # Spark gives only its text back; `_await` raises the error itself.
            self._failure = error
            raise
        finally:
            self._last_rows_at = time.monotonic()
            self._busy = False
        logger.debug("batch %d landed", batch_id)


def _clock_ahead_s() -> float:
    """By how much the clock is ahead of the time that nobody sets."""
    return time.time() - time.monotonic()


def _remove_if_only_begun(checkpoint: Path) -> None:
    """Remove a checkpoint without a planned batch: Spark refuses what a kill has left of it.

    Nothing is lost with it, since the table says what has landed.
    """
    if not any(each.name.isdecimal() for each in (checkpoint / "offsets").glob("*")):
        shutil.rmtree(checkpoint, ignore_errors=True)


@contextmanager
def _interrupts_noted() -> Iterator[threading.Event]:
    """Note ^C instead of being torn out of a call into Java by it; the second one does that."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            signal.default_int_handler(number, frame)
        interrupted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
