"""A large message whose bytes are not what they should be is never believed."""

from __future__ import annotations

import contextlib
import hashlib

import pytest

from dray.client.blocking.large import LargeMessageQueue
from dray.client.calls.messages import record_of
from dray.errors import (
    LargeMessageCorrupt,
    LargeMessageHole,
    ProtocolError,
    TransactionSequence,
    TransactionUsage,
)
from dray.large.split import LargeMessageParameters, Split
from dray.model.ids import ManagerId
from dray.model.message import Message
from dray.wire.frames import Done
from dray.wire.large_frames import (
    LargeFound,
    LargeMove,
    LargeReceive,
    PartAt,
    PartDamaged,
    Range,
    ReadPart,
)
from dray.wire.message_frames import Abort, Commit, Envelope
from dray.wire.queue_frames import ListQueues, QueueList
from tests.unit.client.peer import MANAGER_ID

PIECES = [b"a" * 1000, b"b" * 1000, b"c" * 500]
SEQUENCE = 500


class Large:
    """One large message at the peer, to be spoilt before it is asked for."""

    def __init__(self, peer, pieces=PIECES, digest=None):
        self.peer = peer
        split = Split(
            Message(label="blob"),
            ManagerId(MANAGER_ID),
            SEQUENCE,
            parameters=LargeMessageParameters(),
            fragment_size=1000,
            digest_kind="sha256",
        )
        whole = hashlib.sha256(b"".join(pieces)).digest()
        parts = [split.header(), *map(split.fragment, pieces), split.trailer(digest or whole)]
        self.records = []
        self.crcs = []
        for number, part in enumerate(parts, SEQUENCE):
            record = record_of(part.message, bytes.fromhex(MANAGER_ID), number, part.mark)
            self.records.append(bytearray(record.head + bytes(record.body)))
            self.crcs.append(record.crc)
        self.missing = []
        self.fragments = slice(1, -1)
        peer.on[LargeReceive] = self.found
        peer.on[ReadPart] = self.read
        # Whatever is damaged here was damaged on the way.
        peer.on[PartDamaged] = lambda visit, frame: visit.answer(frame, Done(0))
        peer.on[LargeMove] = lambda visit, frame: visit.answer(frame, Done(0))

    def envelope(self, at):
        return Envelope(at, len(self.records[at]), self.crcs[at], 1, 0, 0, 0)

    def found(self, visit, frame):
        last = len(self.records) - 1
        parts = [PartAt(at, len(self.records[at]), self.crcs[at]) for at in range(1, last)]
        head = LargeFound(
            SEQUENCE,
            MANAGER_ID,
            self.envelope(0),
            self.envelope(last),
            parts[: len(parts) if self.fragments == slice(1, -1) else 1],
            self.missing,
        )
        visit.answer(frame, head, bytes(self.records[0] + self.records[last]))

    def read(self, visit, frame):
        visit.answer(frame, Range(), bytes(self.records[frame.head.lookup_id]))


@pytest.fixture
def large_queue(queue):
    return LargeMessageQueue(queue)


