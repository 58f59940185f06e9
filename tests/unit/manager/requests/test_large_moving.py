"""What a receiver cannot read moves aside, whole and in one fact, however many parts it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray import errors
from dray.manager.entries import TAIL_BYTES
from dray.manager.facts import LargeMoved, encode_fact, positions_in, runs_of
from dray.manager.queue import MOVED_BYTES, POSITION_BYTES, watch_arrivals
from dray.model.classes import Part
from dray.model.message import Message
from dray.offline.inspecting import look_at_log
from dray.offline.story import tell_story
from dray.wire import frames, large_frames, message_frames, queue_frames
from dray.wire.record import PartMark
from tests.inspection import look_into
from tests.unit.manager import conftest
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large


def count_in(caller: Caller, name: str) -> int:
    return caller.call(queue_frames.DescribeQueue(name)).info.message_count


def test_what_its_receiver_cannot_read_is_moved_whole_and_stays_there(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue, statuses = caller.create("files"), caller.create("statusq")
    for fragments in (3, 1):
        transaction = caller.number_for()
        send_large(caller, queue, fragments, transaction)
        caller.commit(transaction, 3)
    aside = caller.call(queue_frames.OpenQueue("files;unreadable")).number
    taking = caller.number_for()
    found = take_large(caller, queue, taking, status_queue=statuses)
    unreadable = large_frames.LargeMove(
        queue, found.header.lookup_id, aside, statuses, unreadable=True
    )
    part = large_frames.LargeMove(queue, found.parts[0].lookup_id, aside, statuses)
    assert caller.call(part) == frames.Done(0), "it is moved by its header"
    for stranger in (other, driver.session()):
        assert stranger.call(unreadable) == frames.Done(0)
    assert caller.call(unreadable) == frames.Done(5)
    assert caller.call(unreadable) == frames.Done(0)
    assert len(take_large(caller, queue, taking, status_queue=statuses).parts) == 1
    caller.commit(taking, 0)
    driver.crash()
    caller = driver.session()
    counts = [
        caller.call(queue_frames.DescribeQueue(name)).info.message_count
        for name in ("files", "files;unreadable", "statusq")
    ]
    assert counts == [0, 5, 0]
    again = take_large(
        caller, caller.call(queue_frames.OpenQueue("files;unreadable")).number, 99_999
    )
    assert (again.sequence, again.header.move_count) == (found.sequence, 1)


def test_what_cannot_be_read_is_moved_to_a_sub_queue_of_its_own_queue_alone(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, foreign = caller.create("files"), caller.create("others")
    for target in (queue, foreign):
        with pytest.raises(errors.Misuse):
            caller.call(large_frames.LargeMove(queue, 1, target, 0))


def test_it_moves_though_a_fact_could_not_list_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a log of 16 KiB, which is the least."""
    monkeypatch.setattr(conftest, "LOG_BYTES", 16 << 10)
    driver = ManagerDriver(tmp_path)
    caller = driver.session()
    queue = caller.create("files")
    most = look_into(driver.manager).fact_bytes_max
    parts = most // MOVED_BYTES + 1
    assert parts * TAIL_BYTES < most, "or it could not even be sent"
    transaction, taking = caller.number_for(), caller.number_for()
    send_large(caller, queue, parts - 2, transaction)
    caller.commit(transaction, 3)
    header = take_large(caller, queue, taking).header.lookup_id
    aside = caller.call(queue_frames.OpenQueue("files;unreadable")).number
    assert caller.call(large_frames.LargeMove(queue, header, aside, 0)) == frames.Done(parts)
    caller.call(message_frames.Abort(taking))
    driver.crash()
    caller = driver.session()
    assert (count_in(caller, "files"), count_in(caller, "files;unreadable")) == (0, parts)
    aside = caller.call(queue_frames.OpenQueue("files;unreadable")).number
    assert len(take_large(caller, aside, caller.number_for()).parts) == parts - 2


