"""What Spark makes of an error becomes one sentence again."""

from __future__ import annotations

from dray.errors import DrayError, LargeMessageCorrupt, QueueNotFound
from dray.spark.failure import plainly

STACK = f"""[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
pyspark.errors.exceptions.captured.PythonException: Traceback (most recent call last):
  File "worker.py", line 3, in main
    raise
{QueueNotFound.__module__}.QueueNotFound: there is no queue 'x' here; create it

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_ours_is_found_in_a_stack_of_others():
    found = plainly(RuntimeError(STACK))

    assert type(found) is QueueNotFound
    assert str(found) == "there is no queue 'x' here; create it"


def test_an_error_of_ours_stays_as_it_is():
    error = LargeMessageCorrupt("bad", sequence_id="x")

    assert plainly(error) is error


def test_an_error_of_others_is_told_in_one_line():
    found = plainly(RuntimeError("\n\n  out of memory\nat org.apache\n"))

    assert type(found) is DrayError
    assert str(found) == "Spark ended the query with RuntimeError: out of memory"
