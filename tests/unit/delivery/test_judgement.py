"""A peer's position is judged before it counts."""

from __future__ import annotations

import pytest

from dray.delivery.events import (
    Diverged,
    Grown,
    OlderCopy,
    Open,
    OrderAcked,
    PeerForgot,
    PeerState,
    Refused,
    Renewed,
    StreamCondition,
    Transmit,
)
from dray.delivery.judgement import IncarnationMark, PeerPosition, Standing, judge
from dray.delivery.lineage import Past, lineage_of, next_incarnation
from dray.delivery.sequences import renewed_sequence_id
from dray.machine import Tick
from dray.model.ids import Incarnation
from tests.unit.delivery.sender import NOON_ID, NOON_S, Sender, sent

FIRST, SECOND = 0, 1


def sender_of(count, acknowledged=0):
    """A sender whose first incarnation sent `count` messages, of which some were acknowledged."""
    sender = Sender()
    sender.now = float(NOON_S)
    sender.begin_incarnation()
    sender.admit(count)
    sender.meet((0, 0, 0))
    if acknowledged:
        sender.ack(acknowledged)
    return sender


def put_back(sender):
    """The store was copied here, went on elsewhere, and the copy is started in its place."""
    sender.begin_incarnation(drawn=2)
    return sender.incarnations[FIRST].number


def kinds(effects):
    return [type(each) for each in effects]


def test_a_position_that_the_last_incarnation_can_have_sent_counts_as_an_order_ack():
    sender = sender_of(5)
    incarnation = put_back(sender)
    effects = sender.meet((NOON_ID, 3, incarnation))
    assert effects[0] == OrderAcked(3)
    assert sent(effects) == [(0, [4, 5])]
    assert sender.stream.sequence_id == NOON_ID


def test_new_messages_are_never_covered_by_an_order_ack_for_lost_ones():
    sender = sender_of(5)
    incarnation = put_back(sender)
    sender.admit(7)
    effects = sender.meet((NOON_ID, 9, incarnation))
    assert kinds(effects) == [OlderCopy, OrderAcked, Renewed]
    assert effects[1] == OrderAcked(5)
    assert sent(sender.give(Grown())) == [(0, [6, 7, 8]), (8, [9, 10, 11])]


def test_a_store_that_lost_its_last_commit_is_noticed_though_nothing_was_put_back():
    sender = sender_of(5)
    incarnation = put_back(sender)
    del sender.queue.lengths[5]
    sender.stream.last = sender.last = 4
    sender.stream.marks = [sender.stream.marks[-1]._replace(last=4)]
    sender.admit(5)
    effects = sender.meet((NOON_ID, 5, incarnation))
    assert effects[1] == OrderAcked(4)
    assert sorted(sender.queue.lengths) == [5, 6, 7, 8, 9]


def test_a_position_beyond_the_mark_is_that_of_a_copy_also_in_a_later_sequence():
    sender = sender_of(5, acknowledged=5)
    sender.admit(2)
    incarnation = put_back(sender)
    effects = sender.meet((NOON_ID + 1, 3, incarnation))
    assert kinds(effects) == [OlderCopy, OrderAcked, Renewed]
    assert effects[1] == OrderAcked(7)


def test_a_later_sequence_at_the_peer_proves_that_all_of_the_copy_was_delivered():
    sender = sender_of(5)
    incarnation = put_back(sender)
    assert OrderAcked(5) in sender.meet((NOON_ID + 7, 1, incarnation))


def test_a_renewed_sequence_at_the_peer_says_by_its_numbers_what_was_delivered():
    sender = sender_of(5)
    incarnation = put_back(sender)
    effects = sender.meet((renewed_sequence_id(NOON_ID, 0, NOON_S + 10), 2, incarnation))
    assert OrderAcked(2) in effects
    assert sent(sender.give(Grown())) == [(0, [3, 4, 5])]


def test_the_new_sequence_is_above_that_of_the_peer_even_if_the_clock_went_back():
    sender = sender_of(5)
    incarnation = put_back(sender)
    ahead = (NOON_S + 5000) << 32
    assert sender.meet((ahead, 1, incarnation))[-1].sequence_id > ahead


