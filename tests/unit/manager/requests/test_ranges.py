"""Readers by position: how far a queue can be read, and what a range of it holds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from dray import errors
from dray.manager.entries import ORDINAL_MAX
from dray.model.limits import BATCH_MESSAGES_MAX, RANGE_LIMITS_TIMES
from dray.model.message import Message
from dray.wire import frames, large_frames, message_frames, queue_frames, range_frames, selections
from dray.wire.range_frames import (
    RANGE_ROW,
    ROW_ORDINAL_BITS,
    MeasureRange,
    RangeMeasured,
    RangePiece,
    RangeRead,
    ReadRange,
)
from dray.wire.record import HEADER_BYTES
from tests.cost import Costs
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.incoming.test_cut_transactions import (
    carry_first_data,
    narrow,
    net,
    send_whole,
)
from tests.unit.manager.net import Net, address
from tests.unit.manager.peers.test_copied_stores import back_up, restore
from tests.unit.manager.requests.test_large_messages import send_large

__all__ = ["net"]


def bodies(caller: Caller, queue: int, *sizes: int) -> None:
    caller.send(queue, *(Message(body=bytes(size)) for size in sizes))


def measure(caller: Caller, queue: int, after: int = 0, **limits: object) -> RangeMeasured:
    measured = caller.call(MeasureRange(queue, after, **limits))
    assert isinstance(measured, RangeMeasured)
    return measured


def read(caller: Caller, queue: int, after: int = 0, upto: int = 0, **options: object):
    """Positions and records of a range."""
    options = {"max_messages": 100, "max_bytes": 0} | options
    found, body = caller.call_whole(ReadRange(queue, after, upto, **options))
    assert isinstance(found, RangeRead)
    records, at = [], 0
    rows = list(RANGE_ROW.iter_unpack(found.rows))
    for row in rows:
        given = row[6]
        records.append(body[at : at + given])
        at += given
    assert at == len(body)
    return [row[0] for row in rows], records


def size_of(body: int) -> int:
    return HEADER_BYTES + body


def test_the_first_and_the_last_position_are_told_whatever_the_depth(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for limits in ({"max_messages": 1}, {"pieces": 2}, {}):
        empty = measure(caller, queue, **limits)
        assert (empty.first, empty.last, empty.held, empty.pieces) == (0, 0, 0, [])
    for _ in range(7):
        bodies(caller, queue, *[1] * 100)
    whole = measure(caller, queue)
    assert (whole.first, whole.last, whole.pieces) == (1, 700, [])
    assert whole.born == empty.born > 0
    assert (measure(caller, queue, 300).first, measure(caller, queue, 300).last) == (301, 700)
    assert measure(caller, queue, 0, upto=520).last == 520
    assert measure(caller, queue, 700).last == 0


def test_a_range_ends_where_rows_or_bytes_are_reached_and_has_one_message_in_any_case(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for size in (10, 20, 30, 400, 50):
        bodies(caller, queue, size)

    def told(**limits: int) -> tuple[int, int, int]:
        (piece,) = measure(caller, queue, **limits).pieces
        assert measure(caller, queue, **limits).last == piece.upto
        return piece

    assert told(max_messages=2) == RangePiece(2, 2, size_of(10) + size_of(20))
    assert told(max_messages=9) == RangePiece(5, 5, 5 * HEADER_BYTES + 510)
    three = 3 * HEADER_BYTES + 60
    assert told(max_bytes=three) == RangePiece(3, 3, three)
    assert told(max_bytes=three - 1) == RangePiece(2, 2, three - size_of(30))
    assert told(after=3, max_bytes=10) == RangePiece(4, 1, size_of(400))
    assert told(max_messages=4, upto=2) == RangePiece(2, 2, three - size_of(30))


@pytest.mark.parametrize(
    ("limits", "given"),
    [
        ({"max_messages": 600}, 600),
        ({"max_messages": 300}, 300),
        ({"max_messages": 1}, 1),
        ({"max_bytes": 1}, 1),
        ({"max_bytes": 3 * (HEADER_BYTES + 1)}, 3),
        ({"max_bytes": 4 * (HEADER_BYTES + 1) - 1}, 3),
        ({"max_bytes": 300 * (HEADER_BYTES + 1)}, 300),
        ({"max_bytes": 301 * (HEADER_BYTES + 1) - 1}, 300),
    ],
    ids=str,
)
def test_as_much_of_a_range_is_read_as_was_asked_for_and_one_message_in_any_case(
    driver: ManagerDriver, limits: dict[str, int], given: int
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, *[1] * 600)
    found = read(caller, queue, **{"max_messages": 1000} | limits)[0]
    assert found == list(range(1, given + 1))


def test_pieces_are_cut_between_any_two_messages_of_a_queue_that_is_not_long(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.requests.ranges._FINE_MESSAGES", 3)
    caller = driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, 1, 1, 1)
    assert [each.upto for each in measure(caller, queue, pieces=3).pieces] == [1, 2, 3]
    bodies(caller, queue, 1)
    assert [each.upto for each in measure(caller, queue, pieces=3).pieces] == [4]


def test_a_range_with_limits_ends_where_all_transactions_are_closed(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, *[10] * 3)
    bodies(caller, queue, *[10] * 8)
    bodies(caller, queue, *[10] * 41)
    # Within the limits if there is such a position, else behind them, but not too far.
    assert [measure(caller, queue, max_messages=each).last for each in (1, 2, 3, 10)] == [
        3,
        3,
        3,
        3,
    ]
    assert [measure(caller, queue, 3, max_messages=each).last for each in (2, 7, 8)] == [11, 11, 11]
    assert measure(caller, queue, 3, max_messages=1).last == 4
    assert measure(caller, queue, 11, max_messages=11).last == 52
    assert measure(caller, queue, 11, max_messages=10).last == 21
    # Behind what was torn, too; and by bytes.
    assert measure(caller, queue, 21, max_messages=10).last == 52
    assert measure(caller, queue, max_bytes=size_of(10)).last == 3
    assert measure(caller, queue, 3, max_bytes=size_of(10)).last == 4
    # A range that ends at a position of the caller's is not moved.
    assert measure(caller, queue, 3, upto=7).last == 7
    assert measure(caller, queue, 3, upto=7, max_messages=20).last == 7


def test_a_range_ends_before_a_transaction_of_which_more_comes(net: Net) -> None:
    narrow(net, "a")
    here, there = net["c"].session(), net["a"].session()
    queue = here.open("orders")
    here.send(queue, Message(body=b"here"))
    net.block("a", "c")
    remote = there.open(address("c", "orders"))
    send_whole(there, remote, *(Message(body=b"%d" % at) for at in range(3)))
    net.unblock("a", "c")
    net["a"].advance(31.0)
    assert carry_first_data(net) == 2
    here.send(queue, Message(body=b"between"))
    assert measure(here, queue).last == 4
    assert measure(here, queue, max_messages=10).last == 1
    # Nothing is held back where no position is better.
    assert measure(here, queue, 1, max_messages=10).last == 4
    net.deliver()
    assert measure(here, queue, 1, max_messages=1).last == 5


@pytest.mark.parametrize("count", [400, 30_000])
def test_a_range_is_cut_into_pieces_of_about_the_same_bytes(
    driver: ManagerDriver, count: int
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(count // 200):
        bodies(caller, queue, *[1] * 190, *[100] * 10)
    measured = measure(caller, queue, 0, pieces=4)
    assert len(measured.pieces) == 4
    assert measured.pieces[-1].upto == measured.last
    assert sum(each.messages for each in measured.pieces) == measured.last
    assert all(first.upto < second.upto for first, second in pairwise(measured.pieces))
    weights = [each.size + HEADER_BYTES * each.messages for each in measured.pieces]
    assert max(weights) < 1.5 * min(weights)


def test_a_piece_ends_with_the_message_that_reaches_its_share(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, 10, 10, 10, 10)
    pieces = measure(caller, queue, 0, pieces=2).pieces
    assert [(each.upto, each.messages) for each in pieces] == [(2, 2), (4, 2)]


def test_a_range_ends_before_the_first_message_that_a_transaction_holds(
    driver: ManagerDriver,
) -> None:
    reader, receiver = driver.session(), driver.session()
    queue = reader.create("orders")
    bodies(reader, queue, *range(6))
    taking = receiver.number_for()
    receiver.receive(queue, transaction=taking, select=selections.SelectAt(4))
    for limits in ({}, {"max_messages": 10}, {"pieces": 2}):
        measured = measure(reader, queue, **limits)
        assert (measured.first, measured.last, measured.held) == (1, 3, 4)
        assert (measure(reader, queue, 3, **limits).last) == 0
    assert measure(reader, queue, 4).held == 0
    receiver.call(message_frames.Abort(taking))
    assert (measure(reader, queue).last, measure(reader, queue).held) == (6, 0)


@pytest.mark.parametrize("taken", [(1,), (6,), (2, 3, 5), (1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("priorities", [(3,), (0, 7)])
def test_a_planned_range_is_divided_with_what_receivers_hold_by_now(
    driver: ManagerDriver, taken: tuple[int, ...], priorities: tuple[int, ...]
) -> None:
    reader, receiver = driver.session(), driver.session()
    is_transactional = len(priorities) == 1
    queue = reader.create("orders", transactional=is_transactional)
    for number in range(7):
        priority = priorities[number % len(priorities)]
        reader.send(queue, Message(body=bytes(10), priority=priority))
    taking = receiver.number_for()
    for lookup_id in taken:
        how = taking if is_transactional else receiver.number_for()
        select = selections.SelectAt(lookup_id)
        receiver.receive(queue, transaction=how, claim=not is_transactional, select=select)
    measured = measure(reader, queue, upto=6, pieces=6, planned=True)
    assert measured.pieces == [RangePiece(at, 1, size_of(10)) for at in range(1, 7)]
    assert (measured.first, measured.last, measured.held) == (1, 6, min(taken))
    (last,) = measure(reader, queue, 4, upto=6, pieces=1, planned=True).pieces
    assert last == RangePiece(6, 2, 2 * size_of(10))


def test_a_range_is_read_with_what_a_transaction_holds(driver: ManagerDriver) -> None:
    reader, receiver = driver.session(), driver.session()
    queue = reader.create("orders")
    bodies(reader, queue, *range(6))
    taking = receiver.number_for()
    for lookup_id in (5, 2):
        select = selections.SelectAt(lookup_id)
        receiver.receive(queue, transaction=taking, select=select)
    positions, records = read(reader, queue, 1, 5)
    assert positions == [2, 3, 4, 5]
    assert [len(each) - HEADER_BYTES for each in records] == [1, 2, 3, 4]
    receiver.commit(taking, 0)
    assert read(reader, queue)[0] == [1, 3, 4, 6]
    assert read(reader, queue, 6) == ([], [])


def test_without_bodies_only_header_and_properties_are_read(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=bytes(1000), label="first"), Message(body=bytes(2000)))
    positions, whole = read(caller, queue)
    same, heads = read(caller, queue, bodies=False)
    assert positions == same == [1, 2]
    assert len(heads[1]) == HEADER_BYTES < len(heads[0])
    assert [record[: len(head)] for record, head in zip(whole, heads, strict=True)] == heads


def test_in_a_queue_with_priorities_ranges_are_by_position(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders", transactional=False)
    for priority in (3, 7, 0, 3, 5):
        caller.send(queue, Message(body=bytes(priority), priority=priority))
    assert read(caller, queue)[0] == [1, 2, 3, 4, 5]
    assert measure(caller, queue).last == 5
    assert measure(caller, queue, 1, max_messages=2).last == 3
    assert [each.upto for each in measure(caller, queue, pieces=5).pieces][-1] == 5


def test_large_messages_are_measured_by_payload_up_to_the_first_that_is_open_or_held(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("files")
    for fragments in (2, 3):
        transaction = caller.number_for()
        send_large(caller, queue, fragments, transaction)
        caller.commit(transaction, 3)
    caller.send(queue, Message(body=b"plain"), guarded=False)
    transaction = caller.number_for()
    send_large(caller, queue, 4, transaction)
    caller.commit(transaction, 3)
    whole = measure(caller, queue, large=True, pieces=1)
    assert (whole.first, whole.last, whole.plain) == (1, 11, 1)
    assert whole.pieces == [RangePiece(11, 3, 9)]
    assert measure(caller, queue, large=True, max_bytes=5).last == 5
    found = other.call(large_frames.LargeReceive(queue, other.number_for(), 0.0))
    assert isinstance(found, large_frames.LargeFound)
    held = measure(caller, queue, large=True)
    assert (held.first, held.last, held.held) == (0, 0, 1)
    behind = measure(caller, queue, 1, large=True)
    assert (behind.last, behind.held) == (11, 0)


def test_the_last_position_that_a_message_has_left_is_told_whatever_took_it(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, *range(6))
    assert measure(caller, queue).gone == 0
    taking = caller.number_for()
    caller.receive(queue, transaction=taking, select=selections.SelectAt(3))
    assert measure(caller, queue).gone == 0, "it may come back"
    caller.commit(taking, 0)
    assert measure(caller, queue).gone == 3
    caller.receive(queue, select=selections.SelectAt(1))
    assert (measure(caller, queue).gone, measure(caller, queue).first) == (3, 2)
    driver.crash()
    caller = driver.session()
    assert measure(caller, caller.open("orders")).gone == 3


def test_a_large_message_has_left_by_the_position_of_its_header(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("files")
    for fragments in (2, 3):
        transaction = caller.number_for()
        send_large(caller, queue, fragments, transaction)
        caller.commit(transaction, 3)
    taking = caller.number_for()
    assert isinstance(
        caller.call(large_frames.LargeReceive(queue, taking, 0.0)), large_frames.LargeFound
    )
    caller.commit(taking, 0)
    assert measure(caller, queue, large=True).gone == 1
    assert measure(caller, queue).gone == 4


def test_large_messages_of_one_transaction_are_measured_and_listed_together(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, other = caller.create("files"), caller.create("other")
    for messages in (1, 3, 2):
        transaction = caller.number_for()
        sends = sum(send_large(caller, queue, 1, transaction) is not None for _ in range(messages))
        caller.commit(transaction, 3 * sends)
    assert [measure(caller, queue, large=True, max_messages=each).last for each in (1, 3, 4)] == [
        1, 1, 10,
    ]  # fmt: skip
    assert measure(caller, queue, 1, large=True, max_messages=1).last == 10
    # The end of a transaction is not looked for too far behind the limits.
    transaction = caller.number_for()
    for _ in range(RANGE_LIMITS_TIMES + 1):
        send_large(caller, other, 1, transaction)
    caller.commit(transaction, 3 * (RANGE_LIMITS_TIMES + 1))
    assert measure(caller, other, large=True, max_messages=1).last == 1

    def sizes(after: int = 0) -> list[int]:
        listed = caller.call(large_frames.LargeList(queue, after, 100))
        assert isinstance(listed, large_frames.LargeListed)
        return [each.transaction_size for each in listed.entries]

    assert sizes() == [1, 3, 3, 3, 2, 2]
    assert sizes(4) == [3, 3, 2, 2]
    caller.call(message_frames.Settle(queue, 6, 0))
    assert sizes() == [3, 3, 2, 2]


def test_messages_of_a_mixed_transaction_know_how_many_messages_it_has(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    transaction = caller.number_for()
    caller.send(queue, Message(), transaction=transaction, guarded=False)
    send_large(caller, queue, 1, transaction)
    send_large(caller, queue, 4, transaction)
    caller.send(queue, Message(), transaction=transaction, guarded=False)
    caller.commit(transaction, 8)

    def sizes() -> tuple[list[int], list[int]]:
        listed = caller.call(large_frames.LargeList(queue, 0, 100))
        assert isinstance(listed, large_frames.LargeListed)
        rows = caller.call(range_frames.ReadRange(queue, 0, 0, 100, 1 << 20, plain=True))
        assert isinstance(rows, range_frames.RangeRead)
        fields = range_frames.RANGE_ROW.iter_unpack(rows.rows)
        small = []
        for *_, place, _, marks in fields:
            ordinal, following = place & ORDINAL_MAX, place >> range_frames.ROW_ORDINAL_BITS
            small.append(following if marks & message_frames.MARK_LARGE else ordinal + following)
        return [each.transaction_size for each in listed.entries], small

    assert sizes() == ([4, 4], [4, 4])
    # It does not depend on the others, which may have left.
    caller.call(message_frames.Settle(queue, 2, 0))
    assert sizes() == ([4], [4])
    caller.call(message_frames.Settle(queue, 10, 0))
    driver.crash()
    caller = driver.session()
    queue = caller.open("files")
    assert sizes() == ([], [4])


def test_a_transaction_of_very_many_messages_and_a_large_one_has_no_known_size(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    transaction = caller.number_for()
    small = [Message() for _ in range(message_frames.FOLLOWING_MAX - 1)]
    caller.send(queue, *small, transaction=transaction, guarded=False)
    send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 4)
    listed = caller.call(large_frames.LargeList(queue, 0, 100))
    assert isinstance(listed, large_frames.LargeListed)
    assert [each.transaction_size for each in listed.entries] == [0]


def test_more_pieces_or_messages_than_make_sense_are_refused(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    with pytest.raises(errors.Misuse, match="pieces must be 0 to"):
        measure(caller, queue, pieces=-1)
    for count in (0, BATCH_MESSAGES_MAX + 1):
        with pytest.raises(errors.Misuse, match="max_messages must be 1 to"):
            read(caller, queue, max_messages=count)
    caller.send(queue, Message(body=b"a"), Message(body=b"b"))
    for count, given in ((1, [1]), (BATCH_MESSAGES_MAX, [1, 2])):
        assert read(caller, queue, max_messages=count)[0] == given


def test_a_settle_takes_what_lies_in_its_range_and_with_plain_no_large_message(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=bytes([at])) for at in range(6)])
    caller.call(message_frames.Settle(queue, 4, 0, after=2))
    assert caller.receive(queue, peek=True)[1] == [b"\x00", b"\x01", b"\x04", b"\x05"]

    large = caller.create("parcels")
    for _ in range(2):
        number = caller.number_for()
        send_large(caller, large, 1, number)
        caller.commit(number, 3)
    caller.call(message_frames.Settle(large, 6, 0, plain=True))
    assert caller.call(queue_frames.DescribeQueue("parcels")).info.message_count == 6
    (first, _) = caller.call(large_frames.LargeList(large, 0, 10)).entries
    assert first.first_lookup_id == 1
    caller.call(message_frames.Settle(large, 6, 0, after=1))
    assert [
        each.first_lookup_id for each in caller.call(large_frames.LargeList(large, 0, 10)).entries
    ] == [1]
    assert caller.call(queue_frames.DescribeQueue("parcels")).info.message_count == 3
    settling = caller.number_for()
    assert caller.call(message_frames.Settle(queue, 9, settling, plain=True)) == frames.Done(4)


def test_small_messages_are_measured_read_and_settled_without_large_ones(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    for at in range(3):
        transaction = caller.number_for()
        send_large(caller, queue, 1, transaction)
        caller.commit(transaction, 3)
        caller.send(queue, Message(body=b"%d" % at), guarded=False)
    measured = measure(caller, queue, plain=True, pieces=1)
    assert (measured.first, measured.last, measured.pieces[0].messages) == (4, 12, 3)
    assert measure(caller, queue, 4, plain=True, max_messages=1).last == 8
    assert read(caller, queue, plain=True)[0] == [4, 8, 12]
    # A range is settled by itself: what stands before it stays.
    assert caller.call(message_frames.Settle(queue, 8, 0, 0, 7)) == frames.Done(1)
    assert read(caller, queue, plain=True)[0] == [4, 12]
    assert caller.call(message_frames.Settle(queue, 7, 0, 0, 4)) == frames.Done(3)
    assert read(caller, queue)[0] == [1, 2, 3, 4, 9, 10, 11, 12]
    taking = caller.number_for()
    assert caller.call(message_frames.Settle(queue, 11, taking, 0, 8)) == frames.Done(3)
    held = measure(caller, queue, plain=True)
    assert (held.last, held.held) == (12, 0)


def test_a_range_begins_behind_a_message_that_a_receiver_holds(driver: ManagerDriver) -> None:
    caller, reader = driver.session(), driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, 1, 2, 3)
    caller.receive(queue, transaction=caller.number_for(), max_messages=2)
    reading = reader.open("orders")
    assert read(reader, reading, 1)[0] == [2, 3]
    assert read(reader, reading, 2)[0] == [3]


@pytest.mark.parametrize("large", [False, True])
def test_a_range_with_limits_ends_before_a_transaction_whose_rest_a_receiver_holds(
    driver: ManagerDriver, large: bool
) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    for count in (1, 3):
        transaction = caller.number_for()
        for _ in range(count):
            if large:
                send_large(caller, queue, 1, transaction)
            else:
                caller.send(queue, Message(), transaction=transaction, guarded=False)
        caller.commit(transaction, count * (3 if large else 1))
    second, third = (7, 10) if large else (3, 4)

    def last(after: int = 0) -> int:
        return measure(caller, queue, after, max_messages=10, large=large).last

    holding = other.number_for()
    other.call(message_frames.Settle(queue, third + 2 * large, holding, 0, third - 1))
    assert last() == 1
    assert last(1) == second, "nothing is held back where no position is better"
    other.commit(holding, 0)
    assert last() == second, "no more comes of it"


@pytest.mark.parametrize("limits", [{}, {"pieces": 3}, {"max_messages": 1_000}])
def test_a_range_ends_at_the_position_that_the_caller_names_wherever_it_is(
    driver: ManagerDriver, limits: dict[str, int]
) -> None:
    """Positions stand together in pages; the last of a page is none too many."""
    caller = driver.session()
    queue = caller.create("orders", transactional=False)
    bodies(caller, queue, *[1] * 600)
    assert [measure(caller, queue, upto=each, **limits).last for each in range(1, 601)] == [
        *range(1, 601)
    ]


@pytest.mark.parametrize(
    ("after", "upto", "left"),
    [
        (0, 1, [4, 7]),
        (1, 4, [1, 7]),
        (0, 4, [7]),
        (3, 6, [1, 7]),
        (4, 6, [1, 4, 7]),
        (1, 7, [1]),
    ],
)
def test_a_transaction_settles_the_large_messages_that_begin_in_the_range(
    driver: ManagerDriver, after: int, upto: int, left: list[int]
) -> None:
    """Behind its first position, up to its last one: as a range that is settled at once."""
    caller = driver.session()
    queue = caller.create("files")
    for _ in range(3):
        transaction = caller.number_for()
        send_large(caller, queue, 1, transaction)
        caller.commit(transaction, 3)

    def listed() -> list[int]:
        found = caller.call(large_frames.LargeList(queue, 0, 100))
        assert isinstance(found, large_frames.LargeListed)
        return [each.first_lookup_id for each in found.entries]

    taking = caller.number_for()
    parts = 3 * (3 - len(left))
    assert caller.call(message_frames.Settle(queue, upto, taking, 0, after)) == frames.Done(parts)
    caller.commit(taking, 0)
    assert listed() == left


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_settle_looks_at_no_large_message_behind_its_range_but_the_first(
    driver: ManagerDriver, in_transaction: bool
) -> None:
    caller = driver.session()
    lines: list[int] = []
    for behind in (2, 60):
        queue = caller.create(f"files-{behind}")
        for _ in range(1 + behind):
            transaction = caller.number_for()
            send_large(caller, queue, 1, transaction)
            caller.commit(transaction, 3)
        costs = Costs()
        settle = message_frames.Settle(queue, 1, caller.number_for() if in_transaction else 0)
        costs.of("settle", lambda settle=settle: caller.call(settle))
        lines.append(costs.most)
    assert lines[1] < lines[0] + 30


def test_a_receive_by_position_ends_before_a_held_message_and_goes_on_behind_it(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, *[1] * 5)
    other.receive(queue, transaction=other.number_for(), select=selections.SelectAt(3))

    def seen(after: int) -> list[int]:
        select = selections.SelectRange(after)
        found, _ = caller.what_is_in(queue, peek=True, select=select)
        return [each.lookup_id for each in found]

    assert [seen(after) for after in (0, 1, 2, 3, 4)] == [[1, 2], [2], [], [4, 5], [5]]


def test_a_range_is_read_to_the_position_that_the_caller_names_and_no_further(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    bodies(caller, queue, *[1] * 5)
    bodies(caller, queue, *[1] * 5)
    for upto in (1, 4, 5, 9, 10, 11):
        assert read(caller, queue, 0, upto)[0] == list(range(1, min(upto, 10) + 1))
        assert read(caller, queue, 3, upto)[0] == list(range(4, min(upto, 10) + 1))


def test_a_queue_without_large_messages_has_no_first_and_no_last_of_them(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    bodies(caller, queue, 1)
    empty = measure(caller, queue, large=True)
    assert (empty.first, empty.last) == (0, 0)


def test_a_large_message_that_begins_at_the_last_position_of_a_range_is_in_it(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    for _ in range(2):
        send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 6)
    firsts = [measure(caller, queue, large=True).first, measure(caller, queue, large=True).last]
    for upto, last in ((firsts[1] - 1, firsts[0]), (firsts[1], firsts[1])):
        measured = measure(caller, queue, large=True, upto=upto)
        assert (measured.first, measured.last) == (firsts[0], last)


def test_a_row_of_a_range_says_of_a_message_what_its_envelope_says(net: Net) -> None:
    there, here = net["a"].session(), net["c"].session()
    queue = here.open("orders")
    here.send(queue, Message(body=b"here", priority=5))
    remote = there.open(address("c", "orders"))
    send_whole(there, remote, *(Message(body=b"there" * (at + 1)) for at in range(2)))
    net.deliver()
    transaction = here.number_for()
    here.receive(queue, transaction=transaction, max_messages=1)
    here.call(message_frames.Abort(transaction))
    envelopes, found = here.receive(queue, peek=True)
    answer, _ = here.call_whole(ReadRange(queue, 0, 0, max_messages=100, max_bytes=0))
    rows = list(RANGE_ROW.iter_unpack(answer.rows))
    assert len(rows) == len(envelopes) == 3
    assert len({each.transaction for each in envelopes}) == 2
    for row, envelope, body in zip(rows, envelopes, found, strict=True):
        assert row == (
            envelope.lookup_id,
            envelope.transaction,
            envelope.sent_us,
            envelope.arrived_us,
            envelope.length,
            envelope.crc,
            envelope.length,
            envelope.following << ROW_ORDINAL_BITS | envelope.ordinal,
            envelope.message_class,
            envelope.marks,
        )
        assert envelope.length >= len(body) + HEADER_BYTES


def test_a_reader_that_states_the_receipt_of_a_later_store_finds_its_queue_born_again(
    tmp_path: Path,
) -> None:
    driver = ManagerDriver(tmp_path / "store", "a")

    def look(receipt: bytes = b"") -> RangeMeasured:
        caller = driver.session()
        return measure(caller, caller.open("orders"), receipt=receipt)

    driver.session().create("orders")
    early = look()
    back_up(driver, tmp_path / "copy")
    bodies(driver.session(), driver.session().open("orders"), 1)
    later = look(early.receipt)
    assert later.born == look(later.receipt).born == early.born
    restore(driver, tmp_path / "copy")

    # Of another manager, or of this store as it is now: nothing.
    assert look(bytes(56)).born == look(early.receipt).born == early.born
    again = look(later.receipt)

    assert again.born > early.born
    assert {each.kind for each in driver.manager.notices()} == {"older-copy"}
    assert look(later.receipt).born == look(again.receipt).born == again.born
    caller = driver.session()
    bodies(caller, caller.open("orders"), 1)
    assert look().last > later.last
