"""A frame holds what the line carries in a tenth of a second, and little before that is known."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dray.delivery.events import DeliverySettings, Transmit
from dray.delivery.frame_size import FrameSize
from dray.machine import Tick
from dray.model.limits import FRAME_BODY_BYTES_MAX, FRAME_BYTES_UNTRIED, FRAME_LINE_S, KIB, MIB
from tests.unit.delivery.sender import NOON_ID, Sender


def fresh():
    size = FrameSize(FRAME_BYTES_UNTRIED, FRAME_BODY_BYTES_MAX)
    size.sending(100.0)
    return size


def test_a_new_line_gets_small_frames():
    assert fresh().bytes == FRAME_BYTES_UNTRIED


def test_the_least_is_not_above_the_most():
    assert FrameSize(300, 20).bytes == 20


def test_a_fast_line_gets_the_longest_frames_within_its_first_tenth_of_a_second():
    size = fresh()
    for turn in range(1, 5):
        size.acknowledged(MIB, 100.0 + turn * FRAME_LINE_S / 5)
    assert size.bytes == FRAME_BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("rate_bytes_s", "wanted"),
    [(MIB, FRAME_BYTES_UNTRIED), (12_500_000, 1_250_000), (400_000_000, FRAME_BODY_BYTES_MAX)],
)
def test_a_frame_holds_what_the_line_carries_in_a_tenth_of_a_second(rate_bytes_s, wanted):
    size = fresh()
    for turn in range(1, 9):
        size.acknowledged(rate_bytes_s // 2, 100.0 + turn * 0.5)
    assert size.bytes == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("seconds", [0.5, 60.0])
def test_a_line_that_has_become_slow_gets_small_frames_again(seconds):
    size = fresh()
    size.acknowledged(8 * MIB, 100.01)
    assert size.bytes == FRAME_BODY_BYTES_MAX
    size.acknowledged(0, 101.0)
    size.acknowledged(100 * KIB, 101.0 + seconds)
    assert size.bytes == FRAME_BYTES_UNTRIED


def test_an_ack_at_the_end_of_a_period_tells_what_the_line_carried_in_it():
    size = FrameSize(FRAME_BYTES_UNTRIED, FRAME_BODY_BYTES_MAX)
    size.sending(0.0)
    size.acknowledged(2 * MIB, 0.05)
    size.sending(0.0)
    size.acknowledged(MIB, FRAME_LINE_S)
    assert size.bytes == MIB


def test_idle_time_does_not_count():
    size = fresh()
    size.acknowledged(4 * MIB, 100.05)
    size.sending(200.0)
    size.acknowledged(4 * MIB, 200.05)
    assert size.bytes == FRAME_BODY_BYTES_MAX


def test_a_line_that_carries_nothing_begins_anew():
    size = fresh()
    size.acknowledged(4 * MIB, 100.05)
    size.begin()
    assert size.bytes == FRAME_BYTES_UNTRIED


def quick_sender():
    """A stream whose line has just carried twelve messages of 100 bytes at once."""
    sender = Sender(DeliverySettings(frame_bytes_untried=200))
    sender.admit(12, 100)
    sender.connect()
    sender.ack(12)
    return sender


def frames(effects):
    return [len(each.lookup_ids) for each in effects if isinstance(each, Transmit)]


def test_a_stream_has_long_frames_on_a_quick_line_also_after_it_was_idle():
    sender = quick_sender()
    for _ in range(2):
        sender.now += 100.0
        assert frames(sender.admit(5, 100)) == [5]
        sender.now += FRAME_LINE_S / 2
        sender.ack(5)


def test_a_stream_has_short_frames_on_another_connection_and_when_it_sends_again():
    sender = quick_sender()
    sender.admit(5, 100)
    assert frames(sender.connect(NOON_ID, 12)) == [2, 2, 1]
    sender = quick_sender()
    assert frames(sender.admit(5, 100)) == [5]
    assert frames(sender.give(Tick(), at=sender.stream.deadline())) == [2, 2, 1]


def test_a_clock_that_goes_back_begins_another_period():
    size = fresh()
    size.acknowledged(4 * MIB, 50.0)
    assert size.bytes == FRAME_BYTES_UNTRIED
    size.acknowledged(MIB, 50.05)
    assert size.bytes == MIB


acks = st.lists(st.tuples(st.integers(0, 1 << 26), st.floats(-1, 100)), max_size=30)


@given(acks)
@example([(MIB, FRAME_LINE_S)])
def test_it_stays_within_its_bounds(acks):
    size, now = fresh(), 100.0
    for acknowledged, seconds in acks:
        now += seconds
        size.acknowledged(acknowledged, now)
        assert FRAME_BYTES_UNTRIED <= size.bytes <= FRAME_BODY_BYTES_MAX


@given(
    rate=st.integers(10_000, 1_000_000_000),
    lengths=st.lists(st.integers(1, 2_000_000), min_size=1, max_size=40),
)
def test_a_steady_line_that_stalls_holds_back_a_tenth_of_a_second_or_the_least(rate, lengths):
    """Each ack covers one frame that the line has carried since the one before."""
    size, now = fresh(), 100.0
    for length in lengths:
        sent = min(length, size.bytes)
        now += sent / rate
        size.acknowledged(sent, now)
        assert size.bytes <= max(FRAME_BYTES_UNTRIED, rate * FRAME_LINE_S * 1.01)


class Line:
    """A stream's frames on a simulated line; acks come at the syncs of the destination."""

    def __init__(self, lengths, *, rate, delay_s, sync_s):
        self.sender = Sender(DeliverySettings())
        self.rate, self.delay_s, self.sync_s = rate, delay_s, sync_s
        self.free_at = 0.0
        self.frames, self.arrivals = [], []
        self.lengths = dict(enumerate(lengths, 1))
        for length in lengths:
            self.sender.admit(1, length)
        self.take(self.sender.connect())

    def take(self, effects):
        for each in effects:
            if isinstance(each, Transmit):
                size = sum(self.lengths[lookup_id] for lookup_id in each.lookup_ids)
                self.frames.append((len(each.lookup_ids), size))
                self.free_at = max(self.free_at, self.sender.now) + size / self.rate
                self.arrivals.append((self.free_at + self.delay_s, each.lookup_ids[-1]))

    def run(self):
        while self.arrivals:
            synced_at = (self.arrivals[0][0] // self.sync_s + 1) * self.sync_s
            synced = [last for at, last in self.arrivals if at <= synced_at]
            self.arrivals = [each for each in self.arrivals if each[0] > synced_at]
            self.sender.now = max(self.sender.now, synced_at + self.delay_s)
            for last in synced:
                self.take(self.sender.ack(last))
        assert not self.sender.queue.lengths


@pytest.mark.parametrize("sync_s", [0.002, 0.05])
@pytest.mark.parametrize("delay_s", [0.0, 0.05])
@pytest.mark.parametrize("rate", [MIB, 10 * MIB])
def test_a_slow_line_carries_no_frame_longer_than_two_tenths_of_a_second(rate, delay_s, sync_s):
    line = Line([100 * KIB] * 1_500, rate=rate, delay_s=delay_s, sync_s=sync_s)
    line.run()
    longest = max(size for count, size in line.frames if count > 1)
    assert longest <= max(FRAME_BYTES_UNTRIED, 2 * rate * FRAME_LINE_S)


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
def test_a_fast_line_carries_the_longest_frames_after_the_first_window(delay_s):
    """Short frames at the beginning do not keep the window filling up by as little."""
    line = Line([100 * KIB] * 4_000, rate=400 * MIB, delay_s=delay_s, sync_s=0.02)
    line.run()
    sizes = [size for _, size in line.frames]
    first_window = 64 * MIB // (200 * KIB)
    assert sizes[:first_window] == [200 * KIB] * first_window
    assert min(sizes[-40:-1]) == 40 * 100 * KIB
    assert len(sizes) < first_window + 120


def test_acknowledgments_of_one_instant_count_as_those_of_a_fast_line():
    size = fresh()
    size.acknowledged(MIB, 100.0)
    assert size.bytes == MIB
