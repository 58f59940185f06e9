"""Which large messages are in flight, whole or holed, from their parts alone (R87 to R89, R93)."""

from __future__ import annotations

import pytest

from dray.large.join import LargeParts, PartSeen, SequenceKey
from dray.model.classes import Part

ONE, TWO = SequenceKey(b"\1" * 16, 7), SequenceKey(b"\2" * 16, 7)


class Queue:
    """Parts as they join a queue, at positions that grow."""

    def __init__(self):
        self.parts = LargeParts()
        self.at = 0

    def add(self, key, part, fragment=0, *, count=0, route=1, transaction=1, ended=False):
        self.at += 1
        seen = PartSeen(self.at, part, key, fragment, count, transaction, 1, "mine", route)
        self.parts.added(seen)
        self.parts.source_went_on(route, transaction, ended=ended)
        return self.at

    def send(self, key, count, *, lost=(), **options):
        """A whole message but for what is lost: header is 0, trailer count + 1."""
        last = max(number for number in range(count + 2) if number not in lost)
        for number in range(count + 2):
            if number in lost:
                continue
            ended = number == last and 0 not in lost
            if number == 0:
                self.add(key, Part.HEADER, -9998, **options)
            elif number <= count:
                self.add(key, Part.FRAGMENT, number, ended=ended, **options)
            else:
                self.add(key, Part.TRAILER, -9999, count=count, ended=ended, **options)

    def states(self):
        return {each.key: (each.decided, each.whole) for each in self.parts}


@pytest.fixture
def queue():
    return Queue()


IN_FLIGHT, WHOLE, HOLED = (False, False), (True, True), (True, False)


def test_a_message_is_in_flight_until_its_trailer_and_then_whole(queue):
    queue.add(ONE, Part.HEADER)
    queue.add(ONE, Part.FRAGMENT, 1)
    assert queue.states() == {ONE: IN_FLIGHT}
    assert [each.count for each in queue.parts] == [0], "only the trailer tells it"
    assert list(queue.parts.ready()) == []
    queue.add(ONE, Part.TRAILER, count=1)
    assert queue.states() == {ONE: WHOLE}
    assert [each.key for each in queue.parts.ready()] == [ONE]


@pytest.mark.parametrize(
    ("lost", "missing"),
    [
        ([0], ["header"]),
        ([1], [[1, 1]]),
        ([2, 3], [[2, 3]]),
        ([1, 4], [[1, 1], [4, 4]]),
        ([5], ["trailer"]),
        ([0, 2, 5], ["header", [2, 2], "trailer"]),
    ],
)
def test_what_is_missing_is_named(queue, lost, missing):
    queue.send(ONE, 4, lost=lost)
    # What was lost at the end shows when the source goes on.
    queue.send(TWO, 1, transaction=2)
    (assembly,) = [each for each in queue.parts if each.key == ONE]
    assert (assembly.decided, assembly.whole) == HOLED
    assert assembly.missing() == missing


def test_a_gap_alone_decides_nothing_while_more_may_come(queue):
    queue.add(ONE, Part.HEADER)
    queue.add(ONE, Part.FRAGMENT, 3)
    assert queue.states() == {ONE: IN_FLIGHT}


def test_the_end_of_the_transaction_decides_without_a_trailer(queue):
    queue.add(ONE, Part.HEADER)
    queue.add(ONE, Part.FRAGMENT, 1, ended=True)
    assert queue.states() == {ONE: HOLED}


def test_another_way_proves_nothing(queue):
    queue.add(ONE, Part.HEADER, route=1)
    queue.send(TWO, 2, route=2, transaction=2)
    assert queue.states() == {ONE: IN_FLIGHT, TWO: WHOLE}


def test_two_sources_interleave(queue):
    for number in range(5):
        for key, route in ((ONE, 1), (TWO, 2)):
            part = (Part.HEADER, *[Part.FRAGMENT] * 3, Part.TRAILER)[number]
            queue.add(key, part, number, count=3, route=route, transaction=route)
    assert queue.states() == {ONE: WHOLE, TWO: WHOLE}
    ones, twos = (each.lookup_ids() for each in queue.parts)
    assert (ones, twos) == ([1, 3, 5, 7, 9], [2, 4, 6, 8, 10])


def test_a_fragment_number_that_comes_twice_is_a_hole(queue):
    queue.add(ONE, Part.HEADER)
    for number in (1, 1, 2):
        queue.add(ONE, Part.FRAGMENT, number)
    queue.add(ONE, Part.TRAILER, count=2)
    (assembly,) = queue.parts
    assert (assembly.decided, assembly.whole) == HOLED
    assert assembly.missing() == ["duplicate"]
    assert assembly.lookup_ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("count", "missing"), [(2, [[3, 3]]), (5, [[4, 5]])])
