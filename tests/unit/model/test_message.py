"""What a message says of itself in a text."""

from __future__ import annotations

import pytest

from dray.model.classes import MessageClass
from dray.model.message import Message


def test_a_message_shows_what_was_said_and_set_and_nothing_else():
    message = Message(b"one", label="first", message_class=MessageClass.ACK_RECEIVE)
    assert repr(message) == (
        "Message(body=b'one', label='first', message_class=<MessageClass.ACK_RECEIVE: 16384>)"
    )
    assert repr(Message()) == "Message(body=b'')"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_long_body_shows_its_beginning_and_its_size(kind):
    long = Message(kind(b"b" * 4_000_000), extension=b"e" * 65)
    begun = {letter: letter.encode() * 64 for letter in "be"}
    assert repr(long) == (
        f"Message(body={begun['b']}...(4000000 bytes), extension={begun['e']}...(65 bytes))"
    )
    assert repr(Message(kind(b"b" * 64))) == f"Message(body={begun['b']})"


@pytest.mark.parametrize("body", ["text", None, 5])
def test_a_body_that_cannot_be_sent_can_be_shown(body):
    assert repr(Message(body)) == f"Message(body={body!r})"
