"""A way carries frames and ranges of files, and asks for no smaller buffer than it would have."""

from __future__ import annotations

import os
import select
import socket

import pytest

from dray.client.transfer.frame_socket import FileRange, FrameSocket
from dray.errors import ConnectionLost
from dray.net import send_buffer
from dray.wire.transfer_frames import Acked, Farewell, decode_message

WITHIN_S = 100
DATA = os.urandom(300_000)
FIRST, SECOND = Acked("a", 1, 5), Farewell("a")


@pytest.fixture
def ends():
    """Both ends of a connection over TCP."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
        listener.accept()[0] as far,
    ):
        yield near, far


def frames_of(sender: FrameSocket, receiver: FrameSocket, count: int):
    found = []
    while len(found) < count:
        sender.flush()
        assert select.select([receiver.sock], [], [], WITHIN_S)[0]
        found += receiver.read()
    return found


def test_a_range_of_a_file_is_the_body_of_its_frame(ends, tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    near, far = map(FrameSocket, ends)
    with (tmp_path / "f").open("rb") as file:
        near.post(FIRST, FileRange(file.fileno(), 5, len(DATA) - 5))
        near.post(SECOND)
        first, second = frames_of(near, far, 2)
    assert (decode_message(first.head.message), bytes(first.body)) == (FIRST, DATA[5:])
    assert (decode_message(second.head.message), bytes(second.body)) == (SECOND, b"")
    assert near.backlog == 0


def test_a_file_that_became_shorter_ends_the_connection(ends, tmp_path):
    (tmp_path / "f").write_bytes(b"short")
    near = FrameSocket(ends[0])
    with (tmp_path / "f").open("rb") as file:
        near.post(FIRST, FileRange(file.fileno(), 0, 6))
        with pytest.raises(ConnectionLost, match="truncated"):
            near.flush()


def size_of_buffer(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_a_larger_buffer_is_asked_for(ends, monkeypatch):
    monkeypatch.setattr(send_buffer, "_way_to", lambda _: socket.SO_SNDBUF)
    before = size_of_buffer(ends[1])
    assert size_of_buffer(FrameSocket(ends[0]).sock) != before


def test_last_words_are_read_though_nothing_can_be_sent_any_more(ends):
    """Who sends to one who has hung up learns that first, and would not look any more."""
    near, far = FrameSocket(ends[0]), FrameSocket(ends[1])
    far.post(FIRST, box="last words")
    far.flush()
    far.close()
    while not near.hung_up:
        near.post(SECOND)
        near.flush()
    assert near.backlog == 0
    assert [frame.head.box for frame in near.read()] == ["last words"]
    with pytest.raises(ConnectionLost):
        near.read()
