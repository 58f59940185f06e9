"""A way carries frames and ranges of files, and asks for no smaller buffer than it would have."""

from __future__ import annotations

import os
import select
import socket

import pytest

from dray.client.transfer import way as way_module
from dray.client.transfer.way import FileRange, Way
from dray.errors import ConnectionLost
from dray.wire.transfer_frames import Post

WITHIN_S = 30
DATA = os.urandom(300_000)


@pytest.fixture
def ends():
    """Both ends of a connection over TCP."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
        listener.accept()[0] as far,
    ):
        yield near, far


@pytest.fixture
def grows_to(tmp_path, monkeypatch):
    """Say to how much the kernel would let a send buffer grow by itself."""

    def say(most):
        (tmp_path / "tcp_wmem").write_text(f"4096\t16384\t{most}\n")
        monkeypatch.setattr(way_module, "_GROWS_TO", tmp_path / "tcp_wmem")
        way_module._may_be_wider.cache_clear()

    yield say
    way_module._may_be_wider.cache_clear()


def frames_of(sender: Way, receiver: Way, count: int):
    found = []
    while len(found) < count:
        sender.flush()
        assert select.select([receiver.sock], [], [], WITHIN_S)[0]
        found += receiver.read()
    return found


def test_a_range_of_a_file_is_the_body_of_its_frame(ends, tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    near, far = map(Way, ends)
    with (tmp_path / "f").open("rb") as file:
        near.put_range(Post("", b"first"), FileRange(file.fileno(), 5, len(DATA) - 5))
        near.put(Post("", b"second"))
        first, second = frames_of(near, far, 2)
    assert (first.head.message, bytes(first.body)) == (b"first", DATA[5:])
    assert (second.head.message, bytes(second.body)) == (b"second", b"")
    assert near.backlog == 0


def test_a_file_that_became_shorter_ends_the_connection(ends, tmp_path):
    (tmp_path / "f").write_bytes(b"short")
    near = Way(ends[0])
    with (tmp_path / "f").open("rb") as file:
        near.put_range(Post("", b"first"), FileRange(file.fileno(), 0, 6))
        with pytest.raises(ConnectionLost, match="shorter"):
            near.flush()


def size_of_buffer(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_a_larger_buffer_is_asked_for_where_the_kernel_gives_one(ends, grows_to):
    grows_to(16_384)
    before = size_of_buffer(ends[1])
    assert size_of_buffer(Way(ends[0]).sock) != before


def test_a_buffer_that_would_grow_further_by_itself_is_left_alone(ends, grows_to):
    grows_to(1 << 40)
    before = size_of_buffer(ends[1])
    assert size_of_buffer(Way(ends[0]).sock) == before


def test_where_it_cannot_be_known_the_buffer_is_left_alone(ends, grows_to, tmp_path):
    grows_to("nothing that is a number")
    before = size_of_buffer(ends[1])
    assert size_of_buffer(Way(ends[0]).sock) == before
