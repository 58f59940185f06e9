"""The blocking face of `awaited.queue`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from dray.client.awaited.cursor import Cursor as AwaitedCursor
from dray.client.awaited.queue import Queue as AwaitedQueue
from dray.client.blocking.face import Face, blocking
from dray.client.calls.public_calls import public
from dray.client.connections.link import QueueHandle
from dray.client.connections.threads import iterate
from dray.model.message import Message
from dray.model.queued import QueuedMessage, QueuedPart


@public(made_by="Queue.cursor")
class Cursor(Face[AwaitedCursor]):
    """A position in a queue: before the first message, at one, after a received one, or closed."""

    peek = blocking(AwaitedCursor.peek)
    next = blocking(AwaitedCursor.next)
    receive = blocking(AwaitedCursor.receive)
    close = blocking(AwaitedCursor.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingQueueHandle(Face[QueueHandle]):
    """Sends the requests to one queue that have no method of `Queue`."""

    opened = blocking(QueueHandle.opened)
    call = blocking(QueueHandle.call)


@public(made_by="Manager.queue")
class Queue(Face[AwaitedQueue]):
    """A handle of a queue of this manager, or of another manager to which this one delivers."""

    @property
    def name(self) -> str:
        """Canonical name of the queue."""
        return self.awaited.name

    @property
    def handle(self) -> BlockingQueueHandle:
        """For requests that have no method of their own."""
        return BlockingQueueHandle(self.awaited.handle)

    send = blocking(AwaitedQueue.send)
    send_many = blocking(AwaitedQueue.send_many)
    receive = blocking(AwaitedQueue.receive)
    receive_many = blocking(AwaitedQueue.receive_many)
    peek = blocking(AwaitedQueue.peek)
    receive_by_id = blocking(AwaitedQueue.receive_by_id)
    receive_by_correlation_id = blocking(AwaitedQueue.receive_by_correlation_id)
    receive_by_lookup_id = blocking(AwaitedQueue.receive_by_lookup_id)
    peek_by_id = blocking(AwaitedQueue.peek_by_id)
    peek_by_correlation_id = blocking(AwaitedQueue.peek_by_correlation_id)
    peek_by_lookup_id = blocking(AwaitedQueue.peek_by_lookup_id)
    peek_range = blocking(AwaitedQueue.peek_range)
    settle = blocking(AwaitedQueue.settle)
    receive_transaction = blocking(AwaitedQueue.receive_transaction)
    move = blocking(AwaitedQueue.move)
    reject = blocking(AwaitedQueue.reject)
    purge = blocking(AwaitedQueue.purge)
    info = blocking(AwaitedQueue.info)

    def messages(self) -> Iterator[Message]:
        """Iterate over the messages now in the queue, in receiving order; removes nothing."""
        return iterate(self.awaited.messages())

    def contents(self, after: int = 0) -> Iterator[QueuedMessage]:
        """Iterate over what is in the queue behind a position, without bodies; removes nothing.

        A large message is one, which says whether it is whole, in flight or has a hole. The order
        is that of positions. Messages that a transaction holds are among them.
        """
        return iterate(self.awaited.contents(after))

    def parts(self, lookup_id: int) -> Iterator[QueuedPart]:
        """Iterate over the parts of the large message that begins at a position; removes nothing.

        There are none if another message, or none, is at that position.
        """
        return iterate(self.awaited.parts(lookup_id))

    def cursor(self) -> Cursor:
        """Return a cursor, which goes through the queue message by message."""
        return Cursor(self.awaited.cursor())
