"""The confirmations that a destination keeps for its sources, by themselves."""

from __future__ import annotations

import msgspec
import pytest

from dray.delivery.confirmation import Outbox, OutboxSnapshot
from dray.delivery.incoming import StreamKey

HERE, THERE = StreamKey("a", 1), StreamKey("b", 1)


def restarted(outbox: Outbox[int]) -> Outbox[int]:
    """The outbox as a checkpoint brings it back."""
    image = msgspec.msgpack.encode(outbox.state())
    return Outbox(msgspec.msgpack.decode(image, type=list[OutboxSnapshot[int]]))


@pytest.fixture
def outbox() -> Outbox[int]:
    outbox: Outbox[int] = Outbox()
    outbox.add(HERE, [11, 12])
    outbox.add(HERE, [13], refused=True)
    outbox.add(THERE, [21])
    return outbox


def test_a_checkpoint_keeps_which_streams_have_ended_and_which_refusals_are_unheard(outbox):
    outbox.ended(THERE)
    again = restarted(outbox)
    assert again.state() == outbox.state()
    assert (again.refused(HERE), again.refused(THERE)) == (3, 0)
    assert (again.has_ended(HERE), again.has_ended(THERE)) == (False, True)
    assert again.after(HERE, 1, 10) == (2, [12, 13])


def test_a_refusal_waits_until_the_source_has_taken_it_and_no_longer(outbox):
    outbox.taken(HERE, 2)
    assert outbox.refused(HERE) == 3
    outbox.taken(HERE, 3)
    assert outbox.refused(HERE) == 0
    assert outbox.taken_upto(HERE) == outbox.last(HERE) == 3


def test_ordinals_that_the_source_heard_of_another_store_are_not_given_again(outbox):
    outbox.go_above(HERE, 2)
    assert outbox.after(HERE, 2, 10) == (3, [11, 12, 13]), "what waits is told again"
    assert (outbox.refused(HERE), outbox.last(HERE)) == (5, 5)
    outbox.taken(HERE, 4)
    outbox.go_above(HERE, 4)
    assert outbox.after(HERE, 0, 10) == (5, [13]), "it was above already"
    outbox.go_above(THERE, 7)
    assert (outbox.refused(THERE), outbox.last(THERE)) == (0, 8)
    new = StreamKey("c", 1)
    outbox.go_above(new, 4)
    assert restarted(outbox).last(new) == 4
    outbox.add(new, [31], refused=True)
    assert (outbox.refused(new), outbox.after(new, 4, 10)) == (5, (5, [31]))
    known = outbox.state()
    outbox.go_above(StreamKey("d", 1), 0)
    assert outbox.state() == known, "a source that has heard nothing leaves nothing"


def test_a_stream_that_has_ended_keeps_no_confirmation_until_it_is_there_again(outbox):
    outbox.ended(THERE)
    outbox.add(THERE, [22], refused=True)
    assert (outbox.after(THERE, 0, 10), outbox.refused(THERE)) == ((2, []), 0)
    outbox.reopened(THERE)
    outbox.add(THERE, [23])
    assert outbox.after(THERE, 0, 10) == (2, [23]), "no ordinal is given twice"


def test_a_stream_that_ended_before_anything_was_told_of_it_begins_with_the_first_ordinal(outbox):
    new = StreamKey("c", 1)
    outbox.ended(new)
    again = restarted(outbox)
    again.reopened(new)
    again.add(new, [31])
    assert again.after(new, 0, 10) == (1, [31])


def test_after_a_backup_no_ordinal_is_given_twice_and_the_refusal_is_the_last_of_the_new_ones(
    outbox,
):
    outbox.taken(THERE, 1)
    outbox.came_from_backup(1000)
    assert outbox.after(HERE, 0, 10) == (1000, [11, 12, 13])
    assert outbox.refused(HERE) == 1002, "the last of what is told again"
    assert (outbox.last(THERE), outbox.refused(THERE)) == (999, 0)
    outbox.came_from_backup(500)
    assert outbox.after(HERE, 0, 10)[0] == 1000, "an earlier one changes nothing"


def test_at_most_as_many_confirmations_as_asked_for_are_given_from_the_first_that_is_kept(outbox):
    outbox.taken(HERE, 1)
    assert outbox.after(HERE, 0, 1) == (2, [12])
    assert outbox.after(HERE, 2, 1) == (3, [13])
    assert outbox.after(HERE, 3, 1) == (4, [])
    assert Outbox().after(HERE, 0, 1) == (1, [])
