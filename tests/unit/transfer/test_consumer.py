"""The consumer's decisions, one promise each."""

from __future__ import annotations

import pytest

from dray.errors import (
    LargeMessageCorrupt,
    TransferCancelled,
    TransferRefused,
    TransferSourceChanged,
    TransferTimeout,
)
from dray.machine import Tick
from dray.model.limits import TRANSFER_RETRY_S
from dray.model.transfer import TransferState
from dray.transfer.consumer import Consumer
from dray.transfer.events import (
    Begin,
    Cancel,
    Check,
    Checked,
    Disconnected,
    FragmentCame,
    Heard,
    Keep,
    Resume,
    StartOver,
    Stirred,
    Suspend,
    Tell,
    Terms,
    WriteFragment,
)
from dray.wire.transfer_frames import (
    Acked,
    Cancelled,
    Farewell,
    Handshake,
    Joined,
    JoinRefused,
    Resumed,
    Spoiled,
    Suspended,
    Verified,
    Wanted,
)

TERMS = Terms(95, 10, 4)
ROUND = 7


def make(expected: int = 0, terms: Terms = TERMS, *, verified: bool = False) -> Consumer:
    return Consumer("a", "t", terms, expected=expected, verified=verified)


def joined(start: int = 0, round_: int = ROUND) -> Heard:
    return Heard(Joined("a", "1", round_, start))


def receiving(expected: int = 0, terms: Terms = TERMS) -> Consumer:
    consumer = make(expected, terms)
    consumer.handle(Begin(), 0.0)
    consumer.handle(joined(expected), 0.0)
    return consumer


def piece(consumer: Consumer, number: int, *, intact: bool = True, now: float = 0.0):
    return consumer.handle(FragmentCame(number, consumer.terms.length(number), intact), now)


def whole(terms: Terms = TERMS) -> Consumer:
    consumer = receiving(0, terms)
    for number in range(terms.fragment_count):
        piece(consumer, number)
    return consumer


def test_r115_a_handshake_says_what_is_expected_next():
    assert make(6).handle(Begin(), 0.0) == [Tell(Handshake("a", 6))]


def test_joined_it_asks_for_what_it_expects():
    consumer = make(6)
    consumer.handle(Begin(), 0.0)
    assert consumer.handle(joined(6), 0.0) == [Tell(Wanted("a", ROUND, 6))]
    assert (consumer.state, consumer.consumer_id) == (TransferState.SENDING, "1")


def test_joined_after_several_handshakes_it_asks_again_as_soon_as_one_joined_at_once():
    consumer = make(6)
    consumer.handle(Begin(), 0.0)
    assert consumer.handle(Tick(), 2.0) == [Tell(Handshake("a", 6))]
    consumer.handle(joined(6), 5.0)
    assert consumer.deadline() == 7.0
    assert consumer.handle(Tick(), 7.0) == [Tell(Wanted("a", ROUND, 6))]


def test_fragments_are_stored_in_order_and_acknowledged_every_quarter_of_a_window():
    consumer = receiving(terms=Terms(1000, 10, 8))
    assert piece(consumer, 0) == [WriteFragment(0)]
    assert piece(consumer, 1) == [WriteFragment(1), Tell(Acked("a", ROUND, 2))]
    assert piece(consumer, 2) == [WriteFragment(2)]
    assert piece(consumer, 3) == [WriteFragment(3), Tell(Acked("a", ROUND, 4))]


def test_what_is_stored_is_acknowledged_soon_even_if_no_more_comes():
    consumer = receiving(terms=Terms(1000, 10, 50))
    piece(consumer, 0, now=1.0)
    at = consumer.deadline()
    assert at == pytest.approx(1.2)
    assert consumer.handle(Tick(), at) == [Tell(Acked("a", ROUND, 1))]


def test_r112_the_last_part_of_a_window_is_acknowledged():
    consumer = receiving(8, Terms(95, 10, 50))
    piece(consumer, 8)
    assert piece(consumer, 9) == [WriteFragment(9), Tell(Acked("a", ROUND, 10)), Check()]


def test_r113_a_gap_is_asked_for_once_and_nothing_beyond_it_is_stored():
    consumer = receiving()
    piece(consumer, 0)
    assert piece(consumer, 2) == [Tell(Wanted("a", ROUND, 1))]
    assert piece(consumer, 3) == []
    assert piece(consumer, 1) == [WriteFragment(1), Tell(Acked("a", ROUND, 2))]


