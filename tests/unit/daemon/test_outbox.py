"""What is sent comes out in order and whole, whichever way it goes."""

from __future__ import annotations

import os
import socket
from itertools import count
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.daemon.limits import (
    KERNEL_SEND_BYTES_MIN,
    SHARE_BYTES_MIN,
    SHARE_QUICK_TURNS,
    SHARE_S,
)
from dray.daemon.sockets.outbox import SocketOutbox, keep_unsent_below, merged, pin_all, unpin_all
from dray.errors import StoreCorrupt
from dray.store.heap.heap import Extent

SCRATCH = memoryview(bytearray(100_000))
FILE = os.urandom(1 << 20)


class OneFile:
    """A heap of one real file, which counts its pins."""

    def __init__(self, path) -> None:
        path.write_bytes(FILE)
        self.handle = os.open(path, os.O_RDONLY)
        self.pins = 0

    def descriptor(self, _file: int) -> int:
        return self.handle

    def pin(self, _file: int) -> None:
        self.pins += 1

    def unpin(self, _file: int) -> None:
        self.pins -= 1


@pytest.fixture(scope="module")
def heap(tmp_path_factory):
    heap = OneFile(tmp_path_factory.mktemp("heap") / "p1")
    yield heap
    os.close(heap.handle)


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def take(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 22)
    except BlockingIOError:
        return b""


def pump(outbox: SocketOutbox, sock: socket.socket) -> bytes:
    got = bytearray()
    while outbox:
        outbox.flush()
        while piece := take(sock):
            got += piece
    return bytes(got)


extents = st.builds(
    lambda start, length, in_kernel: (Extent(1, start, min(length, len(FILE) - start)), in_kernel),
    st.integers(0, len(FILE) - 1),
    st.one_of(st.integers(1, 300), st.integers(1, 1 << 20)),
    st.booleans(),
)


@given(st.lists(st.one_of(st.binary(max_size=2000), extents), max_size=30))
def test_pieces_of_any_kind_arrive_in_order_and_unpin_their_files(heap, pieces):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        outbox, expected = SocketOutbox(ours, heap, SCRATCH, monotonic), b""
        for piece in pieces:
            if isinstance(piece, bytes):
                outbox.put(piece)
                expected += piece
            else:
                extent, in_kernel = piece
                heap.pin(extent.file)
                outbox.put_extent(extent, in_kernel=in_kernel)
                expected += FILE[extent.offset : extent.offset + extent.length]
        assert pump(outbox, theirs) == expected
        assert heap.pins == 0
        assert outbox.bytes_in_memory == 0


def test_bytes_that_are_none_are_not_waited_for(heap, pair):
    outbox = SocketOutbox(pair[0], heap, SCRATCH, monotonic)
    outbox.put(b"")
    assert not outbox
    outbox.put(b"behind it")
    assert pump(outbox, pair[1]) == b"behind it"


def test_only_small_bytes_count_as_memory(heap, pair):
    outbox = SocketOutbox(pair[0], heap, SCRATCH, monotonic)
    heap.pin(1)
    outbox.put(b"x" * 100)
    outbox.put_extent(Extent(1, 0, 1 << 20), in_kernel=True)
    assert (outbox.bytes_in_memory, len(outbox)) == (100, 2)
    outbox.drop()
    assert (outbox.bytes_in_memory, len(outbox), heap.pins) == (0, 0, 0)


def test_a_pass_sends_no_more_than_its_share(heap, pair):
    outbox = SocketOutbox(pair[0], heap, SCRATCH, monotonic)
    for _ in range(100):
        heap.pin(1)
        outbox.put_extent(Extent(1, 0, KERNEL_SEND_BYTES_MIN), in_kernel=True)
    outbox.flush(most=2 * KERNEL_SEND_BYTES_MIN)
    assert len(outbox) == 98
    outbox.drop()


@pytest.mark.parametrize("in_kernel", [True, False])
def test_a_heap_file_that_ends_too_early_is_reported(heap, pair, in_kernel):
    outbox = SocketOutbox(pair[0], heap, SCRATCH, monotonic)
    heap.pin(1)
    outbox.put_extent(Extent(1, len(FILE), 20_000), in_kernel=in_kernel)
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        outbox.flush()
    outbox.drop()


def test_extents_side_by_side_become_one():
    body = (b"a", Extent(1, 0, 10), Extent(1, 10, 5), Extent(1, 16, 1), Extent(2, 17, 1), b"b")
    assert merged(body) == (b"a", Extent(1, 0, 15), Extent(1, 16, 1), Extent(2, 17, 1), b"b")


def test_pins_are_taken_and_given_back_for_each_extent(heap):
    body = (b"a", Extent(1, 0, 10), Extent(1, 20, 5))
    pin_all(heap, body)
    assert heap.pins == 2
    unpin_all(heap, body)
    assert heap.pins == 0


UNSENT_MAX = (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)


@pytest.fixture
def line():
    """A connection by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize(
    ("turn_s", "share"), [(SHARE_S / 4, 2 * SHARE_BYTES_MIN), (SHARE_S, SHARE_BYTES_MIN)]
)
def test_what_the_socket_takes_unsent_follows_how_long_turns_took(heap, line, turn_s, share):
    clock = count(step=turn_s)
    outbox = SocketOutbox(line[0], heap, SCRATCH, lambda: next(clock))
    keep_unsent_below(line[0], SHARE_BYTES_MIN)
    heap.pin(1)
    size = (SHARE_QUICK_TURNS + 2) * SHARE_BYTES_MIN
    outbox.put_in_lane(1, b"head", (Extent(1, 0, size),))
    pump(outbox, line[1])
    assert line[0].getsockopt(*UNSENT_MAX) == share
    assert heap.pins == 0


def test_the_time_between_two_frames_says_nothing_about_the_line(heap, line):
    """Quick turns all of them, with a second of silence after each."""
    now = [0.0]
    outbox = SocketOutbox(line[0], heap, SCRATCH, lambda: now[0])
    keep_unsent_below(line[0], SHARE_BYTES_MIN)
    for _ in range(3 * SHARE_QUICK_TURNS):
        heap.pin(1)
        outbox.put_in_lane(1, b"head", (Extent(1, 0, 3 * SHARE_BYTES_MIN),))
        pump(outbox, line[1])
        now[0] += 1.0
    assert line[0].getsockopt(*UNSENT_MAX) > SHARE_BYTES_MIN
