"""A program that says something wrong on the wire is answered; its connection goes on."""

from __future__ import annotations

import socket
import types
import typing
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import crc32c
import msgspec
import pytest

from dray.manager.rights import RIGHTS_OF_CLIENTS
from dray.model.queue import QueueOptions
from dray.wire import frames, message_frames, queue_frames
from dray.wire.head import Head
from dray.wire.stream import FrameStream

SAID = sorted(
    (kind for kind in RIGHTS_OF_CLIENTS if not kind.with_file),
    key=lambda kind: kind.code,
)
WRONG = [None, True, "text", b"bytes", 1.5, -1, (1 << 64) - 1, [], [None], {}, {"a": 1}]


class Caller:
    """A client that says what it wants, in whole frames."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._sock = socket.create_connection((parts.hostname, parts.port), 10)
        self._stream = FrameStream()
        self._requests = 0
        self.welcome = self.ask(frames.Hello("client"))
        # Not one that a field of some frame would name by accident.
        self.transaction = self.welcome.first_number + 1_000

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def say(self, code: int, values: object) -> int:
        """Say anything under the code of a frame; give the number of the request."""
        self._requests += 1
        head = msgspec.msgpack.encode(values)
        checked = frames.FRAME_HEADER.pack(b"DRAY", 1, code, 0, self._requests, len(head), 0, 0)
        crc = crc32c.crc32c(head, crc32c.crc32c(checked[:20]))
        self._sock.sendall(checked[:20] + crc.to_bytes(4, "little") + head)
        return self._requests

    def ask(self, head: Head) -> Head:
        """Ask what is answered; the answer."""
        return self.answer_to(self.say(head.code, head))

    def answer_to(self, request: int) -> Head:
        """Wait for one answer; others are passed over."""
        return next(head for number, head in self.answers() if number == request)

    def answers(self) -> Iterator[tuple[int, Head]]:
        while True:
            count = self._sock.recv_into(self._stream.buffer())
            assert count, "the connection was closed"
            for frame in self._stream.received(count):
                yield frame.request_id, frame.head


@pytest.fixture
def caller(addresses) -> Iterator[Caller]:
    with Caller(addresses["tcp"]) as caller:
        yield caller


def fitting(kind: object) -> object:
    """A value of the type of a field."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return fitting(inner[0])
    if origin is typing.Annotated:
        return fitting(inner[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return [fitting(hints[name]) for name in kind.__struct_fields__]
    plain = {int: 1, str: "no such thing", float: 0.0, bool: False, bytes: b""}
    return plain.get(kind, [] if origin is list else None)


@pytest.mark.parametrize("kind", SAID, ids=lambda kind: kind.__name__)
def test_a_field_of_a_wrong_type_is_answered_and_the_connection_goes_on(caller, kind):
    opened = caller.ask(queue_frames.CreateQueue(f"q-{uuid.uuid4().hex}", QueueOptions()))
    queue = caller.ask(queue_frames.OpenQueue(opened.info.name)).number
    caller.ask(message_frames.Reserve(queue, caller.transaction, 100))
    hints = typing.get_type_hints(kind)
    fields = [fitting(hints[name]) for name in kind.__struct_fields__]
    places = range(len(fields))
    shapes = [[*fields[:at], wrong, *fields[at + 1 :]] for at in places for wrong in WRONG]
    refused = []
    for values in [*shapes, {}, None, "text", [[]]]:
        said = caller.say(kind.code, values)
        after = caller.say(queue_frames.Describe.code, [])
        for number, head in caller.answers():
            if number == said and isinstance(head, frames.Failed):
                refused.append(head.error)
            if number == after:
                assert isinstance(head, queue_frames.ManagerState)
                break
    assert "protocol-error" not in refused
    assert "invalid-argument" in refused
    assert isinstance(caller.ask(message_frames.Commit(caller.transaction, 0)), frames.Done)


def test_the_answer_names_the_field(caller):
    failed = caller.answer_to(caller.say(queue_frames.OpenQueue.code, [5]))
    assert failed.error == "invalid-argument"
    assert failed.fields == {"argument": "name"}
    assert failed.sentence == "name of OpenQueue has a value of a wrong type, or out of bounds"


def test_a_frame_that_wants_no_answer_and_cannot_be_read_ends_its_connection(caller):
    caller._requests = -1
    caller.say(queue_frames.OpenQueue.code, [5])
    with pytest.raises(AssertionError, match="closed"):
        caller.answer_to(7)
