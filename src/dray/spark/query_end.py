"""How a streaming query ends: what Spark is told of a batch that failed, and a stop that returns.

`query.stop()` interrupts the thread of the query. If a call into Java was under way, Python has an
exception whose text is a Java trace of some thousand characters. Spark searches the text that
`foreachBatch` gives back for an interrupt, with a regular expression that needs some stack for each
character behind its first words (`StreamExecution.isInterruptionException`). So the thread died of
a `StackOverflowError` and printed a thousand lines, for every query that was stopped in such a
call. Functions for `foreachBatch` therefore work inside `told_briefly`.

Spark waits without a limit for the thread to end, and interrupts it once. An interrupt can be lost:
whoever catches it goes on. Sessions of ours wait for `STOP_S`, and `stop` interrupts again.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dray.errors import DrayError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

STOP_S = 20
"""Longer than the driver's part of a micro-batch takes: one that is at a commit ends by itself."""
STOPS_MAX = 6
"""Two minutes in all. A query that goes on after them is told of, not waited for."""
_CALLING = "py4j.protocol.Py4JJavaError: An error occurred while calling"
"""The first words that Spark's regular expression looks for."""
_INTERRUPTED = re.compile(
    r"java\.lang\.InterruptedException|java\.io\.InterruptedIOException"
    r"|java\.nio\.channels\.ClosedByInterruptException"
)
_STILL_RUNS = "failed to stop within"
"""Spark's words for a thread that has not ended in time."""


class BatchInterrupted(Exception):  # noqa: N818 - no error: Spark looks for it
    """A batch ended because its query was stopped."""


@contextmanager
def told_briefly() -> Iterator[None]:
    """Around the work of a function of `foreachBatch`: give Spark a text that it can search."""
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if _CALLING not in text:
            raise
        interrupted = _INTERRUPTED.search(text)
        if interrupted is not None:
            raise BatchInterrupted(f"{_CALLING} Spark: {interrupted[0]}") from None
        raise DrayError(text.replace(_CALLING, "An error occurred while calling")) from None


def stop(query: StreamingQuery) -> None:
    """Stop a query; interrupt it again if it goes on. Raises `DrayError` if it never ends."""
    for left in reversed(range(STOPS_MAX)):
        try:
            query.stop()
        except Exception as error:
            if _STILL_RUNS not in str(error):
                raise
            if not left:
                raise DrayError(
                    f"the Spark query goes on after {STOPS_MAX} stops; end the program, and start"
                    " it again: nothing is lost or done twice"
                ) from error
            logger.warning("the Spark query has not ended in time; it is stopped once more")
        else:
            return