def test_a_damaged_fragment_is_asked_for_again():
    consumer = receiving()
    assert piece(consumer, 0, intact=False) == [Tell(Wanted("a", ROUND, 0))]
    assert consumer.handle(FragmentCame(0, 9, intact=True), 0.0) == [Tell(Wanted("a", ROUND, 0))]
    consumer = receiving(9)
    assert consumer.handle(FragmentCame(9, 10, intact=True), 0.0) == [Tell(Wanted("a", ROUND, 9))]
    assert WriteFragment(9) in consumer.handle(FragmentCame(9, 5, intact=True), 0.0)


def test_r114_a_duplicate_is_ignored_and_acknowledged_again():
    consumer = receiving(3)
    assert piece(consumer, 1) == [Tell(Acked("a", ROUND, 3))]
    assert consumer.expected == 3


def test_silence_makes_it_ask_again_later_and_later():
    consumer = receiving(3)
    asked = []
    for _ in range(4):
        at = consumer.deadline()
        asked.append(at)
        assert consumer.handle(Tick(), at) == [Tell(Wanted("a", ROUND, 3))]
    assert asked == [2.0, 6.0, 14.0, 22.0]


def test_after_a_silence_a_fragment_makes_it_ask_again_as_soon_as_at_first():
    consumer = receiving()
    assert consumer.handle(Tick(), 2.0) == [Tell(Wanted("a", ROUND, 0))]
    piece(consumer, 0, now=5.0)
    assert consumer.deadline() == 5.0 + TRANSFER_RETRY_S


def test_a_slow_line_is_no_silence():
    consumer = receiving()
    for now in (1.0, 2.0, 3.0):
        consumer.handle(Stirred(), now)
    assert consumer.deadline() == 5.0


def test_a_fragment_that_comes_puts_off_asking_again():
    consumer = receiving(terms=Terms(1000, 10, 50))
    piece(consumer, 0, now=1.9)
    assert consumer.handle(Tick(), 2.1) == [Tell(Acked("a", ROUND, 1))]
    assert consumer.deadline() == pytest.approx(3.9)


def test_fragments_beyond_a_gap_do_not_keep_it_from_asking_again():
    consumer = receiving()
    for now in (0.5, 1.0, 1.9):
        piece(consumer, 3, now=now)
    assert consumer.deadline() == 2.0


@pytest.mark.parametrize("prepare", [lambda consumer: consumer, lambda _: receiving()])
def test_a_silent_producer_is_a_timeout_and_what_came_stays(prepare):
    consumer = make()
    consumer.handle(Begin(), 0.0)
    consumer = prepare(consumer)
    assert consumer.handle(Tick(), 30.0) == [Keep()]
    assert consumer.state is TransferState.TIMED_OUT
    assert isinstance(consumer.error, TransferTimeout)
    assert consumer.handle(joined(), 31.0) == []


def test_the_digest_decides_and_the_producer_is_told_afterwards():
    consumer = whole()
    assert consumer.state is TransferState.WAITING
    assert consumer.handle(Checked(good=True), 1.0) == [Tell(Verified("a"))]
    assert consumer.handle(Heard(Farewell("a")), 1.1) == [Keep()]
    assert (consumer.state, consumer.farewell) == (TransferState.DONE, True)


def test_an_empty_file_is_checked_at_once():
    consumer = make(terms=Terms(0, 10, 4))
    consumer.handle(Begin(), 0.0)
    assert consumer.handle(joined(), 0.0) == [Check()]


def test_without_a_farewell_it_is_done_after_a_while_and_says_so():
    consumer = whole()
    consumer.handle(Checked(good=True), 1.0)
    assert consumer.handle(Tick(), 3.0) == [Tell(Verified("a"))]
    assert consumer.handle(Tick(), 11.0) == [Keep()]
    assert (consumer.state, consumer.farewell) == (TransferState.DONE, False)


def test_one_that_was_verified_in_an_earlier_run_only_tells_it():
    assert make(10, verified=True).handle(Begin(), 0.0) == [Tell(Verified("a"))]


def test_a_spoilt_file_is_dropped_when_the_producer_has_another_round_for_it():
    consumer = whole()
    assert consumer.handle(Checked(good=False), 50.0) == [Tell(Spoiled("a"))]
    assert consumer.deadline() == 50.0 + TRANSFER_RETRY_S, "then it says so again"
    assert consumer.handle(joined(), 50.0) == []
    assert consumer.handle(Tick(), 52.0) == [Tell(Spoiled("a"))]
    effects = consumer.handle(joined(round_=ROUND + 1), 53.0)
    assert effects == [StartOver(), Tell(Wanted("a", ROUND + 1, 0))]
    assert consumer.deadline() == 53.0 + TRANSFER_RETRY_S, "then it asks again"
    assert piece(consumer, 0)[0] == WriteFragment(0)


