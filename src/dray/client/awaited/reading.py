"""Receives and peeks of one queue, and the claim of a receive outside transactions.

A receive outside of transactions claims its messages and confirms them by a commit before it hands
them over; `claims` says why.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.client.awaited.joining import InTransaction, part_in
from dray.client.calls.messages import messages_in
from dray.client.calls.requests import wait_for
from dray.client.connections.claims import Claims, Doubt
from dray.client.connections.connection import Connection
from dray.client.connections.link import Link, QueueHandle
from dray.errors import (
    ConnectionLost,
    DrayError,
    MessageNotFound,
    ProtocolError,
    ReceiveTimeout,
    StorePoisoned,
)
from dray.model.ids import ManagerId, join_id
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.model.message import Message
from dray.wire.frames import Done
from dray.wire.message_frames import Abort, Commit, Messages, Receive
from dray.wire.selections import Select, SelectAt, SelectFirst, SelectNext, SelectOne, told

_FIRST = SelectFirst()


class MessageReader:
    """Receives messages of one queue, or looks at them."""

    def __init__(self, handle: QueueHandle, *, guarded: bool) -> None:
        """Read one queue. `guarded` false sees single fragments of large messages, too."""
        self.handle = handle
        self._guarded = guarded

    async def take(
        self,
        max_messages: int,
        *,
        timeout: float | None,
        max_bytes: int | None = None,
        transaction: InTransaction | None = None,
        select: Select = _FIRST,
        peek: bool = False,
    ) -> list[Message]:
        """Return at least one message and at most one frame of them; raises `ReceiveTimeout`."""
        wait_s = wait_for(timeout)
        # Both are bounds from above, so a lower one keeps the promise.
        count = min(max_messages, BATCH_MESSAGES_MAX)
        room = 0 if max_bytes is None else max(1, max_bytes)
        claim = transaction is None and not peek

        def request(queue: int, number: int) -> Receive:
            return Receive(
                queue, number, timeout, count, room, peek, select, self._guarded, claim=claim
            )

        if claim:
            return await take_claimed(
                self.handle, request, select=select, count=count, wait_s=wait_s
            )
        connection, number = await part_in(transaction, self.handle)
        used, frame = await self.handle.call(
            lambda queue: request(queue, number), Messages, wait_s=wait_s, connection=connection
        )
        assert isinstance(frame.head, Messages)
        found = messages_in(frame.head.envelopes, frame.body, self.handle.name)
        used.give_back(frame.body)
        return found

    async def at(
        self,
        lookup_id: int,
        timeout: float | None = None,
        transaction: InTransaction | None = None,
        *,
        peek: bool = False,
    ) -> Message:
        """Give the message at a position, as `pick` does."""
        return await self.pick(SelectAt(lookup_id), timeout, transaction, peek=peek)

    async def next_after(self, lookup_id: int, timeout: float | None) -> Message:
        """Look at the first message behind a position that no transaction holds."""
        found = await self.take(1, timeout=timeout, select=SelectNext(lookup_id), peek=True)
        return found[0]

    async def page(self, select: Select, max_messages: int, max_bytes: int | None) -> list[Message]:
        """Look at what is there now; [] if nothing is."""
        try:
            return await self.take(
                max_messages, max_bytes=max_bytes, timeout=0, select=select, peek=True
            )
        except ReceiveTimeout:
            return []

    async def pick(
        self,
        select: SelectOne,
        timeout: float | None,
        transaction: InTransaction | None = None,
        *,
        peek: bool = False,
    ) -> Message:
        """Give one message; raises `MessageNotFound` without a time to wait, or with 0."""
        try:
            found = await self.take(
                1, timeout=timeout, transaction=transaction, select=select, peek=peek
            )
        except ReceiveTimeout as error:
            if timeout:
                raise
            raise MessageNotFound(
                f"no available message in {self.handle.name!r} has {told(select)}"
            ) from error
        return found[0]


async def take_claimed(
    handle: QueueHandle,
    request: Callable[[int, int], Receive],
    *,
    select: Select,
    count: int,
    wait_s: float | None,
) -> list[Message]:
    """Receive outside of transactions; `request` makes the head from queue and number."""
    link = handle.link
    claims = link.claims
    if claims.waiting:
        await claims.settle(link)
        if kept := claims.taken(handle.name, select, count):
            return kept
    connection = await link.connection()
    number = await connection.numbers()
    claim_id = join_id(ManagerId(connection.manager_id), number)
    try:
        used, frame = await handle.call(
            lambda queue: request(queue, number), Messages, wait_s=wait_s, connection=connection
        )
        assert isinstance(frame.head, Messages)
        found = messages_in(frame.head.envelopes, frame.body, handle.name)
        used.give_back(frame.body)
    except (DrayError, TimeoutError) as error:
        if connection.lost is not None:
            claims.give_up(claim_id)
        elif isinstance(error, ProtocolError):
            await _give_back(claims, connection, number)
        raise
    except BaseException:
        await _give_back(claims, connection, number)
        raise
    doubt = Doubt(claim_id, handle.name, found)
    await link.runtime.to_its_end(_confirmed(link, connection, number, doubt))
    return found


async def _confirmed(link: Link, connection: Connection, number: int, doubt: Doubt) -> None:
    """Commit a claim; raises unless it is committed."""
    try:
        await connection.ask(Commit(number, 0), Done)
    except (ConnectionLost, ProtocolError, StorePoisoned) as error:
        await link.claims.find_out(link, doubt, error)
    except DrayError:
        # Refused, so it is back in its queue.
        raise
    except BaseException:
        link.claims.keep(doubt)
        raise


async def _give_back(claims: Claims, connection: Connection, number: int) -> None:
    """Abort a claim that was given up, whether or not the manager has found something for it."""
    try:
        await connection.ask(Abort(number), Done)
    except DrayError:
        claims.give_up(join_id(ManagerId(connection.manager_id), number))
