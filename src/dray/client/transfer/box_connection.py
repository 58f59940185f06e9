"""The connection to the queue manager over which the box of one end of a transfer is attached."""

from __future__ import annotations

from typing import Final

from dray.client.connections.session import ClientSession, Pending
from dray.client.transfer.frame_socket import FrameSocket
from dray.errors import DrayError, ProtocolError
from dray.model.callers import Credential
from dray.model.limits import KIB
from dray.wire.stream import Frame
from dray.wire.transfer_frames import AttachBox, Credit, Post, size_of_post

_CREDIT_BYTES: Final = 512 * KIB
"""So much is taken before the queue manager is told of it; a fraction of what it lets wait."""


class BoxConnection:
    """Says Hello, attaches the box, then carries posts. A `ClientSession` keeps its requests."""

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
        connection.put_encoded(hello)
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
            self.connection.put_encoded(attach)
        else:
            self.ready = True

    def _count(self, size: int) -> None:
        self._taken += size
        if self._taken >= _CREDIT_BYTES:
            self.connection.put(Credit(self._taken))
            self._taken = 0
