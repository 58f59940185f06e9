"""Links of worlds: what they carry comes whole and in order, unless they are told to be bad."""

from __future__ import annotations

import random

import pytest

from dray.wire.frames import Done
from dray.wire.large_frames import Range
from dray.wire.peer_frames import OpenStream
from dray.wire.stream import READ_BYTES
from tests.worlds.network import NO_FAULTS, Faults, Link, Schedule


class Ear:
    """An end that remembers what it heard."""

    def __init__(self):
        self.heard = []
        self.news = 0

    def arrived(self, _link, frame):
        self.heard.append((frame.head, frame.request_id, bytes(frame.body)))

    def broken(self, _link):
        self.news += 1


def linked(seed, faults=NO_FAULTS):
    schedule, ends = Schedule(0.0), (Ear(), Ear())
    return schedule, ends, Link(ends, schedule, random.Random(seed), faults)


def run(schedule):
    for _ in range(10_000):
        if not schedule.step():
            return
    raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("seed", range(10))
def test_frames_of_every_length_come_whole_and_in_order_in_whatever_pieces(seed):
    schedule, (near, far), link = linked(seed)
    said = [(Range(), n, bytes([n]) * size) for n, size in enumerate((0, 1, 3 * READ_BYTES, 5000))]
    for head, request_id, body in said:
        link.send(near, head, request_id, body)
    link.send(far, Done(7), 9)
    run(schedule)
    assert far.heard == said
    assert near.heard == [(Done(7), 9, b"")]


def test_only_frames_of_delivery_get_lost_or_come_twice():
    lossy, doubling = Faults(loss=1.0), Faults(repetition=1.0)
    for faults, times in ((lossy, 0), (doubling, 2)):
        schedule, (near, far), link = linked(1, faults)
        link.send(near, OpenStream(1, "q"))
        link.send(near, Done(), 1)
        run(schedule)
        heads = [type(head) for head, _, _ in far.heard]
        assert (heads.count(OpenStream), heads.count(Done)) == (times, 1)


def test_both_ends_learn_once_that_a_link_was_cut_and_the_dead_one_does_not():
    schedule, (near, far), link = linked(1)
    link.cut(dead=near)
    link.cut()
    run(schedule)
    assert (near.news, far.news) == (0, 1)


def test_what_is_due_together_happens_in_the_order_in_which_it_was_asked_for():
    schedule, happened = Schedule(0.0), []
    for number in range(5):
        schedule.after(1.0, lambda number=number: happened.append(number))
    run(schedule)
    assert happened == [0, 1, 2, 3, 4]