@pytest.fixture
def take(large_queue):
    """Receives messages that are let go of at the end of the test."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(large_queue.receive()))


def test_what_was_sent_is_what_is_read(peer, large_queue):
    Large(peer)
    with large_queue.receive() as message:
        assert message.body() == b"".join(PIECES)


def test_a_damaged_fragment_is_told_before_a_byte_of_it_is_given(peer, take, tmp_path):
    Large(peer).records[2][-1] ^= 1
    message = take()
    pieces = iter(message)
    assert next(pieces) == PIECES[0]
    with pytest.raises(LargeMessageCorrupt, match="fragment 2") as caught:
        next(pieces)
    assert caught.value.sequence_id == f"{MANAGER_ID}\\{SEQUENCE}"
    with pytest.raises(LargeMessageCorrupt):
        message.save_to(tmp_path / "out.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_fragment_in_another_ones_place_is_told(peer, take):
    large = Large(peer, [b"a" * 1000, b"b" * 1000])
    for of in (large.records, large.crcs):
        of[1], of[2] = of[2], of[1]
    with pytest.raises(LargeMessageCorrupt, match="fragment 1"):
        take().body()


def test_a_digest_that_does_not_fit_is_told_at_the_end(peer, take, tmp_path):
    Large(peer, digest=b"wrong" * 6 + b"..")
    message = take()
    assert message.read(2500) == b"".join(PIECES)
    with pytest.raises(LargeMessageCorrupt, match="digest"):
        message.read(1)
    with pytest.raises(LargeMessageCorrupt, match="digest"):
        message.save_to(tmp_path / "out.bin")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", [0, -1])
def test_a_damaged_header_or_trailer_is_told(peer, large_queue, at):
    Large(peer).records[at][-1] ^= 1
    with pytest.raises(LargeMessageCorrupt, match="header or trailer"):
        large_queue.receive()


def test_fewer_fragments_than_the_trailer_counts_are_told(peer, large_queue):
    Large(peer).fragments = slice(1, 2)
    with pytest.raises(LargeMessageCorrupt, match="1 fragment and says 3; it stays first"):
        large_queue.receive()


def test_a_hole_that_is_only_shown_is_an_error_too(peer, large_queue):
    Large(peer).missing = [[2, 2], "trailer"]
    with pytest.raises(LargeMessageHole) as caught:
        large_queue.peek()
    assert caught.value.missing == [[2, 2], "trailer"]


def test_another_answer_than_a_range_breaks_the_protocol(peer, take):
    Large(peer)
    peer.on[ReadPart] = lambda visit, frame: visit.answer(frame, Done())
    with pytest.raises(ProtocolError, match="Done"):
        take().body()


def test_a_large_message_without_its_trailer_is_not_believed(peer, large_queue):
    large = Large(peer)

    def headless(visit, frame):
        found = LargeFound(SEQUENCE, MANAGER_ID, large.envelope(0), None, [])
        visit.answer(frame, found, bytes(large.records[0]))

    peer.on[LargeReceive] = headless
    with pytest.raises(LargeMessageCorrupt, match="without its trailer"):
        large_queue.receive()


def test_short_fragments_are_asked_for_many_at_a_time(peer, take):
    large, held = Large(peer, [b"x"] * 200), []

    def answer_when_many_are_asked_for(visit, frame):
        held.append(frame)
        while held and len(peer.of(ReadPart)) >= 64:
            large.read(visit, held.pop(0))

    peer.on[ReadPart] = answer_when_many_are_asked_for
    message = take()
    assert next(iter(message)) == b"x"
    assert len(peer.of(ReadPart)) < 100
    assert repr(message).endswith("'blob' 200 bytes>")


def test_without_a_with_block_it_is_committed_or_given_back_once(peer, large_queue):
    Large(peer)
    message = large_queue.receive()
    message.commit()
    message.close()
    assert (len(peer.of(Commit)), len(peer.of(Abort))) == (1, 0)
    message = large_queue.receive()
    message.close()
    message.close()
    assert (len(peer.of(Commit)), len(peer.of(Abort))) == (1, 1)
    with pytest.raises(TransactionSequence):
        message.body()


def test_one_that_is_dropped_is_given_back_ahead_of_the_next_request(peer, manager, large_queue):
    Large(peer)
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))
    message = large_queue.receive()
    with pytest.warns(ResourceWarning, match="dropped"):
        del message
    assert peer.of(Abort) == []
    manager.queues()
    assert [type(head) for head in peer.seen[-2:]] == [Abort, ListQueues]


def test_what_has_no_transaction_of_its_own_is_neither_committed_nor_aborted(
    peer, manager, large_queue
):
    Large(peer)
    with manager.transaction() as transaction:
        for message in (large_queue.peek(), large_queue.receive(transaction=transaction)):
            with pytest.raises(TransactionUsage):
                message.commit()
            message.close()
            assert message.body() == b"".join(PIECES)
    assert (len(peer.of(Commit)), len(peer.of(Abort))) == (1, 0)


def test_reading_goes_on_where_it_failed(peer, take):
    """The end of a pass that was cut off is not the end of the body."""
    large, spoilt = Large(peer), [2]

    def read(visit, frame):
        if frame.head.lookup_id in spoilt:
            spoilt.remove(frame.head.lookup_id)
            visit.answer(frame, Done())
        else:
            large.read(visit, frame)

    peer.on[ReadPart] = read
    message, whole = take(), b"".join(PIECES)
    assert message.read(700) == whole[:700]
    # What was put into the buffer before it failed is read again.
    with pytest.raises(ProtocolError):
        message.read(1000)
    assert message.read(500) == whole[700:1200]
    assert message.read() == whole[1200:]
    assert message.read() == b""
    spoilt.append(3)
    message = take()
    with pytest.raises(ProtocolError):
        message.read()
    assert message.read(1000) == whole[:1000]
    assert message.read() == whole[1000:]


def test_what_is_corrupt_stays_so_and_is_no_end(peer, take):
    Large(peer, digest=b"wrong" * 6 + b"..")
    message = take()
    for _ in range(2):
        with pytest.raises(LargeMessageCorrupt):
            message.read()
    assert message.read(2500) == b"".join(PIECES)
    for _ in range(2):
        with pytest.raises(LargeMessageCorrupt):
            message.read(1)


def test_what_never_gets_right_can_be_received_for_good(peer, large_queue, tmp_path):
    """Or it would stand in the way of all that follow (docs/how-to/deal-with-a-hole.md)."""
    Large(peer, digest=b"wrong" * 6 + b"..")
    with large_queue.receive() as message:
        with pytest.raises(LargeMessageCorrupt):
            message.save_to(tmp_path / "out.bin")
        assert message.abort_count == 0
    assert (len(peer.of(Commit)), len(peer.of(Abort))) == (1, 0)
    assert list(tmp_path.iterdir()) == []
