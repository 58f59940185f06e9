"""A snapshot is what the state was when it was taken, whoever draws it and whenever."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.delivery.events import DeliverySettings
from dray.delivery.incoming import StreamKey
from dray.manager.entries import ENTRY_BYTES, Staged, pack_tail
from dray.manager.facts import (
    Accepted,
    Committed,
    Confirmation,
    ConfirmationsTaken,
    Delivered,
    QueueCreated,
    QueuePaused,
    encode_fact,
    pack_lookups,
)
from dray.manager.queue import entry_pages
from dray.manager.queue.queue_index import QueueIndex
from dray.manager.state import snapshots
from dray.manager.state.chunked_encoding import RUN, array_head, array_in_chunks, bytes_head
from dray.manager.state.snapshots import read_state, replay, take_snapshots, write_state
from dray.manager.state.state import State
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.store.heap.heap import Extent
from dray.store.kinds import KIND_AT, Kind
from dray.store.log.checkpoint import Snapshots
from dray.store.recovery.recovery import History
from dray.wire import queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.state.test_applied_facts import (
    NEWS,
    ORDERS,
    joined,
    positions,
    state_after,
    tails,
)

decode = msgspec.msgpack.decode
encode = msgspec.msgpack.encode
LENGTHS = [0, 1, 15, 16, RUN - 1, RUN, RUN + 1, (1 << 16) - 1, 1 << 16]


@pytest.mark.parametrize("count", LENGTHS)
def test_an_array_in_pieces_is_the_array_that_the_encoder_gives(count: int) -> None:
    items = [(number, f"{number}", b"x") for number in range(count)]
    assert b"".join(array_in_chunks(items)) == encode(items)
    assert encode(items).startswith(array_head(count))


@pytest.mark.parametrize("length", [0, 255, 256, (1 << 16) - 1, 1 << 16])
def test_a_byte_string_has_the_head_that_the_encoder_gives(length: int) -> None:
    assert bytes_head(length) + bytes(length) == encode(bytes(length))


def test_what_no_head_can_say_is_refused() -> None:
    with pytest.raises(OverflowError, match="four gigabytes"):
        bytes_head(1 << 32)


def again(snapshots: Snapshots, state: State) -> State:
    """The state that a checkpoint would bring back."""
    found = State(state.delivery)
    read_state(found, b"".join(snapshots.state))
    found.sequences.restore(b"".join(snapshots.sequences))
    return found


def entries(state: State, name: str) -> bytes:
    return state.queues.named(name).index.durable()


def test_a_snapshot_does_not_change_with_what_comes_after_it(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"%d" % number) for number in range(9)])
    state = look_into(driver.manager).state
    taken, before = take_snapshots(state), entries(state, "orders")
    caller.receive(queue, max_messages=4)
    caller.send(queue, Message(body=b"late"))
    caller.create("another")
    found = again(taken, state)
    assert entries(found, "orders") == before
    assert found.queues.find("another") is None
    assert found.queues.named("orders").next_lookup_id == 10
    assert found.queues.named("orders").gone_upto == 0


def test_a_snapshot_knows_the_last_position_that_a_message_has_left(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"%d" % number) for number in range(9)])
    caller.receive(queue, max_messages=4)
    state = look_into(driver.manager).state
    assert again(take_snapshots(state), state).queues.named("orders").gone_upto == 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("aafhx"), max_size=40), st.integers(1, 7))
def test_held_and_damaged_messages_are_in_their_old_place(kinds: list[str], page: int) -> None:
    """In pages of a few entries, so that every boundary between pages is met."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_pages, "PAGE_ENTRIES", page)
        index = QueueIndex()
        for number, kind in enumerate(kinds, 1):
            index.add_run(_tail(number, express=kind == "x"), number)
            if kind in "hf":
                entry = index.find(number)
                assert entry is not None
                index.hold(entry, 1) if kind == "h" else index.put_aside(entry)
    assert b"".join(snapshots._runs(*index.copied())) == b"".join(index.everything())


def _tail(number: int, *, express: bool) -> bytes:
    file = 1 | (Kind.EXPRESS if express else Kind.RECOVERABLE) << KIND_AT
    return pack_tail(Staged(Extent(file, 0, 100), 7, number, 0, 3, 1), 0, 1)


