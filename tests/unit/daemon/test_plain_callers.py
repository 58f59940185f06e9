"""Callers without TLS at a listener with it: told in a frame, and never waited for without end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dray.daemon.sockets.plain_callers import SENTENCE, begins_plainly, turn_away
from dray.errors import ConnectionLost
from dray.wire.frames import Failed, Hello, encode_frame
from dray.wire.stream import FrameStream

HELLO = encode_frame(Hello("client", "", "", ""), 1)
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01"


@pytest.fixture
def ends():
    theirs, ours = socket.socketpair()
    with theirs, ours:
        yield theirs, ours


@pytest.mark.parametrize(("said", "plainly"), [(HELLO, True), (CLIENT_HELLO, False), (b"", False)])
def test_the_first_byte_tells_a_frame_from_tls_and_stays_unread(ends, said, plainly):
    theirs, ours = ends
    theirs.sendall(said)
    theirs.shutdown(socket.SHUT_WR)
    assert asyncio.run(begins_plainly(ours)) is plainly
    assert ours.recv(1 << 16) == said


def test_a_caller_that_says_nothing_is_given_up(ends, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.plain_callers.HANDSHAKE_S", 0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(begins_plainly(ends[1]))
    assert ends[1].fileno() == -1


def told(sock):
    stream = FrameStream()
    while count := sock.recv_into(stream.buffer()):
        for frame in stream.received(count):
            yield frame.head


def test_a_caller_without_tls_reads_what_to_write(ends):
    theirs, ours = ends
    theirs.sendall(HELLO)
    theirs.shutdown(socket.SHUT_WR)
    ours.setblocking(False)
    asyncio.run(turn_away(ours, "10.0.0.1:4"))
    (head,) = told(theirs)
    assert isinstance(head, Failed)
    assert (head.error, head.sentence) == (ConnectionLost.code, SENTENCE)
    assert ours.fileno() == -1


def test_a_caller_that_does_not_hang_up_is_not_waited_for(ends, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.plain_callers.LINGER_S", 0.01)
    ends[1].setblocking(False)
    asyncio.run(turn_away(ends[1], "10.0.0.1:4"))
    assert ends[1].fileno() == -1
