"""The tail of a message, as it goes from queue to queue: what changes of it, and what stays."""

from __future__ import annotations

from random import Random

import pytest

from dray.manager.entries.entry import Entry, unpack, with_key
from dray.manager.entries.packed import any_came_back_in, with_aborts
from dray.manager.entries.staged import GroupPlace, Staged, group_places
from dray.manager.entries.tails import (
    as_group,
    as_plain,
    at_place,
    moved_tail,
    pack_tail,
    packed_tails,
    route_of,
    sent_anew,
    split_tails,
    with_class,
    with_expiry,
    with_route,
    without_dead_letter,
)
from dray.model.classes import Part
from dray.store.heap.heap import Extent
from dray.wire.message_frames import FOLLOWING_MAX, MARK_FIRST, MARK_LARGE, MARK_LAST
from dray.wire.record import COPY_DEAD_LETTER, COPY_JOURNAL
from tests.drawn_entries import tail

PLACE = Extent(3, 400, 70)


def full() -> bytes:
    """A tail of which no field is 0."""
    record = Staged(
        PLACE,
        crc=11,
        number=12,
        part=Part.FRAGMENT,
        priority=5,
        sent_us=13,
        expires_us=14,
        copies=COPY_DEAD_LETTER | COPY_JOURNAL,
        message_class=15,
    )
    return pack_tail(
        record, 16, 17, route=18, ordinal=19, marks=MARK_FIRST | MARK_LARGE, following=20, hops=2
    )


def read(packed: bytes) -> Entry:
    return unpack(with_key(packed, 1))


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (lambda each: with_class(each, 7), {"message_class": 7, "expires_us": 0}),
        (lambda each: with_expiry(each, 99), {"expires_us": 99}),
        (lambda each: with_expiry(each, 0), {"expires_us": 0}),
        (lambda each: with_route(each, 77), {"route": 77}),
        (lambda each: at_place(each, Extent(1, 2, 3)), {"file": 1, "offset": 2, "length": 3}),
        (without_dead_letter, {"copies": COPY_JOURNAL}),
        (as_plain, {"part": Part.PLAIN}),
        (moved_tail, {"abort_count": 0, "move_count": 3}),
        (
            as_group,
            {
                "marks": MARK_FIRST | MARK_LAST | MARK_LARGE,
                "message_class": 0,
                "expires_us": 0,
                "abort_count": 0,
                "move_count": 0,
            },
        ),
    ],
)
def test_a_change_of_a_tail_changes_that_and_nothing_else(change, changed):
    assert read(change(full())) == read(full())._replace(**changed)
    assert route_of(full()) == 18


def test_a_message_of_a_group_that_is_sent_again_by_itself_is_no_part_of_a_larger_group():
    record = Staged(PLACE, 11, 12, Part.PLAIN, 0, 13)
    for marks in (0, MARK_FIRST, MARK_LAST):
        again = read(as_group(pack_tail(record, 5, 6, marks=marks)))
        assert again.marks == MARK_FIRST | MARK_LAST


@pytest.mark.parametrize("transaction", [0, 9])
def test_a_message_that_is_sent_anew_keeps_what_it_is_and_nothing_of_its_way(transaction):
    place = GroupPlace(3, FOLLOWING_MAX, MARK_LAST)
    found = read(sent_anew(full(), transaction=transaction, when_us=50, expires_us=60, place=place))
    before = read(full())
    in_group = {"ordinal": 3, "following": FOLLOWING_MAX, "marks": MARK_LAST, "priority": 0}
    alone = {"ordinal": 0, "following": 0, "marks": 0}
    assert found == before._replace(
        transaction=transaction,
        sent_us=50,
        arrived_us=50,
        expires_us=60,
        route=0,
        message_class=0,
        abort_count=0,
        move_count=0,
        **(in_group if transaction else alone),
    )


@pytest.mark.parametrize("transaction", [0, 7])
def test_the_parts_of_a_large_message_are_packed_as_each_is_by_itself(transaction):
    parts = [Part.PLAIN, Part.HEADER, Part.FRAGMENT, Part.TRAILER]
    staged = [Staged(Extent(1, at, 64), at, at, part, 0, 5) for at, part in enumerate(parts)]
    found = [read(each) for each in split_tails(packed_tails(staged, transaction, 99, marks=4))]
    assert [each.part for each in found] == parts
    assert {each.transaction for each in found} == {transaction}
    assert {each.arrived_us for each in found} == {99}
    if transaction:
        assert [each.ordinal for each in found] == [1, 2, 3, 4]
        assert found[0].marks & MARK_FIRST
        assert found[-1].marks & MARK_LAST
    else:
        assert [(each.ordinal, each.following, each.marks) for each in found] == [(0, 0, 4)] * 4


def test_only_the_first_message_of_a_transaction_is_its_first_and_only_the_last_its_last():
    staged = [Staged(Extent(1, at, 64), at, at, Part.PLAIN, 0, 5) for at in range(3)]
    found = [read(each) for each in split_tails(packed_tails(staged, 7, 99))]
    assert [each.marks for each in found] == [MARK_FIRST, 0, MARK_LAST]
    assert [each.following for each in found] == [2, 1, 0]
    assert list(group_places([0, 0, 0])) == [
        GroupPlace(each.ordinal, each.following, each.marks) for each in found
    ]


@pytest.mark.parametrize("part", [Part.PLAIN, Part.FRAGMENT])
def test_a_single_record_is_packed_as_a_group_of_one(part):
    record = Staged(PLACE, 1, 2, part, 3, 4)
    (found,) = split_tails(packed_tails([record], 7, 99))
    assert read(found).ordinal == 1
    assert read(found).following == 0
    of_large = MARK_LARGE if part else 0
    assert read(found).marks == MARK_FIRST | MARK_LAST | of_large


def test_only_a_message_that_was_given_back_has_come_back():
    entry = with_key(tail(Random(1)), 1)
    assert not any_came_back_in(entry)
    assert any_came_back_in(with_aborts(entry))