def test_express_and_held_messages_are_in_a_snapshot_as_in_the_state(driver: ManagerDriver) -> None:
    caller = driver.session()
    plain = caller.create("plain", transactional=False)
    for number in range(6):
        caller.send(plain, Message(body=b"%d" % number, recoverable=number % 2 == 0))
    orders = caller.create("orders")
    caller.send(orders, *[Message(body=b"%d" % number) for number in range(5)])
    caller.receive(orders, transaction=caller.number_for(), max_messages=2)
    state = look_into(driver.manager).state
    found = again(take_snapshots(state), state)
    for name in ("plain", "orders"):
        assert entries(found, name) == entries(state, name)
    counts = [len(entries(found, name)) // ENTRY_BYTES for name in ("plain", "orders")]
    assert counts == [3, 5]


def test_no_fact_is_counted_twice_at_a_start_from_a_checkpoint(driver: ManagerDriver) -> None:
    driver.session().call(queue_frames.SetQuota("", 1 << 20, None))
    state = look_into(driver.manager).state
    found = again(take_snapshots(state), state)
    assert found.identity.age == state.identity.age
    assert found.ledger.limits == state.ledger.limits


def test_a_state_is_written_as_it_always_was(driver: ManagerDriver) -> None:
    """One record a queue, length before it, and in it what the encoder would have written."""
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(20):
        caller.send(queue, *[Message(body=b"x")] * 100)
    records = records_of(look_into(driver.manager).state)
    assert [encode(decode(each)) for each in records] == records
    assert len(records) == 1 + len(look_into(driver.manager).state.queues)


def records_of(state: State) -> list[bytes]:
    """The records of a snapshot, without their lengths."""
    image, at, records = b"".join(write_state(state)), 0, []
    while at < len(image):
        length = int.from_bytes(image[at : at + 8], "little")
        records.append(image[at + 8 : at + 8 + length])
        at += 8 + length
    return records


def test_the_record_of_a_queue_begins_with_the_fact_that_made_it() -> None:
    facts = [
        QueueCreated(7, "mine", "private", QueueOptions(label="x"), born=5),
        QueueCreated(8, "mine;journal", "journal", QueueOptions(), parent=7),
        QueueCreated(9, "dray://far:1/it", "outgoing", QueueOptions(), "far", 1, "it", secure=True),
    ]
    _, *queues = records_of(state_after(*facts))
    assert [decode(each)[0] for each in queues[-3:]] == [decode(encode(each)) for each in facts]


def test_a_snapshot_knows_which_messages_a_purge_still_waits_for(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, Message(body=b"held"))
    caller.receive(queue, transaction=caller.number_for())
    caller.call(queue_frames.PurgeQueue(queue))
    state = look_into(driver.manager).state
    found = again(take_snapshots(state), state).queues.named("orders")
    assert found.purge_pending == {1}


def test_a_state_that_nothing_has_happened_to_is_written_and_read() -> None:
    state = State(DeliverySettings())
    found = again(take_snapshots(state), state)
    assert list(write_state(found)) == list(write_state(state))
    assert (found.manager_id, found.name, len(found.queues)) == ("", "", 0)


def test_a_snapshot_knows_what_is_paused_and_how_far_confirmations_were_heard() -> None:
    heard = Committed(0, 1, [], [], heard=(NEWS, 7))
    state = state_after(QueuePaused(NEWS, paused=True), heard)
    found = again(take_snapshots(state), state)
    assert [found.queues.numbered(each).paused for each in (ORDERS, NEWS)] == [False, True]
    assert found.heard == {NEWS: 7}


def test_what_stayed_behind_in_an_outgoing_queue_stays_when_a_log_is_replayed() -> None:
    """Its stream has gone past it; nobody has it, so a start may not count it as delivered."""
    sent = (joined(ORDERS, tails(9)), joined(NEWS, tails(1, 2, 3, 4)))
    state = state_after(*sent, Delivered(NEWS, 2, stayed=pack_lookups([2])))
    history = History.of(take_snapshots(state))
    later = History(*history[:2], iter([encode_fact(Delivered(NEWS, 3))]))
    found = replay(State(state.delivery), later)
    index = found.queues.numbered(NEWS).index
    assert (index.aside_between(0, 9), positions(found, NEWS)) == ([2], [4])
    assert positions(found, ORDERS) == [1]


def test_each_half_of_a_state_takes_the_facts_after_its_own_snapshot() -> None:
    key = StreamKey("source", 1)
    told = [Confirmation(each, 1) for each in (1, 2)]
    came = [
        Accepted(*key, 5, number, ORDERS, 1, tails(number), [each])
        for number, each in enumerate(told, 1)
    ]
    facts = [encode_fact(each) for each in (*came, ConfirmationsTaken(*key, 1))]
    older, newer = (History.of(take_snapshots(state_after(*came[:n]))) for n in (0, 1))
    for state, sequences in ((0, 1), (1, 0)):
        halves = (older, newer)[state].state, (older, newer)[sequences].sequences
        found = replay(State(DeliverySettings()), History(*halves, iter(facts), state, sequences))
        assert positions(found, ORDERS) == [1, 2]
        assert found.outbox.after(key, 0, 9) == (2, told[1:])
        assert found.incoming.position(key)[:2] == (5, 2)
