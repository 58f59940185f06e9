"""The calls of `dray.spark` refuse what makes no sense before they look for a Java."""

from __future__ import annotations

import inspect

import pytest

from dray.client.calls.public_calls import is_checked
from dray.errors import InvalidArgument
from tests.contract.wrong_values import VALUES, is_ours

spark = pytest.importorskip("dray.spark")
CALLS = [name for name in spark.__all__ if inspect.isfunction(getattr(spark, name))]
GOOD = {"url": "dray://127.0.0.1:1", "queue": "q", "out": "nowhere"}
WRONG = ["a complex number", "bytes", "an object", "a released view", "..."]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_spark_refuses_what_makes_no_sense(name):
    call = getattr(spark, name)
    assert is_checked(call)
    parameters = inspect.signature(call).parameters
    for parameter in parameters:
        for told in WRONG:
            named = {each: value for each, value in GOOD.items() if each in parameters}
            with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is asserted
                call(**{**named, parameter: VALUES[told]})
            assert is_ours(caught.value), f"{name}({parameter}={told}): {caught.value}"


def test_a_write_that_could_write_nothing_is_refused_before_a_batch_is_settled():
    def yields(rows, batch_id):
        yield rows, batch_id

    async def awaited(rows, batch_id):
        """Write where somebody awaits it."""

    def takes_one(rows):
        """Write without the id of the batch."""

    for write, why in (
        (yields, "is a generator function"),
        (awaited, "nobody awaits it here"),
        (takes_one, "cannot be called with rows and the id of their batch"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            spark.settling(write)
    assert callable(spark.settling(print))
