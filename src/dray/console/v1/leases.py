"""Receiving as lease, read, settle: a message is held while its client reads it, then committed.

Each lease has a transaction of its own, or belongs to a transaction of several requests, which then
commits it. The body stays at the queue manager and is read from there as often as it is asked for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from dray.aio import LargeMessage, LargeMessageQueue, Queue, Transaction
from dray.client.awaited.large_message import verified_pieces
from dray.client.calls.messages import checked_header, messages_in
from dray.client.calls.requests import wait_for
from dray.console.http.bodies import BodyAnswer, Piece, unless_hung_up
from dray.console.http.limits import PIECE_BYTES
from dray.console.http.protocol import END_WITH_INPUT
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.calls import Call, HeldTransaction, answered, nothing
from dray.console.v1.held import Ended, Holding
from dray.console.v1.limits import LEASES_MAX, LISTEN_S, WAIT_S_MAX
from dray.console.v1.properties import KIND, headers_of, seconds, shown, within_bounds
from dray.console.v1.sending import LARGE, PLAIN
from dray.errors import LargeMessageMixing, ReceiveTimeout, TransactionUsage
from dray.model.classes import TransactionStatus
from dray.model.message import Message
from dray.wire.large_frames import Range, ReadPart
from dray.wire.message_frames import Envelope, Messages, Receive
from dray.wire.selections import SelectFirst

ANY: Final = "any"
_FIRST: Final = SelectFirst()
_ONE: Final = re.compile(r"bytes=\s*([0-9]{0,19})-([0-9]{0,19})\s*\Z", re.ASCII)


class Plain(NamedTuple):
    """A plain message without its body, and where its record is."""

    message: Message
    envelope: Envelope
    size: int


class HeldMessage(Holding):
    """A message that a caller holds."""

    def __init__(
        self,
        queue: Queue,
        transaction: Transaction,
        message: LargeMessage | Plain,
        within: HeldTransaction | None,
    ) -> None:
        """Take what was received. `within` is the transaction of several requests that has it."""
        super().__init__(timed=within is None)
        self.transaction = transaction
        self.within = within
        self.size = message.size
        self._queue = queue
        self._message = message

    @property
    def headers(self) -> dict[str, str]:
        """The properties of the message, as far as headers hold them."""
        return within_bounds(self.properties)

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the message, by header."""
        message = self._message
        told = {"Dray-Receive-Id": shown(self.transaction.id), "Dray-Size": str(self.size)}
        if isinstance(message, LargeMessage):
            digest = f"{message.digest_kind}={message.digest.hex()}"
            named = {"Dray-Id": shown(message.sequence_id), "Dray-Body-Digest": digest}
            return {KIND: LARGE, **headers_of(message), **named, **told}
        return {KIND: PLAIN, **headers_of(message.message), **told}

    async def abort(self) -> None:
        """Give the message back, unless a transaction of several requests has it."""
        if self.within is None and self.transaction.status is TransactionStatus.PENDING:
            await self.transaction.abort()

    async def pieces(self, start: int, end: int) -> AsyncGenerator[Piece, None]:
        """The body from `start` up to `end`, in pieces; all of it is checked by its digest."""
        message = self._message
        if isinstance(message, Plain):
            body = await self._record_body(message)
            yield body[start:end]
        elif (start, end) == (0, self.size):
            async with aclosing(verified_pieces(message)) as whole:
                async for piece in whole:
                    yield piece
        else:
            file = message.open()
            file.seek(start)
            while start < end:
                some = await file.read(min(PIECE_BYTES, end - start))
                start += len(some)
                yield some

    async def _record_body(self, plain: Plain) -> memoryview:
        envelope = plain.envelope
        used, frame = await self._queue.handle.call(
            lambda queue: ReadPart(queue, envelope.lookup_id, 0, envelope.length),
            Range,
            connection=self.transaction.connection(),
        )
        checked_header(frame.body, envelope.length, envelope.crc)
        body = bytes(frame.body[envelope.length - plain.size :])
        used.give_back(frame.body)
        return memoryview(body)


