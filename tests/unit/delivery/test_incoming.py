"""The acceptance predicate (R30) and what is remembered of each stream."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.delivery.incoming import (
    IncomingSnapshot,
    IncomingStreams,
    Position,
    StreamKey,
    accepts,
)
from dray.errors import Misuse, ProtocolError

KEY = StreamKey("ab" * 16, 3)
SMALL = range(5)


def streams_at(sequence_id, number):
    if not (sequence_id or number):
        return IncomingStreams()
    return IncomingStreams([IncomingSnapshot(*KEY, sequence_id, number)])


def literal_predicate(incoming, message):
    """Semantics 2.3, word for word."""
    (incoming_id, incoming_no), (sequence_id, number, previous) = incoming, message
    a = sequence_id == incoming_id and number > incoming_no and previous <= incoming_no
    b = sequence_id > incoming_id and previous == 0
    return a or b


def test_the_predicate_is_that_of_the_protocol_over_every_small_case():
    for incoming_id, incoming_no, sequence_id, number, previous in itertools.product(
        SMALL, repeat=5
    ):
        at = Position(incoming_id, incoming_no)
        expected = literal_predicate(at, (sequence_id, number, previous))
        assert accepts(at, sequence_id, number, previous) is expected
        if previous < number:
            found = streams_at(*at).admissible(KEY, sequence_id, previous, [number])
            assert (found == 0) is expected


@pytest.mark.parametrize(
    ("why", "at", "message", "accepted"),
    [
        ("the first message of the first sequence", (0, 0), (7, 1, 0), True),
        ("the next message", (7, 4), (7, 5, 4), True),
        ("a duplicate", (7, 4), (7, 4, 3), False),
        ("an older duplicate", (7, 4), (7, 2, 1), False),
        ("a gap because something was lost", (7, 4), (7, 6, 5), False),
        ("a gap because something expired, bridged", (7, 4), (7, 9, 4), True),
        ("a gap because something expired before it was ever sent", (7, 4), (7, 9, 2), True),
        ("an old sequence", (7, 4), (6, 5, 4), False),
        ("an old sequence that begins", (7, 4), (6, 1, 0), False),
        ("a new sequence", (7, 4), (8, 1, 0), True),
        ("a new sequence whose first was acknowledged and is gone", (7, 4), (8, 3, 0), True),
        ("a new sequence that does not begin", (7, 4), (8, 2, 1), False),
    ],
)
def test_predicate_case(why, at, message, accepted):
    sequence_id, number, previous = message
    found = streams_at(*at).admissible(KEY, sequence_id, previous, [number])
    assert (found == 0) is accepted, why


small = st.integers(0, 6)


@given(
    st.builds(Position, small, small),
    small,
    small,
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
)
def test_a_batch_is_accepted_as_its_messages_would_be_one_by_one(
    incoming, sequence_id, previous, steps
):
    numbers = list(itertools.accumulate(steps, initial=previous))[1:]
    at = incoming
    one_by_one = []
    before = previous
    for number in numbers:
        if accepts(at, sequence_id, number, before):
            one_by_one.append(number)
            at = Position(sequence_id, number)
        before = number
    start = streams_at(*incoming).admissible(KEY, sequence_id, previous, numbers)
    assert numbers[start:] == one_by_one


@pytest.mark.parametrize(("previous", "numbers"), [(3, [3]), (0, [1, 1]), (0, [2, 1]), (0, [0])])
def test_numbers_that_do_not_rise_are_no_stream(previous, numbers):
    with pytest.raises(ProtocolError, match="follows number"):
        IncomingStreams().admissible(KEY, 1, previous, numbers)


def test_a_stream_never_goes_back():
    streams = streams_at(7, 4)
    with pytest.raises(AssertionError, match="go back"):
        streams.accepted(KEY, 7, 4)


def test_streams_are_told_apart_by_source_and_number():
    streams = IncomingStreams()
    streams.accepted(KEY, 7, 4)
    others = StreamKey(KEY.source, 4), StreamKey("cd" * 16, 3)
    assert streams.position(KEY) == Position(7, 4)
    assert [streams.position(each) for each in others] == [Position(), Position()]
    assert [streams.knows(each) for each in (KEY, *others)] == [True, False, False]


def test_each_source_has_room_for_so_many_streams_and_known_ones_go_on(monkeypatch):
    monkeypatch.setattr("dray.delivery.incoming.STREAMS_PER_PEER_MAX", 2)
    monkeypatch.setattr("dray.delivery.incoming.PEERS_MET_MAX", 2)
    streams = IncomingStreams()
    for source in "ab":
        for stream in (1, 2):
            streams.check_room(StreamKey(source, stream))
            streams.accepted(StreamKey(source, stream), 7, 4)
        with pytest.raises(Misuse, match="2 streams of this queue manager"):
            streams.check_room(StreamKey(source, 3))
    with pytest.raises(Misuse, match="2 queue managers are known"):
        streams.check_room(StreamKey("c", 1))
    streams.check_room(StreamKey("a", 2))


def test_a_checkpoint_gives_everything_back():
    streams = IncomingStreams()
    streams.accepted(KEY, 7, 4)
    streams.visited(KEY, 2, 50.0)
    streams.visited(KEY, 1, 60.0)
    data = msgspec.msgpack.encode(streams.state())
    again = IncomingStreams(msgspec.msgpack.decode(data, type=list[IncomingSnapshot]))
    assert again.state() == [IncomingSnapshot(*KEY, 7, 4, 3, 60.0)]
    assert again.position(KEY) == Position(7, 4)


def test_an_acceptance_ends_a_row_of_rejections():
    streams = IncomingStreams()
    streams.visited(KEY, 2, 50.0)
    streams.accepted(KEY, 7, 4)
    assert streams.state()[0].reject_count == 0


def test_a_stream_that_was_only_ever_refused_leaves_nothing_in_a_checkpoint():
    streams = IncomingStreams()
    streams.visited(KEY, 2, 50.0)
    assert streams.state() == []
