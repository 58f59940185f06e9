"""The producer's decisions, one promise each."""

from __future__ import annotations

import pytest

from dray.errors import TransferSourceChanged
from dray.machine import Tick
from dray.model.transfer import TransferState
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    Cancel,
    CheckSource,
    Disconnected,
    Heard,
    Keep,
    Resume,
    Room,
    SendFragment,
    SourceBroke,
    SourceChecked,
    Suspend,
    Tell,
    Terms,
)
from dray.transfer.producer import Producer
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
CHANGED = TransferSourceChanged("it changed", path="f", transfer_id="t")


def make(*, many: bool = False, terms: Terms = TERMS) -> Producer:
    return Producer(terms, Discovery(many=many, until=30.0))


def join(producer: Producer, key: str = "a", expected: int = 0, now: float = 1.0) -> Joined:
    effects = producer.handle(Heard(Handshake(key, expected)), now)
    tell = effects[-1]
    assert isinstance(tell, Tell)
    assert isinstance(tell.message, Joined)
    return tell.message


def pump(producer: Producer, key: str = "a") -> list[int]:
    """Fragments that go out while the way has room."""
    sent = []
    while effects := producer.handle(Room(key), 1.0):
        (piece,) = effects
        assert isinstance(piece, SendFragment)
        sent.append(piece.number)
    return sent


def begin(producer: Producer, key: str = "a", start: int = 0) -> Joined:
    joined = join(producer, key, start)
    producer.handle(Heard(Wanted(key, joined.round, start)), 1.0)
    return joined


def test_r110_nothing_is_sent_before_a_handshake():
    producer = make()
    assert pump(producer) == []
    producer.handle(Heard(Wanted("a", 0, 0)), 1.0)
    assert pump(producer) == []


def test_nothing_is_sent_before_a_fragment_is_asked_for():
    producer = make()
    join(producer)
    assert pump(producer) == []


def test_r110_no_handshake_in_time_is_a_timeout():
    producer = make()
    assert producer.state is TransferState.DISCOVERING
    assert producer.deadline() == 30.0
    producer.handle(Tick(), 30.0)
    assert producer.state is TransferState.TIMED_OUT
    assert producer.deadline() is None
    (told,) = producer.handle(Heard(Handshake("a", 0)), 31.0)
    assert isinstance(told.message, JoinRefused)


def test_r111_one_consumer_has_it_and_the_second_is_refused():
    producer = make()
    begin(producer, "a")
    (told,) = producer.handle(Heard(Handshake("b", 0)), 1.5)
    assert isinstance(told.message, JoinRefused)
    assert "one consumer" in told.message.sentence
    assert pump(producer, "b") == []


def test_r111_many_join_in_time_each_with_an_id_and_a_pace_of_its_own():
    producer = make(many=True)
    ids = {begin(producer, key).consumer_id for key in "abc"}
    assert len(ids) == 3
    assert pump(producer, "a") == [0, 1, 2, 3]
    assert producer.copies["b"].window.next == 0
    (told,) = producer.handle(Heard(Handshake("late", 0)), 30.0)
    assert isinstance(told.message, JoinRefused)


def test_who_has_the_reference_and_does_not_want_the_file_ends_an_offer_to_one():
    producer = make()
    assert producer.handle(Heard(Cancelled("a")), 1.0) == [Keep()]
    assert producer.state is TransferState.CANCELLED
    (told,) = producer.handle(Heard(Handshake("b", 0)), 1.5)
    assert isinstance(told.message, JoinRefused)


@pytest.mark.parametrize("why", ["to many", "another has it", "too late", "over"])
def test_nobody_else_ends_an_offer_by_not_wanting_it(why):
    producer = make(many=why == "to many")
    if why == "another has it":
        begin(producer, "a")
    if why == "over":
        producer.handle(SourceBroke(CHANGED), 1.0)
    before = producer.state
    assert producer.handle(Heard(Cancelled("b")), 30.0 if why == "too late" else 2.0) == []
    assert "b" not in producer.copies
    assert producer.state is (TransferState.TIMED_OUT if why == "too late" else before)