async def receive(call: Call) -> Response:
    """Receive the first message of a queue, and hold it for the caller."""
    wait_s = _wait_of(call)
    kind = call.request.query_params.get("kind", ANY)
    if kind not in (ANY, PLAIN, LARGE):
        raise HttpRefusal(400, "bad-query", f"kind is {ANY}, {PLAIN} or {LARGE}; {ANY} if left out")
    caller, held = call.caller, call.transaction()
    if len(caller.leases.open) >= LEASES_MAX:
        raise HttpRefusal(
            429, "too-many-leases", f"this caller holds {LEASES_MAX} leases; settle some of them"
        )
    queue = caller.manager.queue(call.named("queue"))
    if wait_s:
        # A client that is gone takes nothing with it, and looks like one that only sends no more.
        call.request.scope["state"][END_WITH_INPUT]()
    take = partial(_take, queue, held, kind, wait_s)
    with caller.wait():
        try:
            if held is None:
                lease = await unless_hung_up(call.request.receive, take())
            else:
                async with caller.transactions.used(held):
                    lease = await unless_hung_up(call.request.receive, take())
        except ReceiveTimeout:
            return nothing()
        except TransactionUsage as error:
            raise HttpRefusal(
                409, "not-transactional", f"queue {queue.name!r} is not transactional, and a lease"
                " is a receive in a transaction; receive from a transactional queue",
            ) from error  # fmt: skip
    if held is None:
        caller.leases.add(lease)
    else:
        held.add(lease)
    return nothing(201, {**lease.headers, "Location": f"/v1/leases/{lease.id}"})


