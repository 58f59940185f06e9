"""A client that says and hears single frames on a blocking socket, without `dray.client`."""

from __future__ import annotations

import socket
from typing import Self, TypeVar

from dray.wire.frames import encode_frame
from dray.wire.head import Head
from dray.wire.stream import Frame, FrameStream

PATIENCE_S = 100.0
SomeHead = TypeVar("SomeHead", bound=Head)


class RawClient:
    """One connection, without a Hello of its own."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        self.socket = sock
        self._stream = FrameStream()
        self._frames: list[Frame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, head: Head, request_id: int = 1, body: bytes = b"") -> None:
        self.socket.sendall(encode_frame(head, request_id, len(body)) + body)

    def say_together(self, *heads: Head) -> None:
        """Say several things that need no answer in one piece, so that a hang-up cuts none off."""
        self.socket.sendall(b"".join(encode_frame(head, 0, 0) for head in heads))

    def lend(
        self, head: Head, *files: int, request_id: int = 1, body: bytes = b"", cut: int = 0
    ) -> None:
        """Say something with descriptors; with `cut` leave out so many bytes at its end."""
        data = encode_frame(head, request_id, len(body)) + body
        socket.send_fds(self.socket, [data[: len(data) - cut]], list(files))

    def hear(self) -> Frame:
        """The next frame, its body copied; EOFError if the other end hung up."""
        while not self._frames:
            count = self.socket.recv_into(self._stream.buffer())
            if not count:
                raise EOFError
            self._frames += [
                frame._replace(body=memoryview(bytes(frame.body)))
                for frame in self._stream.received(count)
            ]
        return self._frames.pop(0)

    def hear_head(self, kind: type[SomeHead]) -> SomeHead:
        head = self.hear().head
        assert isinstance(head, kind), f"{kind.__name__} was expected, not {head}"
        return head

    def ask(self, head: Head, request_id: int = 1, body: bytes = b"") -> Frame:
        self.say(head, request_id, body)
        return self.hear()

    def is_hung_up(self) -> bool:
        """Wait for the end; anything that comes before it is lost."""
        try:
            while True:
                self.hear()
        except (EOFError, ConnectionResetError):
            return True


def connected(address: str) -> RawClient:
    """Connect to a `dray://` or `dray+unix://` address."""
    scheme, _, rest = address.partition("://")
    if scheme == "dray+unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE_S)
        sock.connect(rest)
        return RawClient(sock)
    host, _, port = rest.rpartition(":")
    return RawClient(socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S))
