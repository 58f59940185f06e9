"""A handle of a queue. The name is resolved at first use, again on every connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial
from typing import Unpack, cast

from dray.client.awaited.contents import contents_of, parts_of
from dray.client.awaited.cursor import Cursor
from dray.client.awaited.joining import InTransaction, connection_in, part_in
from dray.client.awaited.reading import MessageReader
from dray.client.awaited.transaction import Transaction
from dray.client.calls.messages import (
    ReceivedTransaction,
    Record,
    SendBatch,
    SendProperties,
    addressed,
    in_frames,
    message_from,
    messages_in,
    record_of,
    spells_out_properties,
)
from dray.client.calls.public_calls import public
from dray.client.calls.requests import wait_for
from dray.client.calls.tracing import traces_receive, traces_send, traces_send_many
from dray.client.connections.claims import Doubt
from dray.client.connections.connection import Connection
from dray.client.connections.link import Link, QueueHandle
from dray.client.connections.lost_answers import send_in_doubt, sent_in_part
from dray.errors import (
    DrayError,
    InDoubt,
    MessageNotFound,
    TransactionUsage,
)
from dray.model.ids import EXPRESS_OUTCOME, LookupId, ManagerId, MessageId, join_id, message_ids
from dray.model.limits import MIB, PRIORITY_MAX
from dray.model.message import Buffer, Message
from dray.model.names import parse_queue_address
from dray.model.queue import QueueInfo
from dray.model.queued import QueuedMessage, QueuedPart
from dray.wire import message_frames
from dray.wire.frames import Done
from dray.wire.head import Head
from dray.wire.large_frames import Range, ReadPart
from dray.wire.queue_frames import DescribeQueue, PurgeQueue, QueueState
from dray.wire.record import FLAG_RECOVERABLE, read_header
from dray.wire.selections import SelectByCorrelation, SelectById, SelectNext, SelectRange

_PAGE_MESSAGES = 1_000
_PAGE_BYTES = MIB


@public(made_by="Manager.queue")
class Queue:
    """A handle of a queue of this manager, or of another manager to which this one delivers."""

    def __init__(self, link: Link, name: str, *, guarded: bool = True) -> None:
        """Use a canonical name; a handle that is not `guarded` is raw and sees single fragments."""
        self.handle = QueueHandle(link, name)
        self._guarded = guarded
        self._reader = MessageReader(self.handle, guarded=guarded)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def awaited(self) -> Queue:
        """The queue itself."""
        return self

    @property
    def name(self) -> str:
        """Canonical name of the queue."""
        return self.handle.name

    @spells_out_properties
    @traces_send
    async def send(
        self,
        body: Buffer | Message,
        *,
        transaction: InTransaction | None = None,
        **properties: Unpack[SendProperties],
    ) -> MessageId:
        """Send bytes or a `Message`; return its id. Without a transaction it is durable on return.

        A lost answer raises `InDoubt`; `Manager.outcome` settles it. In a transaction the message
        appears with the commit, and the next operation or the commit raises a refusal by the queue
        manager. Raises `MessageTooLarge` over 4 MiB.
        """
        message = addressed(message_from(body, properties), self.handle.name)
        if transaction is None:
            connection = await self.handle.link.connection()
            number = await connection.numbers()
            await self._send_at_once(connection, [record_of(message, connection.source, number)])
        else:
            connection = connection_in(transaction, self.handle)
            number = await connection.numbers()
            record = record_of(message, connection.source, number)
            await transaction.awaited.send(
                await self._number(connection), record, guarded=self._guarded
            )
        return MessageId(join_id(ManagerId(connection.manager_id), number))

    @traces_send_many
    async def send_many(
        self, messages: Iterable[Message | Buffer], transaction: InTransaction | None = None
    ) -> list[MessageId]:
        """Send messages, all or none if the queue is transactional; return their ids.

        Messages that fit into 4 MiB need one frame and one sync; more go in a transaction of their
        own. To a non-transactional queue they go frame by frame: the field `sent` of an error then
        says how many messages were sent before. A lost answer raises `InDoubt`, as in `send`.
        """
        batch = SendBatch(messages, self.handle.name)
        connection = (
            await self.handle.link.connection()
            if transaction is None
            else connection_in(transaction, self.handle)
        )
        first = await connection.numbers(batch.count) if batch.count else 0
        records = batch.records(connection.source, first)
        ids = message_ids(ManagerId(connection.manager_id), first, batch.count)
        if transaction is not None:
            await self._send_in(transaction, records)
            return ids
        frames = list(in_frames(records))
        if len(frames) > 1 and (await self.handle.opened(connection)).transactional:
            async with await Transaction.begin(self.handle.link) as own:
                await self._send_in(own, records)
            return ids
        sent = 0
        for frame in frames:
            try:
                await self._send_at_once(connection, frame)
            except DrayError as error:
                if not sent:
                    raise
                raise sent_in_part(error, sent) from error
            sent += len(frame)
        return ids

    @traces_receive
    async def receive(
        self, timeout: float | None = None, transaction: InTransaction | None = None
    ) -> Message:
        """Receive the first message. Raises `ReceiveTimeout`; a timeout of None waits forever."""
        return (await self._reader.take(1, timeout=timeout, transaction=transaction))[0]

    @traces_receive
    async def receive_many(
        self,
        max_messages: int,
        *,
        max_bytes: int | None = None,
        timeout: float | None = None,
        transaction: InTransaction | None = None,
    ) -> list[Message]:
        """Receive the available messages, at least one and at most one frame of them (4 MiB)."""
        return await self._reader.take(
            max_messages, max_bytes=max_bytes, timeout=timeout, transaction=transaction
        )

    async def peek(self, timeout: float | None = None) -> Message:
        """Look at the first message without receiving it."""
        return (await self._reader.take(1, timeout=timeout, peek=True))[0]

    @traces_receive
    async def receive_by_id(
        self, id: str, timeout: float | None = None, transaction: InTransaction | None = None
    ) -> Message:
        """Receive the message with that id; raises `MessageNotFound` if `timeout` is None or 0."""
        return await self._reader.pick(SelectById(id), timeout, transaction)

    @traces_receive
    async def receive_by_correlation_id(
        self,
        correlation_id: str,
        timeout: float | None = None,
        transaction: InTransaction | None = None,
    ) -> Message:
        """Receive the first message with that correlation id; see `receive_by_id`."""
        return await self._reader.pick(SelectByCorrelation(correlation_id), timeout, transaction)

    @traces_receive
    async def receive_by_lookup_id(
        self, lookup_id: int, timeout: float | None = None, transaction: InTransaction | None = None
    ) -> Message:
        """Receive the message at that position; see `receive_by_id`."""
        return await self._reader.at(lookup_id, timeout, transaction)

    async def peek_by_id(self, id: str, timeout: float | None = None) -> Message:
        """Look at the message with that id; see `receive_by_id`."""
        return await self._reader.pick(SelectById(id), timeout, peek=True)

    async def peek_by_correlation_id(
        self, correlation_id: str, timeout: float | None = None
    ) -> Message:
        """Look at the first message with that correlation id; see `receive_by_id`."""
        return await self._reader.pick(SelectByCorrelation(correlation_id), timeout, peek=True)

    async def peek_by_lookup_id(self, lookup_id: int, timeout: float | None = None) -> Message:
        """Look at the message at that position; see `receive_by_id`."""
        return await self._reader.at(lookup_id, timeout, peek=True)

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Iterate over the messages now in the queue, in receiving order; removes nothing."""
        info = await self.info()
        left = info.message_count
        # Priorities come one after the other: within each the order is by position.
        for priority in (None,) if info.transactional else range(PRIORITY_MAX, -1, -1):
            after = 0
            while left > 0:
                select = SelectNext(after, priority)
                page = await self._reader.page(select, min(left, _PAGE_MESSAGES), _PAGE_BYTES)
                if not page:
                    break
                for message in page:
                    yield message
                left -= len(page)
                after = page[-1].lookup_id or 0

    async def contents(self, after: int = 0) -> AsyncGenerator[QueuedMessage, None]:
        """Iterate over what is in the queue behind a position, without bodies; removes nothing.

        A large message is one, which says whether it is whole, in flight or has a hole. The order
        is that of positions. Messages that a transaction holds are among them.
        """
        async with aclosing(contents_of(self.handle, after)) as found:
            async for each in found:
                yield each

    async def parts(self, lookup_id: int) -> AsyncGenerator[QueuedPart, None]:
        """Iterate over the parts of the large message that begins at a position; removes nothing.

        There are none if another message, or none, is at that position.
        """
        async with aclosing(parts_of(self.handle, lookup_id)) as found:
            async for each in found:
                yield each

    async def peek_range(
        self,
        after: int = 0,
        max_messages: int = _PAGE_MESSAGES,
        max_bytes: int | None = _PAGE_BYTES,
    ) -> list[Message]:
        """Look at the messages after a position, in order of positions; [] if there are none.

        They end before a message that a transaction holds, so that all up to the last can be
        settled.
        """
        return await self._reader.page(SelectRange(after), max_messages, max_bytes)

    async def next_after(self, lookup_id: int, timeout: float | None) -> Message:
        """Look at the first message after a position that no transaction holds."""
        return await self._reader.next_after(lookup_id, timeout)

    async def settle(
        self,
        upto: LookupId | int,
        born: int | None = None,
        transaction: InTransaction | None = None,
    ) -> None:
        """Receive everything up to and including a position; repeating it changes nothing.

        Raises `QueueRecreated` if `born` is not the queue's `QueueInfo.born`: it was deleted and
        created again.
        """
        connection, number = await part_in(transaction, self.handle)
        settle = lambda queue: message_frames.Settle(queue, upto, number, born or 0)  # noqa: E731
        await self.handle.call(settle, Done, connection=connection)

    @traces_receive
    async def receive_transaction(
        self, timeout: float | None = None, transaction: InTransaction | None = None
    ) -> ReceivedTransaction:
        """Receive all messages that one transaction sent here, once no more can come.

        The result names the messages that expired, were refused on the way or have left the queue.
        Raises `ReceiveTimeout`.
        """
        if transaction is None:
            return await self._receive_whole(timeout)
        connection, number = await part_in(transaction, self.handle)
        used, frame = await self.handle.call(
            lambda queue: message_frames.ReceiveTransaction(queue, number, timeout),
            message_frames.TransactionMessages,
            wait_s=wait_for(timeout),
            connection=connection,
        )
        head = frame.head
        assert isinstance(head, message_frames.TransactionMessages)
        messages = messages_in(head.envelopes, frame.body, self.name)
        used.give_back(frame.body)
        messages += [await self._left_out(used, envelope) for envelope in head.left_out]
        return ReceivedTransaction(messages, head.missing)

    async def _left_out(self, connection: Connection, envelope: message_frames.Envelope) -> Message:
        _, frame = await self.handle.call(
            lambda queue: ReadPart(queue, envelope.lookup_id, 0, envelope.length),
            Range,
            connection=connection,
        )
        return messages_in([envelope], frame.body, self.name)[0]

    def cursor(self) -> Cursor:
        """Return a cursor, which goes through the queue message by message."""
        return Cursor(self._reader)

    async def move(
        self, message: Message | int, target: str, transaction: InTransaction | None = None
    ) -> None:
        """Move a message, given itself or by position, between this queue and its sub-queues.

        In a transaction the move happens at the commit; until then nobody sees the message. Raises
        `MessageNotFound` if another reader has it, `LargeMessageMixing` for a large message's part.
        """
        connection, number = await part_in(transaction, self.handle)
        connection = connection or await self.handle.link.connection()
        to = (await connection.open_queue(str(parse_queue_address(target)))).number
        position, message_id = _place_of(message)
        await self.handle.call(
            lambda queue: message_frames.Move(
                queue, position, to, number, self._guarded, message_id
            ),
            Done,
            connection=connection,
        )

    async def reject(self, message: Message | int, transaction: InTransaction) -> None:
        """Mark a message that the transaction received as rejected: the commit tells its sender."""
        connection, number = await part_in(transaction, self.handle)
        position, message_id = _place_of(message)
        await self.handle.call(
            lambda queue: message_frames.Reject(queue, position, number, message_id),
            Done,
            connection=connection,
        )

    async def purge(
        self,
        only: QueuedMessage | None = None,
        born: int | None = None,
        before: int = 0,
    ) -> int:
        """Remove all messages that no transaction holds, or one of `contents`; return their number.

        A message that a transaction holds goes, too, unless that transaction commits. Parts count
        one by one. Raises `MessageNotFound` if nothing of `only` is free, and `QueueRecreated` if
        `born` is not the queue's `QueueInfo.born`: it was deleted and created again. `before` is
        a `QueueInfo.next_position`: messages that came since stay.
        """
        first, id = (0, "") if only is None else (only.lookup_id, only.id)
        purge = lambda queue: PurgeQueue(queue, id, first, born or 0, before)  # noqa: E731
        return cast("Done", (await self.handle.call(purge, Done))[1].head).count

    async def info(self) -> QueueInfo:
        """State of the queue."""
        if ";" in self.name:
            # A sub-queue is made when it is needed, and so it is when it is asked after.
            await self.handle.opened()
        return (await self.handle.link.ask(DescribeQueue(self.name), QueueState)).info

    async def _receive_whole(self, timeout: float | None) -> ReceivedTransaction:
        """Take a whole transaction in a transaction that begins and ends with this call."""
        link = self.handle.link
        if link.claims.waiting:
            await link.claims.settle(link)
            if (kept := link.claims.taken_whole(self.name)) is not None:
                return kept
        own = await Transaction.begin(link)
        try:
            taken = await self.receive_transaction(timeout, own)
        except (DrayError, TimeoutError):
            # Nothing came, so nothing is to be given back.
            raise
        except BaseException:
            await own.abort()
            raise
        try:
            await link.runtime.to_its_end(own.commit())
        except InDoubt as error:
            # Nobody began this transaction, so what is said is what a plain receive would say.
            cause = error.__cause__
            assert isinstance(cause, DrayError)
            doubt = Doubt(own.id, self.name, [taken])
            await link.runtime.to_its_end(link.claims.find_out(link, doubt, cause))
        return taken

    async def _send_at_once(self, connection: Connection, records: list[Record]) -> None:
        sizes, crcs = [], []
        body: list[Buffer] = []
        for head, content, size, crc in records:
            body += (head, content)
            sizes.append(size)
            crcs.append(crc)
        await self.handle.call(
            lambda queue: message_frames.Send(queue, 0, sizes, crcs, self._guarded),
            Done,
            body=body,
            connection=connection,
            lost=partial(self._send_lost, connection, records),
        )

    def _send_lost(
        self, connection: Connection, records: list[Record], _: Head, error: DrayError
    ) -> InDoubt:
        """The error for a send whose answer was lost."""
        headers = [read_header(record.head) for record in records]
        number = headers[0].number
        if any(not header.flags & FLAG_RECOVERABLE for header in headers):
            number += EXPRESS_OUTCOME
        return send_in_doubt(join_id(ManagerId(connection.manager_id), number), len(records), error)

    async def _send_in(self, transaction: InTransaction, records: list[Record]) -> None:
        queue = await self._number(connection_in(transaction, self.handle))
        await transaction.awaited.send(queue, *records, guarded=self._guarded)

    async def _number(self, connection: Connection) -> int:
        """The queue's number, for a transaction to send to."""
        opened = await connection.open_queue(self.handle.name)
        if not opened.transactional:
            raise TransactionUsage(
                f"queue {self.name!r} is not transactional: send to it outside a transaction"
            )
        return opened.number


def _place_of(message: Message | int) -> tuple[int, str]:
    """The position and the id of a message; of a mere position the id is empty."""
    if isinstance(message, int):
        return message, ""
    if message.lookup_id is None:
        raise MessageNotFound("the message was never in a queue; give a received message")
    return message.lookup_id, message.id or ""
