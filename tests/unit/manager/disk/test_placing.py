"""Records of one frame lie side by side in the heap, written in as few pieces as can be."""

from __future__ import annotations

from random import Random

import crc32c
import pytest

from dray.errors import ProtocolError, StoreFull
from dray.manager.disk.placing import Span, check_records, place_all, place_batch
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind, kind_of
from dray.store.recovery.recovery import History
from dray.store.store import Store
from dray.testing.disk import Operation, SimDisk
from dray.wire.message_frames import Envelope
from dray.wire.peer_frames import Data
from dray.wire.record import HEADER_BYTES, encode_record

HEAP_BYTES = 4096
BODY = memoryview(bytes(range(256)) * 32)


@pytest.fixture
def disk():
    return SimDisk(Random(1))


@pytest.fixture
def store(disk) -> Store:
    store = Store(disk, heap_file_bytes=HEAP_BYTES, log_bytes=16 << 10)
    store.recover(_nothing)
    return store


def _nothing(_: History) -> tuple[()]:
    return ()


def heap_writes(operations: list[Operation]) -> int:
    """Writes of payload; the zeros that the store writes ahead of small ones are its own affair."""
    writes = [each for each in operations if each.verb == "write" and each.name.startswith("p")]
    return sum(any(each.data) for each in writes)


def test_neighbours_are_written_in_one_piece_and_told_apart(disk, store):
    operations: list[Operation] = []
    disk.recorded(operations)
    spans = [Span(100, 50), Span(150, 1), Span(151, 300)]
    places = place_all(store, BODY, spans)
    assert heap_writes(operations) == 1
    assert [store.read(place) for place in places] == [
        bytes(BODY[span.offset : span.stop]) for span in spans
    ]


def test_what_lies_between_records_is_not_kept(disk, store):
    operations: list[Operation] = []
    disk.recorded(operations)
    spans = [Span(0, 10), Span(20, 10), Span(30, 10)]
    places = place_all(store, BODY, spans)
    assert heap_writes(operations) == 2
    assert store.live_bytes == 30
    assert [store.read(place) for place in places] == [
        bytes(BODY[span.offset : span.stop]) for span in spans
    ]


def test_records_of_different_kinds_lie_in_different_files(store):
    spans = [Span(0, 10), Span(10, 10, Kind.EXPRESS), Span(20, 10)]
    places = place_all(store, BODY, spans)
    assert [kind_of(place.file) for place in places] == [span.kind for span in spans]
    assert [store.read(place) for place in places] == [
        bytes(BODY[span.offset : span.stop]) for span in spans
    ]


def test_no_piece_is_longer_than_a_heap_file(store):
    spans = [Span(offset, 1024) for offset in range(0, 8192, 1024)]
    places = place_all(store, BODY, spans)
    assert len({place.file for place in places}) == 2
    assert b"".join(map(store.read, places)) == BODY


def test_each_place_is_given_up_by_itself(store):
    first, second = place_all(store, BODY, [Span(0, 600), Span(600, 600)])
    store.discard(first)
    assert store.live_bytes == 600
    assert store.read(second) == BODY[600:1200]


def test_without_room_for_all_nothing_is_kept(disk, store):
    disk.full_after(HEAP_BYTES + 512)
    with pytest.raises(StoreFull):
        place_all(store, BODY, [Span(0, HEAP_BYTES), Span(HEAP_BYTES, HEAP_BYTES)])
    assert store.live_bytes == 0


def test_no_records_take_no_place(store):
    assert place_all(store, BODY, []) == []
    assert store.place(b"x") == Extent(1, 0, 1)


@pytest.mark.parametrize(
    "kinds",
    [
        [Kind.RECOVERABLE] * 3,
        [Kind.EXPRESS] * 3,
        [Kind.RECOVERABLE, Kind.EXPRESS, Kind.RECOVERABLE],
    ],
)
def test_a_batch_lies_as_its_records_would_one_by_one(store, kinds):
    sizes = [10, 300, 1]
    places = place_batch(store, BODY[: sum(sizes)], sizes, kinds)
    assert [kind_of(place.file) for place in places] == kinds
    assert [store.read(place) for place in places] == [
        bytes(BODY[:10]),
        bytes(BODY[10:310]),
        bytes(BODY[310:311]),
    ]


def test_of_a_batch_that_does_not_fit_the_disk_nothing_is_kept(disk, store):
    store.place(BODY[:10], Kind.RECOVERABLE)
    before = store.live_bytes
    disk.full_after(0)
    sizes = [10, 10, HEAP_BYTES]
    kinds = [Kind.EXPRESS, Kind.RECOVERABLE, Kind.JOURNAL]
    with pytest.raises(StoreFull):
        place_batch(store, BODY[: sum(sizes)], sizes, kinds)
    assert store.live_bytes == before


def data_of(*lengths: int, crcs: tuple[int, ...] = ()) -> Data:
    """A Data frame whose envelopes say these lengths, and these checksums if any."""
    crcs = crcs or (0,) * len(lengths)
    envelopes = [
        Envelope(at, length, crc, 0, 0, 0, 0)
        for at, (length, crc) in enumerate(zip(lengths, crcs, strict=True), 1)
    ]
    return Data(1, 1, 0, envelopes)


def test_records_that_do_not_fit_their_frame_are_refused_each_for_its_reason():
    head, body = encode_record(Message(body=b"abc"), bytes(16), 7)
    record = bytearray(head + bytes(body))
    good = crc32c.crc32c(record)
    whole = memoryview(record)
    (header,) = check_records(data_of(len(record), crcs=(good,)), whole)
    assert (header.number, header.body_bytes) == (7, 3)
    both = memoryview(bytearray(record + record))
    assert len(check_records(data_of(*[len(record)] * 2, crcs=(good, good)), both)) == 2
    longer = memoryview(bytearray(record + b"x"))
    for frame, given, why in (
        (data_of(len(record), crcs=(good + 1,)), whole, "damaged on the way"),
        (data_of(len(record), crcs=(good,)), longer, "envelopes do not fit its body"),
        (data_of(len(record) + 1, crcs=(good,)), whole, "envelopes do not fit its body"),
        (data_of(HEADER_BYTES - 1, crcs=(good,)), whole, "envelopes do not fit its body"),
        (data_of(HEADER_BYTES, crcs=(good,)), whole, "does not fit its place"),
        (data_of(len(record) + 1, crcs=(good,)), longer, "does not fit its place"),
        (data_of(), memoryview(b""), "envelopes do not fit its body"),
    ):
        with pytest.raises(ProtocolError, match=why):
            check_records(frame, given)