def test_an_offer_to_many_that_ends_waits_for_nobody_more():
    producer = make(many=True)
    assert producer.deadline() == 30.0
    producer.handle(Cancel(), 2.0)
    assert (producer.state, producer.deadline()) == (TransferState.CANCELLED, None)
    assert not producer.discovery.open


def test_a_cancelled_copy_is_told_again_when_its_way_is_lost():
    producer = make()
    begin(producer, "a")
    producer.handle(Cancel(), 2.0)
    assert producer.handle(Disconnected("a"), 2.0) == [Tell(Cancelled("a"))]


@pytest.mark.parametrize(("expected", "start"), [(0, 0), (9, 9), (10, 10), (11, 0)])
def test_who_joins_goes_on_where_it_says_if_the_file_reaches_so_far(expected, start):
    assert join(make(), expected=expected).start == start


def test_an_event_of_no_kind_is_a_mistake_and_not_overlooked():
    with pytest.raises(AssertionError):
        make().handle(object(), 1.0)


def test_who_joins_is_kept_before_it_is_told():
    effects = make().handle(Heard(Handshake("a", 0)), 1.0)
    assert [type(each) for each in effects] == [Keep, Tell]


@pytest.mark.parametrize("size", [1, 2, 50])
def test_r112_no_more_than_the_window_is_unacknowledged(size):
    producer = make(terms=Terms(995, 10, size))
    joined = begin(producer)
    sent, acked = 0, 0
    while acked < 100:
        sent += len(pump(producer))
        assert sent - acked <= size
        acked = min(sent, acked + max(1, size // 2))
        producer.handle(Heard(Acked("a", joined.round, acked)), 1.0)
    assert producer.copies["a"].window.peak == size


def test_r113_a_request_is_answered_from_its_number_on():
    producer = make()
    joined = begin(producer)
    assert pump(producer) == [0, 1, 2, 3]
    producer.handle(Heard(Wanted("a", joined.round, 2)), 1.0)
    assert pump(producer) == [2, 3, 4, 5]
    assert producer.copies["a"].window.resent == 2


def test_a_request_of_an_old_round_moves_nothing_and_is_told_the_round():
    producer = make()
    begin(producer)
    pump(producer)
    round_ = join(producer, expected=3).round
    (told,) = producer.handle(Heard(Wanted("a", round_ - 1, 1)), 1.0)
    assert told.message.round == round_
    assert pump(producer) == []


def test_an_acknowledgment_of_an_old_round_frees_nothing():
    producer = make()
    joined = begin(producer)
    pump(producer)
    assert producer.handle(Heard(Acked("a", joined.round - 1, 4)), 1.0) == []
    assert pump(producer) == []


def test_r115_a_consumer_that_comes_back_goes_on_where_it_was():
    producer = make()
    begin(producer)
    pump(producer)
    assert join(producer, expected=7).start == 7
    producer.handle(Heard(Wanted("a", producer.copies["a"].round, 7)), 1.0)
    assert pump(producer) == [7, 8, 9]


def test_r115_a_producer_that_comes_back_takes_its_consumers_back():
    producer = make()
    producer.restore("a", "1", 4, TransferState.SENDING)
    assert producer.state is TransferState.SUSPENDED
    joined = begin(producer, start=6)
    assert (joined.consumer_id, joined.start) == ("1", 6)
    assert pump(producer) == [6, 7, 8, 9]
    (told,) = producer.handle(Heard(Handshake("b", 0)), 2.0)
    assert isinstance(told.message, JoinRefused)


def test_what_a_consumer_of_an_earlier_run_asks_for_begins_a_round():
    producer = make()
    producer.restore("a", "1", 4, TransferState.SENDING)
    (told,) = producer.handle(Heard(Wanted("a", 17, 5)), 2.0)
    assert told.message == Joined("a", "1", 2, 5)


def test_one_that_was_done_in_an_earlier_run_is_told_farewell():
    producer = make()
    producer.restore("a", "1", 10, TransferState.DONE)
    assert producer.handle(Heard(Verified("a")), 2.0) == [Tell(Farewell("a"))]
    assert producer.state is TransferState.DONE


def test_done_is_kept_before_the_farewell():
    producer = make()
    begin(producer)
    assert producer.handle(Heard(Verified("a")), 2.0) == [Keep(), Tell(Farewell("a"))]
    assert producer.state is TransferState.DONE
    assert producer.copies["a"].window.base == 10


def test_an_empty_file_is_done_without_a_fragment():
    producer = make(terms=Terms(0, 10, 4))
    join(producer)
    assert pump(producer) == []
    producer.handle(Heard(Verified("a")), 2.0)
    assert producer.state is TransferState.DONE


def test_silence_suspends_and_a_handshake_wakes():
    producer = make()
    begin(producer)
    pump(producer)
    assert producer.deadline() == 31.0
    producer.handle(Tick(), 31.0)
    assert producer.state is TransferState.SUSPENDED
    joined = join(producer, expected=2, now=40.0)
    producer.handle(Heard(Wanted("a", joined.round, 2)), 40.0)
    assert pump(producer) == [2, 3, 4, 5]


def test_r115_suspended_here_it_sends_nothing_until_it_is_resumed():
    producer = make()
    joined = begin(producer)
    assert producer.handle(Suspend(), 2.0) == [Keep(), Tell(Suspended("a"))]
    assert producer.state is TransferState.SUSPENDED
    assert producer.handle(Heard(Wanted("a", joined.round, 0)), 2.0) == [Tell(Suspended("a"))]
    assert producer.handle(Heard(Handshake("a", 0)), 2.0) == [Tell(Suspended("a"))]
    assert pump(producer) == []
    assert producer.handle(Resume(), 3.0) == [Keep(), Tell(Resumed("a"))]
    begin(producer)
    assert pump(producer) == [0, 1, 2, 3]


def test_suspended_there_it_waits_for_a_handshake():
    producer = make()
    begin(producer)
    assert producer.handle(Heard(Suspended("a")), 2.0) == [Keep()]
    assert pump(producer) == []
    assert producer.handle(Heard(Suspended("a")), 2.0) == []
    begin(producer)
    assert pump(producer) == [0, 1, 2, 3]


def test_a_consumer_that_resumes_lifts_what_the_producer_suspended():
    producer = make()
    begin(producer)
    producer.handle(Suspend(), 2.0)
    (told,) = producer.handle(Heard(Handshake("a", 0, resume=True)), 3.0)
    assert isinstance(told.message, Joined)


def test_who_joins_a_suspended_offer_waits_too():
    producer = make(many=True)
    producer.handle(Suspend(), 1.0)
    assert producer.state is TransferState.SUSPENDED
    effects = producer.handle(Heard(Handshake("a", 0)), 1.0)
    assert effects == [Keep(), Tell(Suspended("a"))]


def test_an_offer_that_was_suspended_before_anybody_joined_is_open_again_once_it_is_resumed():
    producer = make(many=True)
    producer.handle(Suspend(), 1.0)
    producer.handle(Resume("b"), 2.0)
    assert producer.state is TransferState.SUSPENDED
    producer.handle(Resume(), 2.0)
    assert producer.state is TransferState.DISCOVERING
    begin(producer)
    assert pump(producer) == [0, 1, 2, 3]


def test_one_consumer_is_suspended_and_the_others_go_on():
    producer = make(many=True)
    begin(producer, "a")
    begin(producer, "b")
    producer.handle(Suspend("a"), 2.0)
    assert (pump(producer, "a"), len(pump(producer, "b"))) == ([], 4)


def test_one_consumer_is_cancelled_by_its_id_and_the_others_go_on():
    producer = make(many=True)
    joined = begin(producer, "a")
    begin(producer, "b")
    effects = producer.handle(Cancel(joined.consumer_id), 2.0)
    assert effects == [Keep(), Tell(Cancelled("a"))]
    assert len(pump(producer, "b")) == 4
    assert producer.handle(Heard(Wanted("a", joined.round, 0)), 2.0) == [Tell(Cancelled("a"))]


def test_a_cancelled_offer_tells_all_and_takes_nobody():
    producer = make(many=True)
    begin(producer, "a")
    begin(producer, "b")
    effects = producer.handle(Cancel(), 2.0)
    assert effects == [Keep(), Tell(Cancelled("a")), Tell(Cancelled("b"))]
    assert producer.state is TransferState.CANCELLED
    (told,) = producer.handle(Heard(Handshake("c", 0)), 2.5)
    assert isinstance(told.message, JoinRefused)


def test_the_only_consumer_cancels_and_the_offer_is_cancelled():
    producer = make()
    begin(producer)
    assert producer.handle(Heard(Cancelled("a")), 2.0) == [Keep()]
    assert producer.state is TransferState.CANCELLED


@pytest.mark.parametrize(
    ("said", "end"),
    [(Cancelled("a"), TransferState.CANCELLED), (Verified("a"), TransferState.DONE)],
)
def test_a_suspended_offer_is_over_when_its_one_consumer_is(said, end):
    producer = make()
    begin(producer)
    producer.handle(Suspend(), 2.0)
    assert producer.state is TransferState.SUSPENDED
    producer.handle(Heard(said), 3.0)
    assert producer.state is end


def test_a_suspended_offer_to_many_waits_for_others_while_it_is_open():
    producer = make(many=True)
    begin(producer)
    producer.handle(Suspend(), 2.0)
    producer.handle(Heard(Cancelled("a")), 3.0)
    assert producer.state is TransferState.SUSPENDED


def test_a_consumer_that_fails_says_why():
    producer = make()
    begin(producer)
    producer.handle(Heard(Cancelled("a", "large-message-corrupt", "it is spoilt")), 2.0)
    assert producer.state is TransferState.FAILED
    assert str(producer.copies["a"].error) == "it is spoilt"


def test_r117_a_source_that_changed_ends_it_for_all():
    producer = make(many=True)
    begin(producer)
    effects = producer.handle(SourceBroke(CHANGED), 2.0)
    assert effects == [Keep(), Tell(Cancelled("a", "transfer-source-changed", "it changed"))]
    assert producer.state is TransferState.FAILED
    assert producer.error is CHANGED
    over = Cancelled("late", "transfer-source-changed", "it changed")
    assert producer.handle(Heard(Handshake("late", 0)), 3.0) == [Tell(over)]


def test_a_spoilt_copy_is_sent_once_more_if_the_source_is_what_it_was():
    producer = make()
    joined = begin(producer)
    assert producer.handle(Heard(Spoiled("a")), 2.0) == [CheckSource("a")]
    assert pump(producer) == []
    (told,) = producer.handle(SourceChecked("a"), 3.0)
    assert (told.message.start, told.message.round) == (0, joined.round + 1)
    producer.handle(Heard(Wanted("a", joined.round + 1, 0)), 3.0)
    assert pump(producer) == [0, 1, 2, 3]


def test_a_lost_way_stops_the_fragments_until_they_are_asked_for():
    producer = make()
    joined = begin(producer)
    producer.handle(Disconnected("a"), 2.0)
    assert pump(producer) == []
    producer.handle(Heard(Wanted("a", joined.round, 1)), 2.0)
    assert pump(producer) == [1, 2, 3, 4]


def test_what_only_a_producer_says_is_ignored():
    producer = make()
    begin(producer)
    assert producer.handle(Heard(Farewell("a")), 2.0) == []
    assert producer.handle(Heard(Farewell("stranger")), 2.0) == []


def test_a_handshake_beyond_the_file_begins_at_its_beginning():
    assert join(make(), expected=99).start == 0


def test_a_copy_resumed_alone_joins_again_after_a_lost_connection_though_the_offer_is_held():
    producer = make(many=True)
    begin(producer, "a")
    producer.handle(Suspend(), 2.0)
    assert producer.handle(Resume("a"), 3.0) == [Keep(), Tell(Resumed("a"))]
    producer.handle(Disconnected("a"), 4.0)
    assert isinstance(join(producer, "a", now=5.0), Joined)
    producer.handle(Heard(Wanted("a", producer.copies["a"].round, 0)), 5.0)
    assert len(pump(producer, "a")) == 4
