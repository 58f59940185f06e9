"""Takes large messages out of a queue, one or several by one request, and tells of holes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dray.client.awaited.fragments import Origin
from dray.client.awaited.joining import connection_in
from dray.client.awaited.large_message import LargeMessage, open_found, open_taken
from dray.client.awaited.transaction import Transaction
from dray.client.awaited.unreadable import Unreadable
from dray.client.calls.requests import wait_for
from dray.client.connections.connection import Connection
from dray.client.connections.link import QueueHandle
from dray.client.files.steps import reached
from dray.errors import (
    LargeMessageCorrupt,
    LargeMessageHole,
    MessageNotFound,
    NotTransactional,
    StatusQueueMissing,
)
from dray.model.ids import ManagerId, join_id
from dray.wire.frames import Done
from dray.wire.head import Head
from dray.wire.large_frames import LargeAt, LargeFound, LargeReceive, LargeTaken
from dray.wire.selections import SelectBySequence
from dray.wire.stream import Frame


class TakenTogether(NamedTuple):
    """Large messages that were taken by one request, each with a transaction of its own."""

    messages: list[LargeMessage]
    transactions: list[Transaction]
    taken: int
    """The number taken; those that cannot be read are in their queue again."""


class LargeTakes:
    """Takes large messages from one queue."""

    def __init__(self, handle: QueueHandle, status_queue: str) -> None:
        """`status_queue` names the queue that says what is to become of each message."""
        self.handle = handle
        self._status_queue = status_queue

    async def take(
        self, asked: LargeReceive, transactions: Sequence[Transaction]
    ) -> list[LargeMessage | None]:
        """Take messages into transactions; None for one that has to be taken alone."""
        timeout = asked.timeout
        until = None if timeout is None else time.monotonic() + timeout
        used = transactions[0]
        while True:
            await self.checked(connection_in(used, self.handle))
            status_queue = await self.status_queue_on(connection_in(used, self.handle))
            connection, number = await used.join()
            head = msgspec.structs.replace(
                asked, transaction=number, timeout=timeout, status_queue=status_queue
            )
            try:
                if head.count > 1:
                    return await self._find_some(connection, head)
                return [await self.find(connection, head)]
            except LargeMessageHole as hole:
                reached("hole-told")
                if await self._reject(hole):
                    reached("hole-rejected")
                    raise
            except Unreadable as unreadable:
                fate = await unreadable.set_aside(status_queue)
                raise unreadable.told(fate) from unreadable
            except StatusQueueMissing as error:
                if error.queue:
                    raise
                # It was deleted since it was resolved; there may be one of that name again.
                connection.forget_queues()
            timeout = None if until is None else max(0.0, until - time.monotonic())

    async def find(self, connection: Connection, head: LargeReceive) -> LargeMessage:
        """Ask for a large message; `head` without the number of the queue."""
        used, frame = await self._asked(connection, head, LargeFound)
        found = frame.head
        assert isinstance(found, LargeFound)
        origin = await self._origin(used, found)
        if found.missing:
            raise LargeMessageHole(
                f"large message {origin.sequence_id} in {self.handle.name!r} lacks parts:"
                f" {found.missing}",
                sequence_id=origin.sequence_id,
                missing=found.missing,
            )
        return open_found(origin, found, frame.body)

    async def _find_some(
        self, connection: Connection, head: LargeReceive
    ) -> list[LargeMessage | None]:
        """Ask for several; None for each that cannot be read, if there are several."""
        used, frame = await self._asked(connection, head, LargeTaken)
        taken = frame.head
        assert isinstance(taken, LargeTaken)
        # The memory of the frame serves the next one; these messages are read later.
        rest = memoryview(bytes(frame.body))
        used.give_back(frame.body)
        messages: list[LargeMessage | None] = []
        for found in taken.found:
            origin = await self._origin(used, found)
            lengths = [found.header.length, found.trailer.length]
            if taken.whole:
                lengths += [each.length for each in found.parts]
            body, rest = rest[: sum(lengths)], rest[sum(lengths) :]
            try:
                messages.append(open_taken(origin, found, body, whole=taken.whole))
            except (LargeMessageCorrupt, Unreadable):
                if len(taken.found) == 1:
                    raise
                messages.append(None)
        return messages

    async def _asked(
        self, connection: Connection, head: LargeReceive, answer: type[Head]
    ) -> tuple[Connection, Frame]:
        await self.checked(connection)
        return await self.handle.call(
            lambda queue: msgspec.structs.replace(head, queue=queue),
            answer,
            wait_s=wait_for(head.timeout),
            connection=connection,
        )

    async def _origin(self, used: Connection, found: LargeFound | LargeAt) -> Origin:
        sequence_id = join_id(ManagerId(found.source), found.sequence)
        queue = await self.checked(used)
        return Origin(self.handle.link.runtime, used, queue, self.handle.name, sequence_id)

    async def checked(self, connection: Connection) -> int:
        """Give the queue's number; raises `NotTransactional`."""
        opened = await self.handle.opened(connection)
        if not opened.transactional:
            raise NotTransactional(
                f"queue {self.handle.name!r} is not transactional; large messages need a"
                " transactional queue",
                queue=self.handle.name,
            )
        return opened.number

    async def status_queue_on(self, connection: Connection) -> int:
        """Give the number of the status queue (S0-4); raises `StatusQueueMissing`."""
        name = self._status_queue
        opened = await connection.open_queue(name, for_status=True)
        if not opened.transactional:
            raise StatusQueueMissing(
                f"the status queue {name!r} is not transactional; delete it and create a"
                " transactional one",
                queue=name,
            )
        return opened.number

    async def _reject(self, hole: LargeMessageHole) -> bool:
        """Reject the parts of a message with a hole, so that it is not reported again (S0-16).

        Returns whether they were there to reject: another receiver may have been told of it too.
        """
        async with await Transaction.begin(self.handle.link) as own:
            connection, number = await own.join()
            status_queue = await self.status_queue_on(connection)
            try:
                await self.handle.call(
                    lambda queue: LargeReceive(
                        queue,
                        number,
                        0.0,
                        SelectBySequence(hole.sequence_id),
                        status_queue=status_queue,
                        reject=True,
                    ),
                    Done,
                    connection=connection,
                )
            except MessageNotFound:
                return False
        return True