def test_a_file_that_is_spoilt_again_and_again_fails_at_both_ends():
    consumer = whole()
    for round_ in (8, 9):
        consumer.handle(Checked(good=False), 1.0)
        consumer.handle(joined(round_=round_), 1.0)
        for number in range(10):
            piece(consumer, number)
    told, kept = consumer.handle(Checked(good=False), 1.0)
    assert told.message.error == "large-message-corrupt"
    assert kept == Keep()
    assert isinstance(consumer.error, LargeMessageCorrupt)


def test_refused_it_fails_with_the_reason():
    consumer = make()
    consumer.handle(Begin(), 0.0)
    assert consumer.handle(Heard(JoinRefused("a", "another has it")), 0.0) == [Keep()]
    assert isinstance(consumer.error, TransferRefused)
    assert "another has it" in str(consumer.error)


def test_one_that_has_joined_is_not_put_off_by_a_refusal_that_was_late():
    consumer = receiving()
    assert consumer.handle(Heard(JoinRefused("a", "no")), 0.0) == []


@pytest.mark.parametrize(
    ("message", "error", "state"),
    [
        (Cancelled("a"), TransferCancelled, TransferState.CANCELLED),
        (
            Cancelled("a", "transfer-source-changed", "it changed"),
            TransferSourceChanged,
            TransferState.FAILED,
        ),
    ],
)
def test_cancelled_there_it_ends_with_the_reason(message, error, state):
    consumer = receiving()
    assert consumer.handle(Heard(message), 0.0) == [Keep()]
    assert isinstance(consumer.error, error)
    assert consumer.state is state


def test_cancelled_here_the_producer_is_told():
    consumer = receiving()
    assert consumer.handle(Cancel(), 0.0) == [Tell(Cancelled("a")), Keep()]
    assert isinstance(consumer.error, TransferCancelled)


def test_suspended_here_it_takes_nothing_and_says_so_again():
    consumer = receiving(terms=Terms(1000, 10, 50))
    piece(consumer, 0)
    assert consumer.handle(Suspend(), 0.0) == [Keep(), Tell(Suspended("a"))]
    assert piece(consumer, 1) == [Tell(Suspended("a"))]
    assert consumer.deadline() is None, "nothing is left to acknowledge"
    assert consumer.handle(Resume(), 99.0) == [Tell(Handshake("a", 1, resume=True))]
    assert consumer.handle(Heard(Suspended("a")), 99.0) == [Keep()]
    assert consumer.handle(Tick(), 101.0) == [Tell(Handshake("a", 1))], "it is held there now"


def test_suspended_there_it_asks_now_and_then():
    consumer = receiving()
    assert consumer.handle(Heard(Suspended("a")), 1.0) == [Keep()]
    assert consumer.state is TransferState.SUSPENDED
    assert consumer.handle(Tick(), 3.0) == [Tell(Handshake("a", 0))]
    assert consumer.handle(Heard(Resumed("a")), 4.0) == [Tell(Handshake("a", 0))]


def test_suspended_there_a_fragment_shows_that_it_goes_on():
    consumer = receiving()
    consumer.handle(Heard(Suspended("a")), 1.0)
    assert piece(consumer, 0, now=2.0) == [Tell(Handshake("a", 0))]


def test_either_side_may_resume_what_was_suspended_here():
    consumer = receiving()
    consumer.handle(Suspend(), 0.0)
    assert consumer.handle(Heard(Resumed("a")), 4.0) == [Tell(Handshake("a", 0))]


def test_what_is_whole_cannot_be_suspended():
    consumer = whole()
    assert consumer.handle(Suspend(), 0.0) == []


def test_a_lost_way_begins_with_a_handshake():
    consumer = receiving(4)
    assert consumer.handle(Disconnected(""), 1.0) == [Tell(Handshake("a", 4))]


def test_another_round_is_taken_up():
    consumer = receiving(4)
    assert consumer.handle(joined(2, ROUND + 1), 1.0) == [Tell(Wanted("a", ROUND + 1, 4))]


def test_what_only_a_consumer_says_is_ignored():
    consumer = receiving()
    assert consumer.handle(Heard(Handshake("a", 0)), 0.0) == []


def test_nothing_happens_when_it_is_over():
    consumer = receiving(terms=Terms(1000, 10, 50))
    piece(consumer, 0)
    consumer.handle(Cancel(), 0.0)
    for event in (Begin(), joined(), Resume(), Tick(), Cancel()):
        assert consumer.handle(event, 1.0) == []
    assert consumer.deadline() is None