def test_a_peer_that_forgot_all_is_reported_and_sent_what_is_left():
    sender = sender_of(5, acknowledged=4)
    put_back(sender)
    effects = sender.meet((0, 0, 0))
    assert effects[0] == PeerForgot(0, 0)
    assert sent(effects) == [(0, [5])]


def test_a_kill_between_the_judgement_and_the_first_frame_changes_nothing_of_it():
    sender = sender_of(5)
    incarnation = put_back(sender)
    sender.admit(3)
    claim = (NOON_ID, 9, incarnation)
    sender.meet(claim)
    sender.begin_incarnation(drawn=3)
    sender.sent_in = sender.incarnations[SECOND].number
    effects = sender.meet(claim)
    assert kinds(effects)[0] not in (OlderCopy, Diverged)
    assert sorted(sender.queue.lengths) == [6, 7, 8]


def copy_of(sender):
    """Another copy of the store, which was started after the first incarnation."""
    theirs = [sender.incarnations[FIRST]]
    theirs.append(next_incarnation(theirs, 77, sender.incarnations[SECOND].age))
    return theirs


def test_a_copy_that_has_all_our_past_delivered_all_of_it():
    sender = sender_of(5)
    put_back(sender)
    theirs = copy_of(sender)
    effects = sender.meet((NOON_ID, 9, theirs[-1].number), theirs)
    assert kinds(effects) == [OlderCopy, OrderAcked, Renewed]


def test_a_copy_that_sent_no_more_than_ours_delivered_what_it_says():
    sender = sender_of(5)
    put_back(sender)
    theirs = copy_of(sender)
    effects = sender.meet((NOON_ID, 3, theirs[-1].number), theirs)
    assert OrderAcked(3) in effects
    assert kinds(effects)[-1] is Renewed


def test_of_a_copy_that_sent_in_an_earlier_sequence_only_nothing_is_certain_to_be_delivered():
    sender = sender_of(5)
    put_back(sender)
    theirs = copy_of(sender)
    effects = sender.meet((NOON_ID - 1, 9, theirs[-1].number), theirs)
    assert kinds(effects) == [OlderCopy, Renewed]
    assert sorted(sender.queue.lengths) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("why", ["it was copied earlier", "we sent since", "it is unknown"])
def test_a_copy_of_which_nothing_is_certain_stops_the_stream(why):
    sender = sender_of(5)
    put_back(sender)
    theirs = copy_of(sender)
    if why == "it was copied earlier":
        theirs[-1] = theirs[-1]._replace(age=theirs[-1].age - 1)
    elif why == "we sent since":
        sender.sent_in = sender.incarnations[SECOND].number
    else:
        theirs = []
    effects = sender.meet((NOON_ID, 9, copy_of(sender)[-1].number), theirs)
    assert effects == [Diverged(NOON_ID, 9)]
    assert sorted(sender.queue.lengths) == [1, 2, 3, 4, 5]


def test_a_clone_of_a_running_store_stops_the_one_that_runs():
    sender = sender_of(5, acknowledged=2)
    theirs = [sender.incarnations[FIRST]]
    theirs.append(next_incarnation(theirs, 77, 9))
    effects = sender.meet((NOON_ID, 4, theirs[-1].number), theirs)
    assert effects == [Diverged(NOON_ID, 4)]


def test_a_copy_that_delivered_on_another_connection_is_noticed_on_the_one_that_stands():
    """The peer closed the stream here when the copy opened it there, and is asked again here."""
    sender = sender_of(2)
    incarnation = put_back(sender)
    assert sender.meet((NOON_ID, 2, incarnation)) == [OrderAcked(2)]
    sender.give(Refused("the stream is not open on this connection"))
    sender.admit(1)
    (again,) = sender.give(Tick(), at=sender.stream.deadline())
    assert isinstance(again, Open)
    effects = sender.give(PeerState(NOON_ID + 1, 1, sender.stream._question, incarnation))
    assert kinds(effects) == [OlderCopy, Renewed]
    assert sorted(sender.queue.lengths) == [3]


