"""`POST /v1/queues/{queue}/messages`: one message of any size, with or without a key.

A request with an `Idempotency-Key` is committed as a batch of one, whose name is made of the
caller, the queue and the key, and whose digest is that of the request. The queue manager remembers
it by the fact that commits the message (docs/explanation/batches.md), so a repeated request finds
the message sent, however the first one ended.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from dray.aio import LargeMessageQueue, Queue, Transaction
from dray.console.http.bodies import RequestBody
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.calls import Call, answered
from dray.console.v1.limits import FRAGMENT_BYTES, KEY_CHARACTERS_MAX, PLAIN_BYTES_MAX
from dray.console.v1.properties import KIND, PREFIX, properties_of, shown
from dray.errors import BatchMismatch, LargeMessageMixing
from dray.model.classes import TransactionStatus
from dray.model.ids import split_id
from dray.model.names import REQUEST_KEY
from dray.wire.batch_frames import BatchIs, CommitBatch, DescribeBatch

PLAIN: Final = "message"
LARGE: Final = "large"
KEY: Final = "Idempotency-Key"
REPEATED: Final = "Idempotency-Replayed"


class SentBody(NamedTuple):
    """A message that was sent, in a transaction or for good."""

    id: str
    kind: str
    size: int


async def send(call: Call) -> Response:
    """Send the body of a request as one message."""
    properties = properties_of(call.request.headers, call.header_names())
    kind = call.request.headers.get(KIND)
    if kind not in (None, PLAIN, LARGE):
        raise HttpRefusal(
            400, "bad-header", f"{KIND} is {PLAIN} or {LARGE}; leave it out to choose"
        )
    key, held = call.request.headers.get(KEY), call.transaction()
    queue = call.caller.manager.queue(call.named("queue"))
    digest = call.request.headers.get("dray-digest")
    if call.header_names().count(KEY.lower()) > 1:
        raise HttpRefusal(400, "bad-header", f"{KEY} is given twice; send it once")
    with call.caller.body():
        if key is not None:
            if held is not None:
                raise HttpRefusal(
                    400, "key-in-transaction", f"{KEY} and Dray-Transaction exclude each other: a"
                    " transaction is committed once anyway; leave one out",
                )  # fmt: skip
            return await _send_once(call, queue, key, _SendRequest(properties, kind, digest))
        body = RequestBody(call.request)
        asked = _SendRequest(properties, kind, digest)
        if held is None:
            sent = await _sent(queue, body, asked, None)
        else:
            async with call.caller.transactions.used(held):
                sent = await _sent(queue, body, asked, held.transaction)
    return _told(sent)


class _SendRequest(NamedTuple):
    properties: dict[str, Any]
    kind: str | None
    digest: str | None


async def _sent(
    queue: Queue, body: RequestBody, asked: _SendRequest, transaction: Transaction | None
) -> SentBody:
    """Send a body, as a plain message if it is short."""
    if asked.kind != LARGE:
        whole, complete = await body.beginning(PLAIN_BYTES_MAX)
        if complete:
            try:
                name = await queue.send(whole, transaction=transaction, **asked.properties)
            except LargeMessageMixing as error:
                raise LargeMessageMixing(
                    f"queue {queue.name!r} is used for large messages; send with {KIND}: {LARGE}",
                    queue=queue.name,
                ) from error
            return SentBody(name, PLAIN, len(whole))
        if asked.kind == PLAIN:
            raise HttpRefusal(
                413, "message-too-large", f"a plain message has at most {PLAIN_BYTES_MAX} bytes"
                f" here; leave {KIND} out, and it is sent as a large message",
            )  # fmt: skip
    large = LargeMessageQueue(queue, fragment_size=FRAGMENT_BYTES, digest=asked.digest)
    name = await large.send(body, transaction=transaction, **asked.properties)
    return SentBody(name, LARGE, body.size)


def _told(sent: SentBody, *, repeated: bool = False) -> Response:
    headers = {"Dray-Id": shown(sent.id), KIND: sent.kind}
    if repeated:
        headers[REPEATED] = "true"
    said = {"id": sent.id, "kind": sent.kind, "size": sent.size}
    return answered(said, 200 if repeated else 201, headers)


async def _send_once(call: Call, queue: Queue, key: str, asked: _SendRequest) -> Response:
    name, link = _name_of(call, queue, key), queue.handle.link
    if not (await queue.handle.opened()).transactional:
        raise HttpRefusal(
            409, "not-transactional", f"queue {queue.name!r} is not transactional, so it remembers"
            f" no {KEY}; send without one, or to a transactional queue",
        )  # fmt: skip
    digest = hashlib.sha256(_head_of(call))
    body = RequestBody(call.request, digest)
    known = await link.ask(DescribeBatch(name, 0), BatchIs)
    if known.committed:
        await body.drain()
        return _repeated(known, digest.digest(), body.size, key)
    transaction = await call.caller.manager.transaction()
    connection = transaction.connection()
    try:
        sent = await _sent(queue, body, asked, transaction)
        await transaction.stage(name, 0)
    finally:
        if transaction.status is TransactionStatus.PENDING:
            await transaction.abort()
    _, number = split_id(sent.id)
    # The commit has the number of the message, so that whoever asks again learns its id.
    commit = CommitBatch(name, 0, digest.digest(), number, [transaction.id])
    try:
        # Another connection may lead to a restarted manager, which takes no number of before.
        outcome = await connection.ask(commit, BatchIs)
    except BatchMismatch as error:
        raise _reused(key) from error
    if outcome.transaction_id != sent.id:
        return _repeated(outcome, digest.digest(), body.size, key)
    return _told(sent)


def _repeated(known: BatchIs, digest: bytes, size: int, key: str) -> Response:
    """The answer to a request that was done before; raises `HttpRefusal` if it was another one."""
    if known.digest != digest:
        raise _reused(key)
    kind = LARGE if known.messages > 1 else PLAIN
    return _told(SentBody(known.transaction_id, kind, size), repeated=True)


def _reused(key: str) -> HttpRefusal:
    return HttpRefusal(
        422, "key-reused", f"the {KEY} {key!r} was used for another message to this queue, and"
        " nothing was sent; choose a new key for each message",
    )  # fmt: skip


def _name_of(call: Call, queue: Queue, key: str) -> str:
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        raise HttpRefusal(
            400, "bad-header", f"an {KEY} has 1 to {KEY_CHARACTERS_MAX} characters; choose a UUID"
        )
    named = f"{call.caller.name}\n{queue.name}\n{key}"
    return REQUEST_KEY + hashlib.sha256(named.encode("utf-8")).hexdigest()


def _head_of(call: Call) -> bytes:
    """Everything that a request says besides its body, always in the same order."""
    said = sorted(
        (name, value) for name, value in call.request.headers.items() if name.startswith(PREFIX)
    )
    return repr(said).encode("utf-8")