async def read(call: Call) -> Response:
    """Give the body of a lease, or a range of it."""
    leases = call.caller.leases
    lease = _lease(call)
    asked = call.request.headers
    # A body has no name by which a client could know it again, so no `If-Range` fits.
    span = requested_range(None if "if-range" in asked else asked.get("range"), lease.size)
    start, end = span or (0, lease.size)
    headers = {
        **lease.headers,
        "Content-Length": str(end - start),
        "Accept-Ranges": "bytes",
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{lease.size}"

    async def pieces() -> AsyncGenerator[Piece, None]:
        with call.caller.body():
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(leases.used(lease))
                if lease.within is not None:
                    used = call.caller.transactions.used(lease.within)
                    await stack.enter_async_context(used)
                found = await stack.enter_async_context(aclosing(lease.pieces(start, end)))
                async for piece in found:
                    yield piece

    return BodyAnswer(200 if span is None else 206, headers, pieces())


async def properties(call: Call) -> Response:
    """Give all properties of a lease, also those that are too long for headers."""
    return answered(_lease(call).properties)


async def renew(call: Call) -> Response:
    """Let the time of a lease begin anew."""
    lease = _lease(call)
    call.caller.leases.renew(lease)
    if lease.within is not None:
        call.caller.transactions.renew(lease.within)
    return nothing()


async def settle(call: Call) -> Response:
    """Commit a lease: the message is received for good. Repeating it changes nothing."""
    leases = call.caller.leases
    if await leases.end_of(call.named("lease")) is Ended.COMMITTED:
        return nothing()
    lease = _lease_alone(call, "commit")
    await leases.unused(lease)
    if await leases.end_of(lease.id) is Ended.COMMITTED:
        return nothing()
    leases.find(lease.id)
    await leases.end(lease, Ended.COMMITTED, lease.transaction.commit)
    return nothing()


async def give_back(call: Call) -> Response:
    """Abort a lease: the message is back in its place. Repeating it changes nothing."""
    leases = call.caller.leases
    if await leases.end_of(call.named("lease")) is Ended.ABORTED:
        return nothing()
    lease = _lease_alone(call, "abort")
    await leases.end(lease, Ended.ABORTED)
    return nothing()


def _lease_alone(call: Call, act: str) -> HeldMessage:
    """The lease of the path, for an act that its transaction would do for all its leases."""
    lease = _lease(call)
    if lease.within is not None:
        raise HttpRefusal(
            409, "in-transaction", f"the lease belongs to a transaction; {act}"
            f" /v1/transactions/{lease.within.id}",
        )  # fmt: skip
    return lease


def _lease(call: Call) -> HeldMessage:
    """The lease of the path, whose transaction is still open; raises `HttpRefusal`."""
    leases = call.caller.leases
    lease = leases.find(call.named("lease"))
    assert isinstance(lease, HeldMessage)
    if not lease.transaction.under_way:
        leases.forget(lease, Ended.ABORTED)
        return _lease(call)
    return lease


def _wait_of(call: Call) -> float:
    said = call.request.query_params.get("wait", "0")
    try:
        wait_s = seconds(said)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise HttpRefusal(
            400, "bad-query", f"wait is not {said[:80]!r}; give a number of seconds from 0 to"
            f" {WAIT_S_MAX:g}",
        )  # fmt: skip
    return wait_s


async def _take(
    queue: Queue, held: HeldTransaction | None, kind: str, wait_s: float
) -> HeldMessage:
    """Take a message of a kind; raises `ReceiveTimeout`."""
    transaction = await Transaction.begin(queue.handle.link) if held is None else held.transaction
    try:
        message = await _message(queue, transaction, kind, wait_s)
    except BaseException:
        if held is None and transaction.status is TransactionStatus.PENDING:
            await transaction.abort()
        raise
    return HeldMessage(queue, transaction, message, held)


async def _message(
    queue: Queue, transaction: Transaction, kind: str, wait_s: float
) -> LargeMessage | Plain:
    """A plain message, or a large one where the queue is used for those."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    large = LargeMessageQueue(queue)
    while True:
        left = max(0.0, until - loop.time())
        if kind != LARGE:
            try:
                return await _plain(queue, transaction, left)
            except LargeMessageMixing as error:
                if kind == PLAIN:
                    raise LargeMessageMixing(
                        f"queue {queue.name!r} is used for large messages; receive with"
                        f" kind={LARGE} or {ANY}",
                        queue=queue.name,
                    ) from error
        turn = left if kind == LARGE else min(left, LISTEN_S)
        try:
            return await large.receive(turn, transaction)
        except ReceiveTimeout:
            if turn >= left:
                raise


async def _plain(queue: Queue, transaction: Transaction, wait_s: float) -> Plain:
    connection, number = await transaction.join()
    with transaction.undivided():
        used, frame = await queue.handle.call(
            lambda at: Receive(at, number, wait_s, 1, 0, False, _FIRST, True),
            Messages,
            wait_s=wait_for(wait_s),
            connection=connection,
        )
    head = frame.head
    assert isinstance(head, Messages)
    message = messages_in(head.envelopes, frame.body, queue.name)[0]
    size = message.body_size
    used.give_back(frame.body)
    # The body stays at the queue manager until it is asked for.
    return Plain(msgspec.structs.replace(message, body=b""), head.envelopes[0], size)


class ByteRange(NamedTuple):
    """Bytes of a body, from `start` up to and without `end`."""

    start: int
    end: int


def requested_range(header: str | None, size: int) -> ByteRange | None:
    """The range that is asked for, cut to the size; None for the whole body.

    Several ranges, other units and what cannot be read are ignored, as the standard has it. Raises
    `HttpRefusal`, 416, for a range that begins behind the end.
    """
    found = _ONE.match(header or "")
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= size or start >= end:
        raise HttpRefusal(
            416, "range-not-there", f"the body has {size} bytes, and the range begins behind them;"
            " ask for another",
            {"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return ByteRange(start, end)
