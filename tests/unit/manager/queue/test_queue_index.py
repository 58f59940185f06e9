"""One queue's entries, whatever joins and leaves, in the order in which they are received."""

from __future__ import annotations

from random import Random

import pytest

from dray.manager.entries.entry import is_express_entry, lookup_id_of, part_of, unpack
from dray.manager.entries.packed import entries_in
from dray.manager.queue.entry_pages import PAGE_ENTRIES
from dray.manager.queue.queue_index import QueueIndex
from tests.cost import calls_of
from tests.drawn_entries import tail


def test_a_run_of_mixed_priorities_joins_in_receiving_order():
    rng = Random(3)
    queue = QueueIndex()
    first = [tail(rng, priority=each) for each in (3, 7, 0)]
    queue.add_run(b"".join(first), 1)
    queue.add_run(tail(rng, priority=7), 4)
    queue.add_run(b"".join([tail(rng, priority=0)] * 2), 5)
    found = [unpack(each) for each in queue.available()]
    assert [(each.priority, each.lookup_id) for each in found] == [
        (7, 2), (7, 4), (3, 1), (0, 3), (0, 5), (0, 6),
    ]  # fmt: skip
    assert [unpack(each).lookup_id for each in queue.in_position_order(2)] == [3, 4, 5, 6]
    assert [unpack(each).lookup_id for each in queue.of_priority(7)] == [2, 4]
    assert [unpack(each).lookup_id for each in queue.of_priority(0, after=3)] == [5, 6]
    assert list(queue.of_priority(5)) == []


@pytest.mark.parametrize("seed", range(10))
def test_counts_follow_whatever_joins_and_leaves(seed):
    rng = Random(seed)
    queue, there, last, held = QueueIndex(), {}, 0, []
    for _ in range(60):
        match rng.randrange(5):
            case 0:
                tails = [tail(rng, priority=0) for _ in range(rng.randrange(5))]
                for entry in entries_in(queue.add_run(b"".join(tails), last + 1)):
                    last += 1
                    there[last] = entry
            case 1 if there:
                upto = rng.randrange(last + 1)
                gone = entries_in(queue.take_upto(upto))
                assert gone == [
                    there.pop(each) for each in sorted(there) if each <= upto and each not in held
                ]
            case 2 if there:
                numbers = rng.sample(sorted(there), rng.randrange(1, len(there) + 1))
                assert queue.at([*numbers, last + 1]) == [there[each] for each in numbers]
                gone = b"".join([there.pop(each) for each in numbers])
                assert queue.remove([*numbers, last + 1, numbers[0]]) == gone
                assert queue.remove(numbers) == b""
                held = [each for each in held if each not in numbers]
            case 3 if free := sorted(there.keys() - held):
                taken = sorted(rng.sample(free, rng.randrange(1, len(free) + 1)))
                queue.hold(b"".join([there[each] for each in taken]), 9)
                held += taken
            case 4 if held:
                queue.put_back([held.pop() for _ in range(rng.randrange(1, len(held) + 1))])
            case _:
                pass
        entries = [there[each] for each in sorted(there)]
        express = [each for each in entries if is_express_entry(each)]
        assert queue.everything() == entries
        assert queue.durable() == b"".join([each for each in entries if each not in express])
        assert queue.byte_count == 100 * len(entries)
        assert (queue.express_count, queue.express_bytes) == (len(express), 100 * len(express))
        assert queue.available_count == len(entries) - len(held)
        after = rng.randrange(last + 1)
        free = [each for each in sorted(there) if each not in held and each > after]
        assert [lookup_id_of(each) for each in queue.after(after)] == free
        assert entries_in(b"".join(queue.runs_after(after))) == [there[each] for each in free]


def test_a_loaded_index_is_the_one_that_was_written_down():
    rng = Random(5)
    written, read = QueueIndex(), QueueIndex()
    for number in range(1, 700):
        written.add_run(tail(rng), number)
    read.load(written.durable())
    assert read.durable() == written.durable()
    assert len(read) == len(written) - written.express_count
    assert read.byte_count == written.byte_count - written.express_bytes


