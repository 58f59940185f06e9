"""Numbering, the window, going back, acks and the resend schedule of one outgoing stream."""

from __future__ import annotations

import pytest

from dray.delivery.events import (
    DeliverySettings,
    Diverged,
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    Open,
    OrderAcked,
    PassOver,
    Paused,
    PeerForgot,
    PeerState,
    Refused,
    StreamCondition,
    Unpaused,
)
from dray.delivery.keys import ManagerKey
from dray.delivery.outgoing import OutgoingStream
from dray.delivery.receipts import Receipt, write_receipt
from dray.machine import Tick
from dray.model.limits import WINDOW_FRAMES_MIN
from tests.unit.delivery.sender import NOON_ID, NOON_US, SETTINGS, Queue, Sender, sent

# ------------------------------------------------------------------------- numbers and sequences


def test_the_first_sequence_takes_its_id_from_the_time_of_day_and_counts_from_one():
    sender = Sender()
    sender.admit(2)
    assert sender.stream.sequence_id == NOON_ID
    assert sent(sender.connect()) == [(0, [1, 2])]


def test_a_sequence_stays_open_while_anything_is_unacknowledged():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.ack(1)
    assert sent(sender.admit(1)) == [(2, [3])]
    assert sender.stream.sequence_id == NOON_ID


def test_the_next_admission_after_everything_was_acknowledged_begins_a_new_sequence():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.ack(2)
    assert sent(sender.admit(1)) == [(0, [1])]
    assert sender.stream.sequence_id == NOON_ID + 1


def test_a_sequence_id_only_ever_rises_even_if_the_clock_goes_back():
    sender = Sender()
    sender.admit(1)
    sender.connect()
    sender.ack(1)
    sender.admit(1, when_us=NOON_US - 3_600_000_000)
    assert sender.stream.sequence_id == NOON_ID + 1


def test_numbers_do_not_change_over_a_restart():
    sender = Sender()
    sender.admit(3)
    sender.connect()
    sender.ack(2)
    before = sender.stream.state()
    sender.restart()
    assert sender.stream.state() == before
    assert sent(sender.connect(NOON_ID, 2)) == [(0, [3])]


def test_admissions_must_follow_each_other():
    stream = OutgoingStream(1, "orders", Queue())
    stream.admitted(1, 3, NOON_US)
    with pytest.raises(AssertionError, match="joined after 3"):
        stream.admitted(3, 4, NOON_US)


def test_what_was_never_admitted_cannot_be_acknowledged():
    stream = OutgoingStream(1, "orders", Queue())
    with pytest.raises(AssertionError, match="only 0 ever admitted"):
        stream.acknowledged(1)


# ------------------------------------------------------------------------------ the conversation


def test_a_connection_begins_with_the_question_what_the_peer_has():
    sender = Sender()
    sender.admit(1)
    assert sender.give(LinkReady()) == [Open()]
    assert sender.stream.condition is StreamCondition.WAITING


def test_nothing_is_asked_while_nothing_waits():
    sender = Sender()
    assert sender.give(LinkReady()) == []
    assert sender.stream.condition is StreamCondition.INACTIVE
    assert sender.admit(1) == [Open()]


def test_nothing_is_sent_without_a_connection():
    sender = Sender()
    assert sender.admit(2) == []
    assert sender.stream.wants_link
    assert sender.stream.deadline() is None


def test_a_peer_is_heard_while_a_connection_stands():
    sender = Sender()
    sender.admit(1)
    assert not sender.stream.hears
    sender.connect()
    assert sender.stream.hears
    sender.give(LinkLost())
    assert not sender.stream.hears


def test_a_new_connection_goes_back_to_the_first_unacknowledged():
    sender = Sender()
    sender.admit(5)
    sender.connect()
    sender.ack(2)
    sender.give(LinkLost())
    assert sender.stream.in_flight == (0, 0)
    assert sent(sender.connect(NOON_ID, 2)) == [(0, [3, 4, 5])]


def test_the_answer_to_the_question_counts_as_an_order_ack():
    sender = Sender()
    sender.admit(5)
    sender.connect()
    sender.give(LinkLost())
    effects = sender.connect(NOON_ID, 3)
    assert effects[0] == OrderAcked(3)
    assert sent(effects) == [(0, [4, 5])]
    assert sender.stream.condition is StreamCondition.CONNECTED