def test_after_this_incarnation_has_sent_anything_a_copy_that_delivered_stops_the_stream():
    sender = sender_of(2)
    theirs = copy_of_first(sender)
    incarnation = put_back(sender)
    sender.meet((NOON_ID, 0, incarnation))
    sender.give(Refused("the stream is not open on this connection"))
    sender.give(Tick(), at=sender.stream.deadline())
    question = sender.stream._question
    effects = sender.give(PeerState(NOON_ID, 9, question, theirs[-1].number, theirs))
    assert effects == [Diverged(NOON_ID, 9)]


def copy_of_first(sender):
    """A copy that leaves our past late, so that it has all of it."""
    theirs = [sender.incarnations[FIRST]]
    return [*theirs, next_incarnation(theirs, 77, 9)]


def test_the_lineage_of_an_incarnation_is_that_of_the_copy_that_had_it():
    one, other = ([Incarnation(1, 0), Incarnation(number, 1)] for number in (2, 20))
    assert [lineage_of([one, other], number) for number in (2, 20, 9)] == [one, other, []]
    assert lineage_of([one, other], 1) == other, "the copy that was met last"


def test_a_copy_whose_past_begins_before_all_that_we_remember_of_ours_leaves_nothing_certain():
    ours = [Incarnation(number, number) for number in (3, 4)]
    theirs = [Incarnation(number, number) for number in (1, 2, 3, 9)]
    past = Past(ours, met=theirs)
    for older in (1, 2):
        assert past.parted_from(older) is None
        assert past.unsent_since(older) is None
    assert past.parted_from(9) == ours[1]


def test_starts_between_which_a_stream_carries_nothing_take_no_place_among_its_marks():
    """Else the oldest marks, of incarnations in which it was used, would be forgotten."""
    sender = Sender()
    sender.begin_incarnation()
    sender.begin_incarnation()
    assert sender.stream.marks == [], "it has never carried anything"
    sender.admit(5)
    for _ in range(3):
        sender.begin_incarnation()
    third = sender.incarnations[2].number
    assert sender.stream.marks == [IncarnationMark(third, 5, NOON_ID, 0)]


def test_a_third_copy_that_lived_on_with_our_incarnations_leaves_nothing_certain():
    """The destination took messages of our second incarnation from a further copy of this store."""
    ours = [Incarnation(1, 0), Incarnation(2, 1), Incarnation(3, 14)]
    other = [Incarnation(1, 0), Incarnation(20, 1), Incarnation(30, 5)]
    assert lineage_of([other], 30, ours) == other
    assert (
        lineage_of([[Incarnation(1, 0), Incarnation(2, 1), Incarnation(9, 8)], other], 30, ours)
        == []
    )


def test_a_position_beyond_all_that_this_incarnation_admitted_stops_the_stream():
    sender = sender_of(2)
    assert sender.meet((NOON_ID, 5, sender.incarnations[-1].number)) == [Diverged(NOON_ID, 5)]


def diverged():
    sender = sender_of(5)
    assert sender.meet((NOON_ID, 9, 12345)) == [Diverged(NOON_ID, 9)]
    return sender


def test_divergence_survives_restarts_and_never_heals_unsaid():
    sender = diverged()
    for drawn in (2, 3):
        sender.begin_incarnation(drawn)
        sender.admit(9)
        assert sender.meet((NOON_ID, 9, sender.incarnations[FIRST].number)) == []
        assert sender.stream.condition is StreamCondition.DIVERGED
    assert len(sender.queue.lengths) == 5 + 2 * 9


def test_nothing_a_peer_says_counts_while_a_stream_has_diverged():
    sender = diverged()
    assert sender.give(Refused("full", NOON_ID, 5, sender.stream._question)) == []
    assert sender.give(PeerState(NOON_ID, 5, sender.stream._question)) == []
    assert not sender.stream.wants_link
    assert sender.stream.deadline() is None


