"""The calls of `dray.spark` refuse what makes no sense before they look for a Java."""

from __future__ import annotations

import inspect

import pytest

from dray.client.calls.public_calls import is_checked
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