def test_every_word_that_lets_the_stream_go_on_ends_the_silence_of_the_peer():
    sender = Sender()
    assert sender.stream.silent_since is None
    sender.admit(4)
    sender.give(LinkReady(), at=1.0)
    assert sender.stream.silent_since == 1.0
    sender.give(Tick(), at=31.0)
    assert sender.stream.silent_since == 1.0
    sender.give(PeerState(0, 0), at=40.0)
    assert sender.stream.silent_since == 40.0, "it has messages now"
    sender.give(PeerState(NOON_ID, 2), at=50.0)
    assert sender.stream.silent_since == 50.0, "it still has some"
    sender.give(Refused("full"), at=60.0)
    assert sender.stream.silent_since == 60.0
    sender.give(LinkLost(), at=70.0)
    sender.give(LinkReady(), at=80.0)
    assert sender.stream.silent_since == 80.0


def test_a_peer_at_an_older_sequence_is_sent_everything():
    sender = Sender()
    sender.admit(2)
    assert sent(sender.connect(NOON_ID - 1, 99)) == [(0, [1, 2])]


def test_an_unanswered_question_is_asked_again_by_the_schedule():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    assert sender.give(Grown()) == []
    assert sender.stream.deadline() == 30.0
    assert sender.give(Tick(), at=29.0) == []
    assert sender.give(Tick(), at=30.0) == [Open()]


def test_a_refused_stream_keeps_its_messages_and_asks_again():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    assert sender.give(Refused("no queue orders")) == []
    assert sender.stream.refusals.current.sentence == "no queue orders"
    assert sender.give(Grown()) == []
    assert sender.give(Tick(), at=30.0) == [Open()]
    assert sent(sender.give(PeerState(0, 0))) == [(0, [1])]


def test_a_refused_stream_asks_again_at_once_when_the_peer_has_room():
    sender = Sender(SETTINGS._replace(frame_messages=2))
    sender.admit(5)
    sender.connect()
    sender.give(Refused("the computer quota would be exceeded"))
    assert sender.give(Invited()) == [Open()]
    assert sent(sender.give(PeerState(0, 0))) == [(0, [1, 2])]
    assert sender.give(Grown()) == []
    rest = [(0, [3, 4]), (4, [5])]
    assert sent(sender.give(PeerState(NOON_ID, 2))[1:]) == rest


def test_what_was_left_out_of_a_frame_is_sent_again_when_the_peer_has_room():
    """One frame, until it is seen that there is room for all of one."""
    sender = Sender(SETTINGS._replace(frame_messages=2))
    sender.admit(5)
    assert sent(sender.connect()) == [(0, [1, 2]), (2, [3, 4]), (4, [5])]
    assert sender.give(PeerState(NOON_ID, 1)) == [OrderAcked(1)]
    assert sent(sender.give(Invited())) == [(0, [2, 3])]
    assert sender.give(PeerState(NOON_ID, 2)) == [OrderAcked(2)]
    assert sender.stream.deadline() is not None
    assert sent(sender.give(Invited())) == [(0, [3, 4])]
    assert sent(sender.give(PeerState(NOON_ID, 4))[1:]) == [(0, [5])]


@pytest.mark.parametrize("state", ["silent", "asked", "paused"])
def test_room_at_a_peer_that_was_not_sent_anything_changes_nothing(state):
    sender = Sender()
    sender.admit(1)
    if state != "silent":
        sender.give(LinkReady())
    if state == "paused":
        sender.give(PeerState(0, 0))
        sender.give(Paused())
    assert sender.give(Invited()) == []


def test_a_refusal_after_the_connection_is_gone_means_nothing():
    sender = Sender()
    sender.admit(1)
    sender.give(Refused("late"))
    assert sender.stream.deadline() is None
    assert sender.stream.counters.refusals == 0


def test_a_stream_can_be_refused_in_the_middle():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.give(Refused("the queue was deleted"))
    assert sender.stream.in_flight == (0, 0)
    assert sender.give(PeerState(NOON_ID, 1)) == []
    assert sender.stream.counters.ignored_acks == 1


# ------------------------------------------------------------------------------------ the window


def test_no_more_messages_are_in_flight_than_the_window_holds():
    sender = Sender(SETTINGS._replace(window_messages=4))
    sender.admit(9)
    assert sent(sender.connect()) == [(0, [1, 2, 3]), (3, [4])]
    assert sender.stream.in_flight == (4, 40)
    assert sent(sender.ack(2)) == [(4, [5, 6])]
    assert sender.stream.in_flight == (4, 40)


@pytest.mark.parametrize("window_bytes", [30, 35])
def test_no_more_bytes_are_in_flight_than_the_window_holds(window_bytes):
    sender = Sender(SETTINGS._replace(window_bytes=window_bytes))
    sender.admit(5)
    assert sent(sender.connect()) == [(0, [1, 2, 3])]
    assert sender.admit(1) == []


