"""A cable loses, delays, repeats and reorders exactly as it was told to."""

from __future__ import annotations

import random

from tests.lines.cable import Faults, Lane

PACKETS = [number.to_bytes(4, "little") for number in range(2_000)]


def lane(**faults) -> Lane:
    return Lane(Faults(**faults), random.Random(1))


def through(lane: Lane, packets=PACKETS) -> list[bytes]:
    """What comes out of packets that go in all at once, at the time 0."""
    for packet in packets:
        lane.take(packet, 0.0)
    found = []
    while (at := lane.deadline()) is not None:
        found += lane.due(at)
    return found


def test_a_good_cable_carries_everything_at_once_and_in_order():
    assert through(lane()) == PACKETS


def test_a_packet_comes_out_when_its_delay_is_over_and_not_before():
    long = lane(delay_s=0.05)
    long.take(b"a", 10.0)
    long.take(b"b", 10.02)
    assert (long.due(10.04), long.deadline()) == ([], 10.05)
    assert (long.due(10.06), long.due(10.07)) == ([b"a"], [b"b"])
    assert long.counts["most_bytes"] == 2
    long.take(b"c", 10.08)
    assert long.counts["most_bytes"] == 2


def test_losses_are_as_many_as_asked_for_and_the_rest_is_in_order():
    bad = lane(loss=0.1)
    found = through(bad)
    assert found == sorted(found, key=PACKETS.index)
    assert bad.counts["lost"] == len(PACKETS) - len(found)
    assert 0.07 < bad.counts["lost"] / len(PACKETS) < 0.13


def test_what_is_repeated_comes_twice_in_a_row():
    bad = lane(repetition=0.1)
    found = through(bad)
    assert len(found) == len(PACKETS) + bad.counts["repeated"]
    assert 0.07 < bad.counts["repeated"] / len(PACKETS) < 0.13
    assert list(dict.fromkeys(found)) == PACKETS


def test_what_is_overtaken_comes_later_than_it_should_and_is_not_lost():
    bad = lane(reordering=0.1, late_s=0.01)
    for packet in PACKETS:
        bad.take(packet, 0.0)
    on_time, late = bad.due(0.0), bad.due(0.01)
    assert len(late) == bad.counts["overtaken"]
    assert 0.07 < len(late) / len(PACKETS) < 0.13
    assert sorted(on_time + late, key=PACKETS.index) == PACKETS


def test_a_slow_line_sends_one_packet_after_the_other():
    slow = lane(rate_bytes_s=1000.0, delay_s=1.0)
    for _ in range(3):
        slow.take(bytes(100), 5.0)
    assert [len(slow.due(at)) for at in (6.05, 6.15, 6.25, 6.35)] == [0, 1, 1, 1]


def test_what_finds_the_queue_full_is_lost_and_later_there_is_room_again():
    slow = lane(rate_bytes_s=1000.0, queue_bytes=250)
    for _ in range(3):
        slow.take(bytes(100), 0.0)
    assert slow.counts["overflowed"] == 1
    slow.take(bytes(100), 0.1)
    assert slow.counts["overflowed"] == 1


def test_a_cut_cable_loses_what_is_on_it_and_what_comes_until_it_is_mended():
    cable = lane(delay_s=1.0, reordering=0.5)
    for packet in PACKETS[:10]:
        cable.take(packet, 0.0)
    cable.cut()
    cable.take(b"during", 0.5)
    cable.mend()
    cable.take(b"after", 0.6)
    assert through(cable, []) == [b"after"]
    assert cable.counts["cut"] == 11


def test_the_same_seed_has_the_same_fate():
    assert through(lane(loss=0.2, reordering=0.2)) == through(lane(loss=0.2, reordering=0.2))
