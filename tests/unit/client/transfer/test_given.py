"""Which calls of one handle may be given a file that is offered to one, or to many."""

from __future__ import annotations

import pytest

from dray.client.transfer.given import Given
from dray.client.transfer.reference import Reference

ID = "0" * 32


def offered_to(consumers) -> Reference:
    return Reference(
        transfer=ID,
        label="",
        size=0,
        digest="",
        fragment_size=1,
        window_size=1,
        consumers=consumers,
    )


def test_what_is_for_one_is_given_once():
    given = Given()
    first, second = given.begin_call(), given.begin_call()
    assert given.may_be_given(offered_to("one"), first)
    given.add(ID)
    assert ID in given
    assert not given.may_be_given(offered_to("one"), second)


def test_what_is_for_many_is_given_to_every_call_that_began_before_the_handle_was_done_with_it():
    given = Given()
    waiting, first = given.begin_call(), given.begin_call()
    given.add(ID)
    given.note_done([ID])
    late = given.begin_call()
    # Noted again, as every call does: it is not done with later because of that.
    given.note_done([ID])
    assert [given.may_be_given(offered_to("many"), each) for each in (waiting, first, late)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("consumers", ["one", "many"])
def test_what_was_never_given_may_be_given(consumers):
    given = Given()
    given.note_done(["1" * 32])
    assert given.may_be_given(offered_to(consumers), given.begin_call())