def test_the_window_is_filled_as_long_as_it_has_room_for_a_frame_worth_sending():
    least = SETTINGS.frame_bytes
    sender = Sender(SETTINGS._replace(window_bytes=least * WINDOW_FRAMES_MIN, window_messages=99))
    sender.admit(WINDOW_FRAMES_MIN, length=least)
    assert len(sent(sender.connect())) == WINDOW_FRAMES_MIN


def test_a_message_larger_than_the_window_travels_alone():
    sender = Sender(SETTINGS._replace(window_bytes=5))
    sender.admit(2)
    assert sent(sender.connect()) == [(0, [1])]
    assert sent(sender.ack(1)) == [(0, [2])]


def test_frames_are_packed_up_to_their_bounds():
    sender = Sender(SETTINGS._replace(frame_bytes=25))
    sender.admit(5)
    assert sent(sender.connect()) == [(0, [1, 2]), (2, [3, 4]), (4, [5])]


def test_the_house_settings_fit_a_frame():
    settings = DeliverySettings()
    assert settings.frame_bytes <= 4 << 20
    assert settings.frame_messages <= 256
    assert OutgoingStream(1, "q", Queue()).state().queue == "q"


# ------------------------------------------------------------------------------ previous numbers


def test_expired_messages_are_bridged_by_previous_numbers():
    sender = Sender()
    sender.admit(6)
    sender.expire(2, 3, 5)
    assert sent(sender.connect()) == [(0, [1, 4, 6])]


def test_what_expired_in_flight_is_bridged_when_it_is_resent():
    sender = Sender()
    sender.admit(5)
    sender.connect()
    sender.expire(1, 2)
    assert sent(sender.give(Tick(), at=30.0)) == [(0, [3, 4, 5])]


def test_a_queue_that_expired_whole_neither_waits_nor_resends():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.expire(1, 2)
    assert sender.give(Tick(), at=30.0) == [PassOver(NOON_ID, 0, 2)]
    assert sender.ack(2) == [OrderAcked(2)]
    assert sender.stream.deadline() is None
    assert sent(sender.admit(1)) == [(0, [1])]


def test_what_has_gone_behind_all_that_was_sent_is_passed_over_once_and_again_if_unheard():
    sender = Sender()
    sender.admit(5)
    sender.expire(3, 4, 5)
    effects = sender.connect()
    assert sent(effects) == [(0, [1, 2])]
    assert effects[-1] == PassOver(NOON_ID, 2, 5)
    assert sender.ack(2) == [OrderAcked(2)]
    assert sender.stream.deadline() == 30.0
    assert sender.give(Tick(), at=30.0) == [PassOver(NOON_ID, 0, 5)]
    assert sender.connect(NOON_ID, 2) == [PassOver(NOON_ID, 0, 5)]
    assert sender.ack(5) == [OrderAcked(5)]
    assert sender.stream.deadline() is None


def test_what_the_window_has_no_room_for_is_not_passed_over():
    sender = Sender()
    sender.admit(8)
    sender.expire(8)
    effects = sender.connect()
    assert not [each for each in effects if isinstance(each, PassOver)]
    assert PassOver(NOON_ID, 7, 8) in sender.ack(3)


