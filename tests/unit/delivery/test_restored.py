"""A stream restored from a backup: what its peer has counts, the rest goes in a new sequence."""

from __future__ import annotations

import pytest

from dray.delivery.events import (
    Confirmed,
    Diverged,
    Grown,
    LinkReady,
    Open,
    PeerForgot,
    PeerState,
    Renewed,
)
from dray.delivery.sequences import restored_sequence_id
from tests.unit.delivery.sender import NOON_ID, NOON_S, NOON_US, Sender, sent

LATER_S = NOON_S + 1000
RESTORED_ID = restored_sequence_id(NOON_ID, 0, LATER_S)


def restored(count=5, acknowledged=0):
    """A sender whose backup held messages 1 to `count`; the peer had acknowledged some by then."""
    sender = Sender()
    sender.admit(count)
    if acknowledged:
        sender.connect()
        sender.ack(acknowledged)
    sender.stream.came_from_backup(LATER_S)
    sender.restart()
    sender.last = LATER_S
    sender.now = float(LATER_S)
    return sender


def asked(sender, sequence_id, upto):
    """What the stream does when the peer says what it has, and what it then sends."""
    assert sender.give(LinkReady()) == [Open()]
    effects = sender.give(PeerState(sequence_id, upto))
    for each in effects:
        if isinstance(each, Renewed):
            sender.stream.renewed(each.sequence_id)
    return effects, sent(sender.give(Grown()))


def test_what_the_peer_has_of_the_same_sequence_is_delivered_and_the_rest_goes_in_a_new_one():
    effects, data = asked(restored(), NOON_ID, 3)
    assert effects == [Confirmed(3), Renewed(RESTORED_ID)]
    assert data == [(0, [4, 5])]


def test_what_the_peer_has_beyond_the_backup_does_not_stop_the_stream():
    effects, data = asked(restored(), NOON_ID, 9)
    assert effects == [Confirmed(5), Renewed(RESTORED_ID)]
    assert data == []


def test_a_later_sequence_at_the_peer_proves_that_all_of_the_backup_was_delivered():
    effects, data = asked(restored(), NOON_ID + 7, 1)
    assert effects[0] == Confirmed(5)
    assert data == []


def test_a_sequence_of_an_earlier_restore_says_by_its_numbers_what_was_delivered():
    effects, data = asked(restored(), restored_sequence_id(NOON_ID, 0, NOON_S + 10), 2)
    assert effects[0] == Confirmed(2)
    assert data == [(0, [3, 4, 5])]


def test_the_new_sequence_is_above_that_of_the_peer_even_if_the_clock_went_back():
    ahead = (LATER_S + 5000) << 32
    effects, _ = asked(restored(), ahead, 1)
    assert effects[-1].sequence_id > ahead


def test_a_peer_that_has_nothing_is_sent_the_whole_backup():
    effects, data = asked(restored(), 0, 0)
    assert effects == [Renewed(RESTORED_ID)]
    assert data == [(0, [1, 2, 3]), (3, [4, 5])]


def test_a_peer_that_is_an_old_copy_too_is_reported_and_sent_what_is_left():
    effects, data = asked(restored(acknowledged=4), NOON_ID, 2)
    assert effects == [PeerForgot(NOON_ID, 2), Renewed(RESTORED_ID)]
    assert data == [(0, [5])]


def test_what_is_admitted_before_the_peer_was_asked_is_in_no_sequence_yet():
    sender = restored(acknowledged=5)
    sender.admit(2)
    assert sender.stream.sequence_id == NOON_ID
    effects, data = asked(sender, NOON_ID + 7, 3)
    assert effects == [Renewed(restored_sequence_id(NOON_ID + 7, 0, LATER_S))]
    assert data == [(0, [LATER_S + 1, LATER_S + 2])]


@pytest.mark.parametrize(
    ("began", "delivered"),
    [(NOON_S + 500, 5), (LATER_S + 1, LATER_S + 2)],
    ids=["before the first restore", "after the first restore"],
)
def test_a_stream_restored_again_before_it_asked_knows_which_life_a_sequence_is_from(
    began, delivered
):
    sender = restored()
    sender.admit(2)
    sender.stream.came_from_backup(LATER_S + 50)
    sender.restart()
    effects, _ = asked(sender, began << 32, 1)
    assert effects[0] == Confirmed(delivered)


def test_the_sequence_after_the_restored_one_counts_from_one_again():
    sender = restored()
    asked(sender, NOON_ID, 5)
    sender.admit(1, when_us=NOON_US)
    assert sender.stream.sequence_id > RESTORED_ID
    assert sent(sender.connect(NOON_ID, 9)) == [(0, [1])]


def test_once_renewed_a_peer_that_has_more_than_was_sent_stops_the_stream_again():
    sender = restored()
    asked(sender, NOON_ID, 3)
    assert isinstance(sender.connect(RESTORED_ID + (1 << 40), 1)[0], Diverged)


def test_the_mark_of_a_restore_survives_a_restart_and_ends_with_the_new_sequence():
    sender = restored()
    assert sender.stream.restored == [(5, LATER_S)]
    asked(sender, NOON_ID, 3)
    sender.restart()
    assert sender.stream.restored == []
    assert (sender.stream.sequence_id, sender.stream.base) == (RESTORED_ID, 0)
