"""The messages that a `Receiver` handles, plain ones or large ones: take, set aside, give up.

A large message is set aside as a whole: whoever sets it aside takes it by its id in a transaction
of its own, and the queue manager moves all parts out of that transaction.
"""

from __future__ import annotations

from dray.client.awaited.large import LargeMessageQueue
from dray.client.awaited.large_message import LargeMessage
from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.model.ids import ManagerId, join_id
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.model.message import Message
from dray.wire.frames import Done
from dray.wire.large_frames import LargeList, LargeListed, LargeMove
from dray.wire.message_frames import Reject
from dray.wire.selections import SelectBySequence

AnyMessage = Message | LargeMessage


class PlainMessages:
    """Plain messages."""

    def __init__(self, queue: Queue) -> None:
        """Take them from `queue`."""
        self._queue = queue
        self.name = queue.name
        self.link = queue.handle.link

    async def take(self, wait: float | None, transaction: Transaction) -> Message:
        """Receive the next message; raises `ReceiveTimeout`."""
        return await self._queue.receive(wait, transaction)

    async def set_aside(self, message: AnyMessage, target: str) -> None:
        """Move a message to a sub-queue; raises `MessageNotFound` if another reader has it."""
        assert isinstance(message, Message)
        await self._queue.move(message, target)

    async def bring_back(self, id: str, source: str) -> None:
        """Move a message from a sub-queue to the queue; raises as `set_aside`."""
        waiting = type(self._queue)(self.link, source)
        await waiting.move(await waiting.peek_by_id(id), self.name)

    async def remove(self, message: AnyMessage, *, reject: bool) -> None:
        """Receive a message for good, or reject it; raises as `set_aside`."""
        assert isinstance(message, Message)
        async with await Transaction.begin(self.link) as transaction:
            await self._queue.receive_by_lookup_id(message.lookup_id or 0, transaction=transaction)
            if reject:
                await self._queue.reject(message, transaction)

    async def ids(self, name: str) -> list[str]:
        """Ids of the messages that are in a sub-queue now."""
        waiting = type(self._queue)(self.link, name)
        return [message.id or "" async for message in waiting.messages()]


class LargeMessages:
    """Large messages."""

    def __init__(self, large: LargeMessageQueue) -> None:
        """Take them from the queue of `large`."""
        self._large = large
        self.name = large.handle.name
        self.link = large.handle.link

    async def take(self, wait: float | None, transaction: Transaction) -> LargeMessage:
        """See `PlainMessages`."""
        return await self._large.receive(wait, transaction)

    async def set_aside(self, message: AnyMessage, target: str) -> None:
        """See `PlainMessages`."""
        assert isinstance(message, LargeMessage)
        await self._move(self._large, message.sequence_id, target)

    async def bring_back(self, id: str, source: str) -> None:
        """See `PlainMessages`."""
        await self._move(self._large.beside(source), id, self.name)

    async def remove(self, message: AnyMessage, *, reject: bool) -> None:
        """See `PlainMessages`."""
        assert isinstance(message, LargeMessage)
        async with await Transaction.begin(self.link) as transaction:
            held = await self._large.take(
                SelectBySequence(message.sequence_id), None, transaction, repair=False
            )
            if reject:
                connection, number = await transaction.join()
                queue = (await self._large.handle.opened(connection)).number
                position = held.said.header.lookup_id or 0
                await connection.ask(Reject(queue, position, number), Done)

    async def ids(self, name: str) -> list[str]:
        """See `PlainMessages`."""
        connection = await self.link.connection()
        queue = (await connection.open_queue(name)).number
        found: list[str] = []
        after = 0
        while True:
            head = LargeList(queue, after, BATCH_MESSAGES_MAX, held=True)
            listed = (await connection.ask(head, LargeListed)).entries
            if not listed:
                return found
            found += [join_id(ManagerId(each.source), each.sequence) for each in listed]
            after = listed[-1].first_lookup_id

    async def _move(self, large: LargeMessageQueue, id: str, target: str) -> None:
        """Hold a message by its id, and have it moved out of the transaction that holds it."""
        transaction = await Transaction.begin(self.link)
        try:
            held = await large.take(SelectBySequence(id), None, transaction, repair=False)
            connection, _ = await transaction.join()
            queue = (await large.handle.opened(connection)).number
            to = (await connection.open_queue(target)).number
            status_queue = await large.status_queue_on(connection)
            position = held.said.header.lookup_id or 0
            await connection.ask(LargeMove(queue, position, to, status_queue), Done)
        finally:
            await transaction.abort()


HandledMessages = PlainMessages | LargeMessages
"""One kind of messages of one queue."""


def handled_messages(queue: Queue | LargeMessageQueue) -> HandledMessages:
    """Give the messages of a queue as a receiver handles them."""
    if isinstance(queue, LargeMessageQueue):
        return LargeMessages(queue)
    return PlainMessages(queue)
