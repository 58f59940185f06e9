"""The room of the next checkpoint is had before the state grows, whoever fills the disk then."""

from __future__ import annotations

from random import Random

import pytest

from dray.errors import StoreFull
from dray.store.limits import CHECKPOINT_BYTES, STATE_PER_FACTS
from dray.store.log.checkpoint import TRANSACTIONS
from dray.testing.disk import CrashEffect, SimDisk
from tests.unit.store.ledger import opened, small_store

FACT = bytes(1000)


def state_facts(store, facts):
    for _ in range(facts):
        store.append(FACT)
        if store.waiting_bytes > 4_000:
            store.sync()
    store.sync()


def sizes(disk):
    return [disk.open(name).size() for name in TRANSACTIONS]


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def store(disk):
    return opened(disk)[0]


def test_a_state_that_grew_as_announced_finds_room_on_a_disk_that_was_filled_meanwhile(disk, store):
    state = 0
    for _ in range(40):
        disk.full_after(1 << 20)
        store.have_checkpoint_room(4 * len(FACT))
        disk.full_after(0)
        state_facts(store, 4)
        state += int(4 * len(FACT) * STATE_PER_FACTS)
        store.checkpoint([bytes(state)])
    assert store.counters.checkpoints == 40
    assert state > 2 * CHECKPOINT_BYTES


def test_a_state_that_grew_more_than_was_announced_does_not(disk, store):
    store.have_checkpoint_room(9 * len(FACT))
    disk.full_after(0)
    with pytest.raises(StoreFull):
        store.checkpoint([bytes(CHECKPOINT_BYTES * 2)])


def test_what_there_is_no_room_for_is_refused_and_what_there_is_stays(disk, store):
    before = sizes(disk)
    disk.full_after(5_000)
    with pytest.raises(StoreFull):
        store.have_checkpoint_room(CHECKPOINT_BYTES)
    store.have_checkpoint_room(1_000)
    assert min(sizes(disk)) >= min(before)
    disk.full_after(1 << 20)
    store.have_checkpoint_room(CHECKPOINT_BYTES)
    assert min(sizes(disk)) >= CHECKPOINT_BYTES * STATE_PER_FACTS


def test_room_is_had_for_both_files_with_some_to_spare_and_then_not_asked_for(
    disk, store, monkeypatch
):
    store.have_checkpoint_room(2 * CHECKPOINT_BYTES)
    assert len(set(sizes(disk))) == 1
    monkeypatch.setattr(disk, "open", None)
    store.have_checkpoint_room(2 * CHECKPOINT_BYTES)
    store.have_checkpoint_room(2 * CHECKPOINT_BYTES + 1_000)


def test_what_was_stated_since_the_newest_checkpoint_counts_and_before_it_no_more(disk, store):
    store.have_checkpoint_room(0)
    assert max(sizes(disk)) == CHECKPOINT_BYTES
    for _ in range(20):
        state_facts(store, 2)
        store.have_checkpoint_room(0)
        store.checkpoint([b"state"])
    assert max(sizes(disk)) == CHECKPOINT_BYTES
    store.checkpoint([bytes(CHECKPOINT_BYTES - 20_000)])
    state_facts(store, 5)
    store.have_checkpoint_room(0)
    assert max(sizes(disk)) > CHECKPOINT_BYTES


@pytest.mark.parametrize("fate", [CrashEffect.LOST, CrashEffect.KEPT])
def test_after_a_crash_what_was_followed_from_the_log_counts_too(disk, store, fate):
    """And the room is asked for again: the size of a file may have been lost."""
    store.have_checkpoint_room(2 * CHECKPOINT_BYTES)
    state_facts(store, 9)
    after = disk.crash(fate)
    again = small_store(after)
    again.recover(lambda history: (list(history.facts), [])[1])
    again.have_checkpoint_room(CHECKPOINT_BYTES)
    assert min(sizes(after)) >= CHECKPOINT_BYTES * STATE_PER_FACTS + 9 * len(FACT)
    after.full_after(0)
    again.checkpoint([bytes(CHECKPOINT_BYTES + 9 * len(FACT))])


def emptied(store, files):
    """So many heap files that a message could fill, and nothing in them."""
    pieces = [store.place(bytes(store.heap_file_bytes)) for _ in range(files)]
    for each in pieces:
        store.discard(each)
    store.place(b"a message that stays")
    return store.counters.free_heap_files


def test_on_a_full_disk_empty_heap_files_make_room_and_no_more_of_them_than_it_takes(disk, store):
    before = emptied(store, 80)
    disk.full_after(0)
    store.have_checkpoint_room(CHECKPOINT_BYTES)
    assert min(sizes(disk)) >= CHECKPOINT_BYTES * STATE_PER_FACTS
    given = before - store.counters.free_heap_files
    grown = 2 * CHECKPOINT_BYTES * STATE_PER_FACTS // store.heap_file_bytes
    assert 0 < given <= grown + 2 < before
    state_facts(store, 9)
    store.checkpoint([bytes(CHECKPOINT_BYTES + 9 * len(FACT))])


def test_a_file_that_is_read_makes_no_room(disk, store):
    emptied(store, 6)
    free = [name for name in disk.names() if name.startswith("p")]
    for number in range(1, 1 + len(free)):
        store.pin(number)
    disk.full_after(0)
    with pytest.raises(StoreFull):
        store.have_checkpoint_room(CHECKPOINT_BYTES)
    assert [name for name in disk.names() if name.startswith("p")] == free


def test_a_checkpoint_that_a_full_disk_refused_finds_room_at_a_later_try(disk, store):
    """Nothing was announced, as where messages only leave."""
    emptied(store, 40)
    disk.full_after(0)
    tries = 0
    while tries < 40:
        tries += 1
        try:
            store.checkpoint([bytes(CHECKPOINT_BYTES * 2)])
        except StoreFull:
            continue
        break
    assert 1 < tries < 40
    assert store.counters.checkpoints == 1