def test_a_resolved_stream_sends_all_that_is_left_in_a_new_sequence():
    sender = diverged()
    sender.stream.resolved()
    sender.begin_incarnation(2)
    effects = sender.meet((NOON_ID, 9, 12345))
    assert kinds(effects) == [Renewed]
    assert sent(sender.give(Grown())) == [(0, [1, 2, 3]), (3, [4, 5])]


def test_a_refusal_with_a_position_is_judged_like_any_other():
    sender = sender_of(5)
    incarnation = put_back(sender)
    sender.admit(7)
    sender.connect_silently()
    effects = sender.give(
        Refused("full", NOON_ID, 9, sender.stream._question, incarnation=incarnation)
    )
    assert kinds(effects) == [OlderCopy, OrderAcked, Renewed]
    assert len(sender.queue.lengths) == 7


def test_a_position_that_was_judged_is_not_judged_again_by_a_later_incarnation():
    sender = sender_of(5)
    incarnation = put_back(sender)
    sender.meet((NOON_ID, 9, incarnation))
    assert sender.stream.judged == PeerPosition(NOON_ID, 9, incarnation)
    sender.restart()
    assert sender.stream.judged == PeerPosition(NOON_ID, 9, incarnation)


def another_copy(sender, drawn):
    """A copy that parts from us after our first incarnation, with all of our past of then."""
    theirs = [sender.incarnations[FIRST]]
    return [*theirs, next_incarnation(theirs, drawn, 9)]


def test_a_known_position_that_a_copy_has_reached_again_stops_the_stream():
    """The peer was put back, and took from the copy what it had taken from here before."""
    sender = sender_of(5, acknowledged=3)
    theirs = another_copy(sender, 77)
    assert sender.meet((NOON_ID, 3, theirs[-1].number), theirs) == [Diverged(NOON_ID, 3)]


def test_a_judged_position_that_the_peer_states_again_is_not_judged_twice():
    sender = sender_of(5)
    put_back(sender)
    theirs = another_copy(sender, 77)
    claim = NOON_ID, 9, theirs[-1].number
    sender.meet(claim, theirs)
    sender.admit(1)
    sender.sent_in = sender.incarnations[SECOND].number
    assert kinds(sender.meet(claim, theirs)) == [Transmit]


@pytest.mark.parametrize(("delivered", "verdict"), [(9, PeerForgot), (2, Diverged)])
def test_a_third_copy_below_the_judged_position_fits_if_all_that_it_can_hold_is_acknowledged(
    delivered, verdict
):
    """The peer was put back to a time before it took anything from the copy that was judged."""
    sender = sender_of(5)
    put_back(sender)
    second = another_copy(sender, 77)
    sender.meet((NOON_ID, delivered, second[-1].number), second)
    sender.admit(1)
    sender.sent_in = sender.incarnations[SECOND].number
    third = another_copy(sender, 78)
    effects = sender.meet((NOON_ID, 1, third[-1].number), third)
    assert kinds(effects)[0] is verdict


def test_a_position_that_a_copy_reached_above_the_judged_one_is_judged():
    sender = sender_of(5)
    put_back(sender)
    second = another_copy(sender, 77)
    sender.meet((NOON_ID, 9, second[-1].number), second)
    sender.admit(1)
    sender.sent_in = sender.incarnations[SECOND].number
    third = another_copy(sender, 78)
    assert sender.meet((NOON_ID, 10, third[-1].number), third) == [Diverged(NOON_ID, 10)]


def test_a_number_without_a_sequence_was_never_stated():
    nothing = IncarnationMark(0, 0, 0, 0)
    past = Past((Incarnation(1 << 32, 0),))
    known = judge(PeerPosition(0, 0, 0), past, [], nothing)
    assert known.standing is Standing.FITS
    unknown = judge(PeerPosition(0, 1, 0), past, [], nothing)
    assert unknown.standing is Standing.OLDER_COPY


def test_incarnations_are_numbered_upwards_and_only_the_lower_half_is_drawn():
    first = next_incarnation([], (5 << 32) | 7, 0)
    second = next_incarnation([first], (5 << 32) | 9, 3)
    assert [first.number, second.number] == [(1 << 32) | 7, (2 << 32) | 9]
    assert second.age == 3
