"""A bound on how many of something are under way."""

from __future__ import annotations

import pytest

from dray.console.http.limits import BoundedCount
from dray.console.http.refusal import HttpRefusal


def test_one_more_than_the_bound_is_refused_until_another_one_ends():
    count = BoundedCount(2, 503, "busy", "two are enough; wait")
    with count.one():
        with count.one(), pytest.raises(HttpRefusal, match="two are enough") as refused:
            count.one().__enter__()
        assert (refused.value.status, refused.value.code) == (503, "busy")
        with pytest.raises(OSError, match="broken"), count.one():
            raise OSError("broken")
        with count.one():
            pass