def test_what_is_too_little_for_a_frame_of_its_own_is_not_passed_over():
    sender = Sender()
    sender.admit(1, SETTINGS.window_bytes - SETTINGS.window_bytes // WINDOW_FRAMES_MIN + 1)
    sender.admit(2, 1)
    sender.expire(3)
    effects = sender.connect()
    assert sent(effects) == [(0, [1])]
    assert not [each for each in effects if isinstance(each, PassOver)]
    effects = sender.ack(1)
    assert sent(effects) == [(0, [2])]
    assert effects[-1] == PassOver(NOON_ID, 2, 3)


def test_positions_that_are_reserved_and_not_taken_yet_are_not_passed_over():
    sender = Sender()
    sender.admit(5)
    sender.expire(3, 4, 5)
    sender.stream.untaken = 2
    effects = sender.connect()
    assert effects[-1] == PassOver(NOON_ID, 2, 3)
    assert sender.stream.next_number == 4
    # One of them is taken.
    sender.queue.lengths[4] = 10
    sender.stream.untaken = 1
    assert sent(sender.give(Grown())) == [(2, [4])]
    assert sender.stream.next_number == 5
    # What joins by a fact joins behind all of them: those left will never come.
    assert sent(sender.admit(1)) == [(4, [6])]
    assert sender.stream.untaken == 0
    # After a restart there are no reserved positions: those left will never come either.
    sender.stream.untaken = 2
    sender.restart()
    assert sender.stream.next_number == 7


# ---------------------------------------------------------------------------------- acks, resend


def test_an_order_ack_is_cumulative():
    sender = Sender()
    sender.admit(6)
    sender.connect()
    assert sender.ack(4) == [OrderAcked(4)]
    assert sender.stream.in_flight == (2, 20)
    assert sender.stream.counters.last_ack == 4


@pytest.mark.parametrize("upto", [0, 2])
def test_an_old_order_ack_changes_nothing(upto):
    sender = Sender()
    sender.admit(4)
    sender.connect()
    sender.ack(2)
    assert sender.ack(upto) == []


def test_everything_unacknowledged_is_resent_when_the_wait_is_over():
    sender = Sender()
    sender.admit(4)
    sender.connect()
    sender.ack(1)
    assert sent(sender.give(Tick(), at=30.0)) == [(0, [2, 3, 4])]
    assert sender.stream.counters.resends == 1


def test_the_waits_follow_the_schedule_and_its_last_step_repeats():
    sender = Sender()
    sender.admit(1)
    sender.connect()
    waits = []
    for _ in range(5):
        due = sender.stream.deadline()
        waits.append(due - sender.now)
        sender.give(Tick(), at=due)
    assert waits == [30.0, 30.0, 300.0, 300.0, 300.0]


def test_the_waits_of_the_house_settings_are_those_of_the_protocol():
    sender = Sender(DeliverySettings())
    sender.admit(1)
    sender.connect()
    waits = []
    for _ in range(11):
        due = sender.stream.deadline()
        waits.append(due - sender.now)
        sender.give(Tick(), at=due)
    assert waits == [30.0] * 3 + [300.0] * 3 + [1800.0] * 3 + [21600.0] * 2


def test_progress_begins_the_schedule_anew():
    sender = Sender()
    sender.admit(3)
    sender.connect()
    sender.give(Tick(), at=30.0)
    sender.give(Tick(), at=60.0)
    sender.ack(1)
    assert sender.stream.deadline() == 60.0 + 30.0


def test_a_new_connection_begins_the_schedule_anew():
    sender = Sender()
    sender.admit(1)
    sender.connect()
    for at in (30.0, 60.0, 360.0):
        sender.give(Tick(), at=at)
    sender.give(LinkLost())
    sender.connect()
    assert sender.stream.deadline() == 360.0 + 30.0


def test_nothing_in_flight_means_no_deadline():
    sender = Sender()
    sender.admit(3)
    sender.connect()
    sender.ack(3)
    assert sender.stream.deadline() is None


# --------------------------------------------------------------------------------- pause, resume


def test_a_paused_stream_sends_nothing_and_waits_for_nothing():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.give(Paused())
    assert sender.admit(1) == []
    assert sender.stream.deadline() is None
    assert not sender.stream.wants_link
    assert sender.stream.condition is StreamCondition.ON_HOLD
    assert sender.ack(1) == [OrderAcked(1)]
    assert sender.stream.deadline() is None


def test_a_resumed_stream_goes_on_where_it_was():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.give(Paused())
    sender.admit(1)
    assert sent(sender.give(Unpaused())) == [(2, [3])]
    assert sender.stream.deadline() == 30.0


def test_a_pause_outlasts_the_connection():
    sender = Sender()
    sender.admit(1)
    sender.give(Paused())
    assert sender.give(LinkReady()) == []
    assert sender.give(Unpaused()) == [Open()]


def test_a_question_asked_before_a_pause_is_still_waited_for_after_it():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    sender.give(Paused())
    assert sender.give(Unpaused()) == []
    assert sender.stream.deadline() == 30.0


def test_resuming_asks_a_peer_that_refused_at_once():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    sender.give(Refused("no"))
    sender.give(Paused())
    assert sender.give(Unpaused()) == [Open()]


def test_an_answer_that_comes_during_a_pause_is_acted_on_after_it():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    sender.give(Paused())
    assert sender.give(PeerState(0, 0)) == []
    assert sent(sender.give(Unpaused())) == [(0, [1])]


# ------------------------------------------------------------------------ peers that know otherwise


@pytest.mark.parametrize("claim", [(NOON_ID, 3), (NOON_ID + 1, 1)])
def test_a_peer_that_has_more_than_was_ever_sent_stops_the_stream_and_nothing_is_lost(claim):
    sender = Sender()
    sender.admit(2)
    assert sender.connect(*claim) == [Diverged(*claim)]
    assert sender.stream.condition is StreamCondition.DIVERGED
    assert sender.admit(1) == []
    assert sorted(sender.queue.lengths) == [1, 2, 3]


def test_a_peer_that_acknowledged_all_before_this_sequence_has_forgotten_nothing():
    sender = Sender()
    sender.admit(2)
    sender.connect()
    sender.ack(2)
    sender.admit(1)
    sender.stream.acknowledged(2)
    assert sender.stream.heard == (NOON_ID, 2)
    assert sent(sender.connect(NOON_ID, 2)) == [(0, [1])]


def test_the_receipt_that_comes_with_an_order_ack_is_kept_for_the_manager_that_wrote_it():
    key = ManagerKey(b"a" * 32)
    receipts = [write_receipt(key, Receipt(1, age, 0)) for age in (5, 6)]
    sender = Sender()
    sender.admit(2)
    for receipt in receipts:
        sender.stream.acknowledged(2, receipt)
        assert sender.stream.receipt_of(key.id) == receipt
    sender.restart()
    assert sender.stream.receipt_of(key.id) == receipts[-1]
    assert sender.stream.receipt_of("ab" * 16) == b""


@pytest.mark.parametrize("memory", [(0, 0), (NOON_ID, 1), (NOON_ID - 5, 40)])
def test_a_peer_that_forgot_what_it_acknowledged_is_reported_and_goes_on(memory):
    sender = Sender()
    sender.admit(4)
    sender.connect()
    sender.ack(2)
    sender.give(LinkLost())
    effects = sender.connect(*memory)
    assert effects[0] == PeerForgot(*memory)
    assert sent(effects) == [(0, [3, 4])]


def test_what_was_said_before_the_last_question_is_not_taken_for_its_answer():
    """Three answers were held up on the way; what is sent after the first is beyond the others."""
    sender = Sender()
    sender.admit(2)
    sender.give(LinkReady())
    sender.give(Tick(), at=30.0)
    sender.give(Tick(), at=60.0)
    assert sender.asked == [1, 2, 3]
    assert sender.give(PeerState(0, 0, 1)) == []
    assert sender.give(Refused("queue-not-found", question=2)) == []
    assert sender.stream.is_stale(2)
    assert sender.stream.counters.ignored_acks == 2
    assert sent(sender.give(PeerState(0, 0, 3))) == [(0, [1, 2])]
    assert sender.give(Refused("queue-not-found", question=2)) == []
    assert sender.stream.in_flight == (2, 20)
    assert sender.stream.condition is StreamCondition.CONNECTED


@pytest.mark.parametrize("refused", [False, True])
def test_what_was_said_before_the_last_question_counts_as_an_order_ack(refused):
    """Confirmations of what it acknowledges come behind it."""
    sender = Sender()
    sender.admit(3)
    sender.connect()
    sender.give(LinkReady())
    sender.give(Tick(), at=30.0)
    sequence_id = sender.stream.sequence_id
    stale = PeerState(sequence_id, 2, sender.asked[-2])
    said = Refused("queue-not-found", *stale) if refused else stale
    assert sender.give(said) == [OrderAcked(2)]
    assert sender.give(said) == []
    assert sender.give(PeerState(sequence_id - 1, 3, sender.asked[-2])) == []
    assert sent(sender.give(PeerState(sequence_id, 2, sender.asked[-1]))) == [(0, [3])]


def test_an_answer_to_no_question_sends_nothing():
    sender = Sender()
    sender.admit(1)
    sender.give(LinkReady())
    assert sender.stream.handle(PeerState(0, 0, question=0), sender.now) == []
    assert sender.stream.in_flight == (0, 0)


def test_a_refusal_by_a_peer_that_forgot_what_it_acknowledged_is_reported():
    sender = Sender()
    sender.admit(4)
    sender.connect()
    sender.ack(2)
    effects = sender.give(Refused("full", NOON_ID, 1))
    assert effects == [PeerForgot(NOON_ID, 1)]
    assert sender.give(Refused("full", NOON_ID, 2)) == [], "that is what it acknowledged"
    assert sender.give(Refused("full", NOON_ID, 3)) == [OrderAcked(3)]


def test_a_message_is_in_flight_from_its_frame_to_its_order_ack_or_the_end_of_the_connection():
    def in_flight():
        return [each for each in range(9) if sender.stream.is_in_flight(each)]

    sender = Sender()
    sender.admit(8)
    assert in_flight() == []
    sender.connect()
    assert in_flight() == [1, 2, 3, 4, 5, 6], "the window has room for six"
    sender.ack(2)
    assert in_flight() == [3, 4, 5, 6, 7, 8]
    sender.give(LinkLost())
    assert in_flight() == []