def test_of_two_that_stand_among_each_other_one_moves_and_one_stays(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequences, frames_sent = [], 0
    for at, part in enumerate([Part.HEADER, Part.FRAGMENT, Part.FRAGMENT, Part.TRAILER]):
        for each in range(2):
            number = -9 if part != Part.FRAGMENT else at
            mark = PartMark(part, sequences[each] if at else 0, 2 * (part == Part.TRAILER))
            (message,) = caller.send(
                queue,
                Message(body=bytes([each, at]), app_specific=number),
                transaction=transaction,
                marks=(mark,),
                guarded=False,
            )
            sequences += [] if at else [message]
            frames_sent += 1
    caller.commit(transaction, frames_sent)
    taking = caller.number_for()
    found = take_large(caller, queue, taking)
    assert found.sequence == sequences[0]
    aside = caller.call(queue_frames.OpenQueue("files;unreadable")).number
    unreadable = large_frames.LargeMove(queue, found.header.lookup_id, aside, 0, unreadable=True)
    assert caller.call(unreadable) == frames.Done(4)
    for _ in ("in this incarnation", "in the next"):
        caller = driver.session()
        aside = caller.call(queue_frames.OpenQueue("files;unreadable")).number
        taken = [take_large(caller, each, caller.number_for()) for each in (queue, aside)]
        assert [(each.sequence, len(each.parts)) for each in taken] == [
            (sequences[1], 2),
            (sequences[0], 2),
        ]
        driver.crash()


def test_the_log_and_the_story_of_a_part_tell_where_it_went(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    header = take_large(caller, queue, caller.number_for()).header.lookup_id
    aside = caller.call(queue_frames.OpenQueue("files;unreadable")).number
    caller.call(large_frames.LargeMove(queue, header, aside, 0))
    driver.store.close()
    facts = [fact for group in look_at_log(driver.path, 100) for fact in group.facts]
    assert (
        f"positions {header}, {header + 1}, {header + 2} moved from 'files' to 'files;unreadable',"
        " a large message as a whole"
    ) in facts
    story = tell_story(driver.path, f"{driver.manager_id}\\{sequence}")
    told = [each.what for each in story.happened]
    assert told[-2] == f"its receiver moved it: left 'files', position {header}"
    assert told[-1].startswith("was moved to 'files;unreadable' at position ")
    assert [each.queue for each in story.now] == ["files;unreadable"]


_POSITIONS = st.lists(st.integers(1, 1 << 40), min_size=1, unique=True).map(sorted)


@given(_POSITIONS)
def test_runs_say_which_positions_they_are_of(positions: list[int]) -> None:
    assert list(positions_in(runs_of(positions))) == positions


@given(st.integers(1, 1 << 40), st.lists(st.integers(1, 1 << 20), max_size=200))
def test_runs_take_no_more_than_a_receipt_of_the_same_positions(
    first: int, steps: list[int]
) -> None:
    positions = [first]
    for step in steps:
        positions.append(positions[-1] + step)
    fact = LargeMoved(1, 1, runs_of(positions), 1)
    nothing = LargeMoved(1, 1, [], 1)
    size = len(encode_fact(fact)) - len(encode_fact(nothing))
    assert size <= POSITION_BYTES * len(positions) + 16


def test_a_part_that_cannot_be_read_as_it_arrives_is_said_unless_it_is_listed(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    number, sending = caller.create("files"), caller.number_for()
    send_large(caller, number, 1, sending)
    caller.commit(sending, 3)
    queue, damaged = look_into(driver.manager).state.queues.numbered(number), []

    def refused(*_: object, **__: object) -> None:
        raise errors.StoreCorrupt("the record is damaged", event=1, file="p0000001.mq")

    monkeypatch.setattr(driver.store, "read", refused)
    with pytest.raises(errors.StoreCorrupt):
        watch_arrivals(driver.store, queue, 1)
    watch_arrivals(driver.store, queue, 1, damaged)
    assert damaged == queue.index.everything()


def test_a_plain_message_leaves_unread_though_large_ones_lie_beside_it(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue, sending = caller.create("files"), caller.number_for()
    caller.send(queue, Message(body=b"late", time_to_be_received=1.0))
    send_large(caller, queue, 1, sending)
    caller.commit(sending, 3)
    reads: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(driver.store, "read", lambda extent, **_: reads.append(extent))
        driver.advance(2.0)
    assert len(look_into(driver.manager).state.queues.numbered(queue).index) == 3
    assert reads == []