@pytest.mark.parametrize("priorities", [(3, 7, 0), (3, 4), (4, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_the_oldest_message_is_found_whatever_its_priority_and_whether_it_is_held(seed, priorities):
    rng, queue = Random(seed), QueueIndex()
    assert queue.oldest_time() is None
    tails = [tail(rng, priority=each) for each in priorities]
    for position, each in enumerate(tails, 1):
        queue.add_run(each, position)
    entries = [unpack(each) for each in queue.everything()]
    oldest = min(entries, key=lambda each: each.arrived_us)
    assert queue.oldest_time() == oldest.arrived_us / 1e6
    held = queue.find(oldest.lookup_id)
    assert held is not None
    queue.hold(held, 9)
    assert queue.oldest_time() == oldest.arrived_us / 1e6
    queue.put_back([oldest.lookup_id])
    queue.remove((oldest.lookup_id,))
    left = min(each.arrived_us for each in entries if each != oldest)
    assert queue.oldest_time() == left / 1e6


def test_positions_and_receiving_order_are_one_only_if_all_have_one_priority() -> None:
    rng = Random(3)
    for first_position in range(1, 9):
        for priorities in ((7, 0), (0, 7), (3, 4), (5, 5), (0, 0)):
            found = QueueIndex()
            for at, priority in enumerate(priorities):
                found.add_run(tail(rng, priority=priority), first_position + at)
            assert found.is_of_one_priority() == (priorities[0] == priorities[1])


def test_what_was_put_aside_is_removed_with_all_that_it_counted():
    rng, queue = Random(6), QueueIndex()
    for position in range(1, 40):
        queue.add_run(tail(rng), position)
    parts, size = queue.part_count, queue.byte_count
    aside = [each for each in queue.everything() if part_of(each)][:2]
    assert len(aside) == 2
    for each in aside:
        queue.put_aside(each)
    assert (queue.part_count, queue.aside_count) == (parts - 2, 2)
    numbers = [lookup_id_of(each) for each in aside]
    assert queue.aside_between(numbers[0] - 1, numbers[1]) == numbers
    assert queue.aside_between(numbers[0], numbers[1]) == numbers[1:]
    assert entries_in(queue.remove([*numbers, numbers[0], 999])) == aside
    assert (queue.part_count, queue.aside_count) == (parts - 2, 0)
    assert queue.byte_count == size - 200
    assert len(queue) == 37
    queue.remove(map(lookup_id_of, queue.everything()))
    assert (queue.part_count, queue.byte_count, len(queue)) == (0, 0, 0)


@pytest.mark.parametrize("priorities", [(3,), (3, 7)])
def test_a_run_is_found_and_removed_by_the_page_and_not_by_the_message(
    priorities: tuple[int, ...],
) -> None:
    rng, of_each = Random(8), 20 * PAGE_ENTRIES
    queue, first = QueueIndex(), 1
    for priority in priorities:
        queue.add_run(tail(rng, priority=priority) * of_each, first)
        first += of_each
    # Gaps in the queue do not matter where none of its messages is passed over.
    queue.remove(range(5, first, 97))
    entries = list(queue.available())
    positions = list(map(lookup_id_of, entries))
    found: list[bytes] = []
    calls = calls_of(lambda: found.extend(queue.at(positions)))
    assert found == entries
    calls += calls_of(lambda: queue.remove(positions))
    assert len(queue) == 0
    assert calls < len(entries) / 5


def test_messages_of_an_aborted_receive_come_back_by_the_run_and_are_counted_so() -> None:
    rng, count = Random(9), 20 * PAGE_ENTRIES
    queue = QueueIndex()
    queue.add_run(tail(rng, priority=3) * count, 1)
    entries = list(queue.available())
    for first in range(0, count, 1000):
        queue.hold(b"".join(entries[first : first + 900]), 9)
    positions = [each for each in range(1, count + 1) if queue.held(each)]
    calls = calls_of(lambda: queue.put_back(positions))
    assert list(queue.available()) == entries
    calls += calls_of(lambda: queue.count_aborts(positions))
    aborts = [
        unpack(each).abort_count - unpack(entries[0]).abort_count for each in queue.available()
    ]
    assert [at for at, times in enumerate(aborts, 1) if times] == positions
    assert set(aborts) == {0, 1}
    assert calls < count / 5
