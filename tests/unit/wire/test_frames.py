"""The vocabulary: codes, defaults, errors that travel."""

from __future__ import annotations

import pytest

from dray.errors import DrayError, QuotaExceeded, every_error, from_code
from dray.wire.frames import FRAME_TYPES, Failed, Head, failure
from tests.unit.wire.speech import encoded, heard


def test_every_frame_has_a_code_of_its_own():
    assert len(FRAME_TYPES) == len(Head.__subclasses__())
    assert all(code == cls.code for code, cls in FRAME_TYPES.items())
    assert all(0 < code < 256 for code in FRAME_TYPES)


@pytest.mark.parametrize("cls", every_error().values(), ids=lambda cls: cls.code)
def test_every_error_travels_whole(cls):
    error = cls("what happened, to what, what to do", queue="orders", size=3)
    (head, _, _), *_ = heard(encoded(failure(error), 9))
    assert isinstance(head, Failed)
    again = from_code(head.error, head.sentence, head.fields)
    assert type(again) is cls
    assert str(again) == str(error)
    assert again.fields == error.fields


def test_an_error_of_a_later_version_is_still_an_error():
    again = from_code("not-yet-invented", "a sentence", {"x": 1})
    assert type(again) is DrayError
    assert str(again) == "a sentence"


def test_the_fields_of_an_error_are_its_attributes():
    error = QuotaExceeded("full", quota="queue", limit=10, used=9, requested=2)
    head = failure(error)
    again = from_code(head.error, head.sentence, head.fields)
    assert isinstance(again, QuotaExceeded)
    assert (again.quota, again.limit, again.used, again.requested) == ("queue", 10, 9, 2)