def test_a_count_that_does_not_fit_is_a_hole(queue, count, missing):
    queue.add(ONE, Part.HEADER)
    for number in (1, 2, 3):
        queue.add(ONE, Part.FRAGMENT, number)
    queue.add(ONE, Part.TRAILER, count=count)
    (assembly,) = queue.parts
    assert assembly.missing() == missing


@pytest.mark.parametrize("part", [Part.HEADER, Part.TRAILER])
def test_a_second_header_or_trailer_is_a_hole(queue, part):
    queue.send(ONE, 1)
    queue.add(ONE, part, count=1)
    assert queue.states() == {ONE: HOLED}


@pytest.mark.parametrize(
    ("at", "missing"), [(1, ["header"]), (2, [[1, 1]]), (3, [[2, 2]]), (4, ["trailer"])]
)
def test_a_part_that_someone_takes_leaves_a_hole(queue, at, missing):
    queue.send(ONE, 2)
    part = {1: Part.HEADER, 4: Part.TRAILER}.get(at, Part.FRAGMENT)
    queue.parts.removed(PartSeen(at, part, ONE, 0, 0, 1, 1))
    (assembly,) = queue.parts
    assert assembly.missing() == missing
    assert at not in assembly


def test_the_last_part_that_is_taken_ends_it(queue):
    queue.add(ONE, Part.HEADER)
    queue.parts.removed(PartSeen(1, Part.HEADER, ONE, 0, 0, 1, 0))
    assert len(queue.parts) == 0
    queue.parts.removed(PartSeen(1, Part.HEADER, ONE, 0, 0, 1, 0))
    queue.parts.dropped(ONE)


def test_the_order_is_that_of_first_parts_also_when_one_is_taken(queue):
    queue.add(ONE, Part.HEADER, route=1)
    queue.add(TWO, Part.HEADER, route=2, transaction=2)
    queue.add(ONE, Part.FRAGMENT, 1, route=1)
    queue.parts.removed(PartSeen(1, Part.HEADER, ONE, 0, 0, 1, 0))
    assert [each.key for each in queue.parts] == [TWO, ONE]
    assert (next(iter(queue.parts)).first, next(iter(queue.parts)).last) == (2, 2)


def test_the_order_is_that_of_first_parts_also_when_one_is_sent_again(queue):
    queue.send(ONE, 2, lost=[0, 1])
    queue.send(TWO, 1, route=2, transaction=2)
    queue.add(ONE, Part.FRAGMENT, 1)
    assert [each.key for each in queue.parts] == [TWO, ONE]


def test_the_end_of_a_message_decides_nothing_about_another_one_of_its_transaction(queue):
    for key in (ONE, TWO):
        queue.add(key, Part.HEADER)
    queue.add(ONE, Part.TRAILER)
    assert queue.states() == {ONE: WHOLE, TWO: IN_FLIGHT}
    queue.add(ONE, Part.FRAGMENT, 1, ended=True)
    assert queue.states() == {ONE: HOLED, TWO: HOLED}


@pytest.mark.parametrize("lost", [[], [3], [0, 3]])
def test_a_message_that_has_left_leaves_nothing_behind(queue, lost):
    queue.send(ONE, 2, lost=lost)
    queue.parts.dropped(ONE)
    assert vars(queue.parts) == vars(LargeParts())


@pytest.mark.parametrize("there", [{1}, {2}, {3}, {4}, {2, 3}, {1, 4}, {1, 2, 3, 4}])
def test_each_part_that_is_there_has_its_name_and_its_position(queue, there):
    queue.send(ONE, 2)
    for at, part in enumerate([Part.HEADER, Part.FRAGMENT, Part.FRAGMENT, Part.TRAILER], 1):
        if at not in there:
            queue.parts.removed(PartSeen(at, part, ONE, 0, 0, 1, 1))
    (assembly,) = queue.parts
    names = {1: "header", 2: 1, 3: 2, 4: "trailer"}
    assert {at: name for name, at in assembly.parts()} == {at: names[at] for at in there}
    assert {at for at in names if at in assembly} == there == set(assembly.lookup_ids())
    assert (assembly.first, assembly.last) == (min(there), max(there))


def test_the_size_of_a_message_is_that_of_the_fragments_that_are_there(queue):
    queue.send(ONE, 3)
    (assembly,) = queue.parts
    assert (assembly.size, assembly.count, assembly.refused) == (3, 3, "")
    queue.parts.removed(PartSeen(3, Part.FRAGMENT, ONE, 2, 0, 1, 1))
    assert assembly.size == 2
    queue.parts.removed(PartSeen(1, Part.HEADER, ONE, 0, 0, 1, 1))
    assert (assembly.size, assembly.last) == (2, 5)


def test_what_is_held_is_not_ready(queue):
    queue.send(ONE, 1)
    (assembly,) = queue.parts
    assembly.held = 1
    assert list(queue.parts.ready()) == []
