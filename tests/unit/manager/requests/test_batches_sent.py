"""Many messages that are sent at once join their queue as each would by itself."""

from __future__ import annotations

import itertools

import pytest
from crc32c import crc32c as checksum

from dray.client.calls.messages import record_of
from dray.errors import ProtocolError
from dray.manager.entries import TAIL_BYTES, Staged, group_places, pack_tail, packed_tails, unpack
from dray.model.classes import Acknowledge
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.testing.keyed_manager import id_named
from dray.wire.message_frames import FOLLOWING_MAX, Send
from dray.wire.queue_frames import DescribeQueue
from tests.cost import calls_of
from tests.inspection import look_into

BATCH = 100
CALLS_MAX = 300
"""Calls of Python functions for all of them, sent and committed; 8 more for each when each was read
and packed by itself."""
SOURCE = bytes.fromhex(id_named("a"))
KINDS = [
    Message(body=b"1"),
    Message(body=b"22", priority=7),
    Message(body=b"333", use_dead_letter_queue=True),
    Message(body=b"4444", use_dead_letter_queue=False, use_journal_queue=True),
    Message(body=b"5", label="named"),
    Message(body=b"6", time_to_be_received=60.0),
    Message(body=b"7", acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin"),
    Message(body=b"8", recoverable=False),
]


@pytest.fixture
def caller(driver):
    return driver.session()


@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_joins_its_queue_as_its_messages_do_one_by_one(driver, caller, transactional):
    caller.create("admin")
    for at, kinds in enumerate(itertools.combinations(KINDS, 2)):
        together = caller.create(f"together{at}", transactional=transactional)
        alone = caller.create(f"alone{at}", transactional=transactional)
        caller.send(together, *kinds)
        for each in kinds:
            caller.send(alone, each)
        found = [[fields_of(driver, entry) for entry in entries(driver, number)]
                 for number in (together, alone)]  # fmt: skip
        assert found[0] == found[1]


def entries(driver, number):
    return list(look_into(driver.manager).state.queues.numbered(number).index.in_position_order())


def fields_of(driver, entry):
    """What does not depend on number, place and group."""
    found = unpack(entry)
    return (found.lookup_id, found.length, found.priority, found.copies, found.part,
            found.message_class, found.expires_us > 0, found.file >> 30)  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 3, FOLLOWING_MAX, FOLLOWING_MAX + 1, FOLLOWING_MAX + 3])
@pytest.mark.parametrize("transaction", [0, 7])
def test_the_entries_of_a_batch_are_packed_as_each_is_by_itself(count, transaction):
    staged = [
        Staged(Extent(1, at, at + 1), at, at + 5, 0, at % 8, 77, expires_us=at, copies=at % 4)
        for at in range(count)
    ]
    packed = packed_tails(staged, transaction, 99, marks=4)
    if transaction:
        alone = [
            pack_tail(
                each, transaction, 99,
                ordinal=place.ordinal, following=place.following, marks=4 | place.marks,
            )
            for each, place in zip(staged, group_places([0] * count), strict=True)
        ]  # fmt: skip
    else:
        alone = [pack_tail(each, 0, 99, marks=4) for each in staged]
    assert packed == b"".join(alone)
    assert len(packed) == count * TAIL_BYTES


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("label", ["", "named"])
def test_a_batch_of_which_one_record_was_damaged_leaves_nothing_behind(driver, caller, at, label):
    queue = caller.create("orders", transactional=True)
    number = caller.number_for()
    records = [record_of(Message(body=b"body", label=label), SOURCE, number + 1 + each)
               for each in range(2)]  # fmt: skip
    crcs = [each.crc for each in records]
    crcs[at] ^= 1
    head = Send(queue, 0, [each.size for each in records], crcs)
    with pytest.raises(ProtocolError, match="CRC32C"):
        caller.call(head, b"".join(each.head + each.body for each in records))
    assert caller.call(DescribeQueue("orders")).info.message_count == 0
    assert driver.store.live_bytes == 0


def test_a_batch_whose_properties_cannot_be_read_is_refused_and_leaves_nothing_behind(
    driver, caller
):
    queue = caller.create("orders", transactional=True)
    number = caller.number_for()
    records = [record_of(Message(body=b"body", label="named"), SOURCE, number + 1 + each)
               for each in range(2)]  # fmt: skip
    wrong = [each.head.replace(b"named", b"n\xffmed") + each.body for each in records]
    head = Send(queue, 0, [*map(len, wrong)], [*map(checksum, wrong)])
    with pytest.raises(ProtocolError, match="unreadable properties"):
        caller.call(head, b"".join(wrong))
    assert caller.call(DescribeQueue("orders")).info.message_count == 0
    assert driver.store.live_bytes == 0


@pytest.mark.parametrize("label", ["", "named"])
def test_a_batch_is_sent_and_committed_in_few_calls_a_message(driver, caller, label):
    queue = caller.create("orders", transactional=True)
    batch = [Message(body=b"body", label=label, app_specific=at) for at in range(BATCH)]
    caller.send(queue, *batch)
    number = caller.number_for()
    records = [record_of(each, SOURCE, at) for at, each in enumerate(batch, number + 1)]
    head = Send(queue, number, [each.size for each in records], [each.crc for each in records])
    body = b"".join(each.head + each.body for each in records)

    def send_and_commit():
        assert not caller.answers(caller.ask(head, body))
        caller.commit(number, 1)

    assert calls_of(send_and_commit) <= CALLS_MAX
    assert caller.call(DescribeQueue("orders")).info.message_count == 2 * BATCH
