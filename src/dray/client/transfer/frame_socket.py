"""A socket that carries frames both ways, used by one thread and never waited for."""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Final

from dray.client.connections.session import ClientSession, Pending
from dray.errors import ConnectionLost, DrayError, ProtocolError
from dray.forks import keep_from_children
from dray.model.callers import Credential
from dray.model.limits import KIB
from dray.net.send_buffer import widen
from dray.wire.frames import encode_frame
from dray.wire.stream import Frame, FrameStream
from dray.wire.transfer_frames import (
    AnyMessage,
    AttachBox,
    Credit,
    Post,
    encode_message,
    size_of_post,
)

_READS_PER_CALL: Final = 16
BUFFER_BYTES: Final = 8 << 20
"""Send buffer of a connection between two programs."""
_CREDIT_BYTES: Final = 512 * KIB
"""So much is taken before the queue manager is told of it; a fraction of what it lets wait."""


class FileRange:
    """A range of a file that is still to be sent."""

    __slots__ = ("descriptor", "left", "offset")

    def __init__(self, descriptor: int, offset: int, left: int) -> None:
        """`left` bytes from `offset` on."""
        self.descriptor, self.offset, self.left = descriptor, offset, left


class FrameSocket:
    """A connected socket. Its failures are raised as `ConnectionLost` or `ProtocolError`."""

    def __init__(self, sock: socket.socket) -> None:
        """Own a connected socket, and ask the kernel for a large buffer to send from."""
        self.sock = sock
        keep_from_children(sock)
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            widen(sock, BUFFER_BYTES)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._stream = FrameStream()
        self._pieces: deque[memoryview | FileRange] = deque()
        self.backlog = 0
        """Bytes that wait to be sent."""
        self.stirred = 0
        """Bytes that came since somebody looked."""
        self.hung_up = False
        """Whether nothing can be sent any more; what came before may still be read."""

    def put(self, frame: bytes) -> None:
        """Send a frame after all else."""
        self._pieces.append(memoryview(frame))
        self.backlog += len(frame)

    def post(
        self, message: AnyMessage, piece: FileRange | None = None, *, box: str = "", queue: str = ""
    ) -> None:
        """Send a message of a transfer after all else.

        A range of a file goes with it as its body, moved by the kernel. A queue manager passes it
        on to `box`, at the queue manager of `queue`.
        """
        head = Post(box, encode_message(message), queue)
        self.put(encode_frame(head, 0, 0 if piece is None else piece.left))
        if piece is not None:
            self._pieces.append(piece)
            self.backlog += piece.left

    def flush(self) -> None:
        """Send what the socket takes.

        A closed peer may have sent last words before: they are read first, and `read` then tells.
        """
        try:
            while self._pieces:
                head = self._pieces[0]
                if isinstance(head, FileRange):
                    self._send_range(head)
                else:
                    more = socket.MSG_MORE if len(self._pieces) > 1 else 0
                    self._advance(self.sock.send(head, more))
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            self.hung_up = True
            self._pieces.clear()
            self.backlog = 0
        except OSError as error:
            raise _lost(error) from error

    def read(self) -> list[Frame]:
        """Frames that have arrived, without waiting."""
        found: list[Frame] = []
        try:
            for _ in range(_READS_PER_CALL):
                count = self.sock.recv_into(self._stream.buffer())
                if not count:
                    raise ConnectionLost("the other end closed the connection")
                self.stirred += count
                found += self._stream.received(count)
                if found:
                    break
        except BlockingIOError:
            return found
        except OSError as error:
            raise _lost(error) from error
        return found

    def give_back(self, body: memoryview) -> None:
        """Use a body's memory again."""
        self._stream.give_back(body)

    def close(self) -> None:
        """Let go of the socket."""
        self._pieces.clear()
        self.backlog = 0
        self.sock.close()

    def _send_range(self, piece: FileRange) -> None:
        sent = os.sendfile(self.sock.fileno(), piece.descriptor, piece.offset, piece.left)
        if not sent:
            raise ConnectionLost("the offered file was truncated while Dray sent a fragment")
        piece.offset += sent
        piece.left -= sent
        self.backlog -= sent
        if not piece.left:
            self._pieces.popleft()

    def _advance(self, sent: int) -> None:
        head = self._pieces[0]
        assert isinstance(head, memoryview)
        self.backlog -= sent
        if sent == len(head):
            self._pieces.popleft()
        else:
            self._pieces[0] = head[sent:]


SOCKET_ERRORS: Final = (ConnectionLost, ProtocolError)


def _lost(error: OSError) -> DrayError:
    return ConnectionLost(f"the connection is lost: {error.strerror or error}")


class BoxConnection:
    """Attaches the box of one end of a transfer to the queue manager, then carries posts.

    A `ClientSession` keeps its requests.
    """

    def __init__(
        self, connection: FrameSocket, box: str, queue: str, credential: Credential
    ) -> None:
        """Begin with Hello on a connection that was just made, and say who this is."""
        self.connection = connection
        self.ready = False
        """Whether the box is attached: others can reach it."""
        self._attach = AttachBox(box, queue)
        self._session = ClientSession()
        self._greeting, hello = self._session.hello(*credential)
        connection.put(hello)
        self._taken = 0

    def take(self, frame: Frame) -> Post | None:
        """Take a frame; give it if it is a post of the other program.

        Raises `ProtocolError` for what may go well on another connection, else what the queue
        manager has against this one.
        """
        if isinstance(frame.head, Post):
            self._count(size_of_post(frame.head, frame.body))
            return frame.head
        settled = self._session.take(frame)
        try:
            self._go_on(settled)
        except DrayError as error:
            if error.retryable:
                raise ProtocolError(str(error)) from error
            raise
        return None

    def _go_on(self, settled: Pending | None) -> None:
        if settled is None:
            reason = self._session.reason
            assert reason is not None
            raise reason
        answer = settled.outcome()
        if settled is self._greeting:
            self._session.welcomed(answer.head)
            _, attach = self._session.request(self._attach)
            self.connection.put(attach)
        else:
            self.ready = True

    def _count(self, size: int) -> None:
        self._taken += size
        if self._taken >= _CREDIT_BYTES:
            self.connection.put(encode_frame(Credit(self._taken), 0, 0))
            self._taken = 0
