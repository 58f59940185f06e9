"""Receives the first message of the sample's queue, after a part was dropped if that was chosen."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final, NamedTuple

from dray.aio import LargeMessageQueue, Manager
from dray.console.sample.queues import QUEUE, STATUS_QUEUE, make_missing
from dray.console.sample.received import ReceivedFile
from dray.console.visitors import Visitor
from dray.errors import LargeMessageHole, MessageNotFound, Misuse
from dray.model.classes import MessageClass
from dray.model.queued import QueuedMessage

TIMEOUT_S: Final = 10.0
"""The timeout of the original."""
HEADER: Final = "header"
FRAGMENT: Final = "fragment"
TRAILER: Final = "trailer"
PARTS: Final = (HEADER, FRAGMENT, TRAILER)


class Dropping(NamedTuple):
    """Which part of the first large message is taken away before the receive."""

    part: str
    number: int = 1


class HoleFound(NamedTuple):
    """The error box: the error, and the parts that are dead letters now, by queue."""

    error: LargeMessageHole
    dead_letters: list[QueuedMessage]


async def receive(manager: Manager, visitor: Visitor) -> ReceivedFile | HoleFound:
    """Receive the first message within 10 s; raises `ReceiveTimeout`."""
    await make_missing(manager)
    queue = manager.queue(QUEUE)
    async with aclosing(queue.contents()) as contents:
        first = await anext(contents, None)
    if first is not None and not first.parts:
        transaction = await manager.transaction()
        try:
            message = await queue.receive(TIMEOUT_S, transaction)
        except BaseException:
            await transaction.abort()
            raise
        return ReceivedFile.of_plain(visitor, message, transaction)
    large = LargeMessageQueue(queue, status_queue=STATUS_QUEUE)
    try:
        found = await large.receive(timeout=TIMEOUT_S)
    except LargeMessageHole as hole:
        return HoleFound(hole, await _dead_letters(manager, hole.sequence_id))
    try:
        return await ReceivedFile.of_large(visitor, found)
    except BaseException:
        await found.close()
        raise


async def drop(manager: Manager, dropping: Dropping) -> str:
    """Take one part away, as the original did with the first message; return its label.

    Raises `ReceiveTimeout` if there is nothing within 10 s, `Misuse` for a part that is not there.
    """
    await make_missing(manager)
    raw = manager.queue(QUEUE, raw=True)
    if dropping.part == HEADER:
        return (await raw.receive(TIMEOUT_S)).label
    first = await raw.peek(TIMEOUT_S)
    async with aclosing(raw.contents()) as contents:
        found = await anext(contents, None)
    if found is None or not found.parts or first.lookup_id is None:
        raise Misuse("the first message is no large message, so it has no parts; receive it first")
    fragments = found.parts - 2
    number = dropping.number if dropping.part == FRAGMENT else fragments + 1
    if not 1 <= number <= fragments + (dropping.part == TRAILER):
        raise Misuse(f"the first message has fragments 1 to {fragments}; choose one of them")
    try:
        # The parts came in one transaction, so they stand one behind another.
        return (await raw.receive_by_lookup_id(first.lookup_id + number)).label
    except MessageNotFound as error:
        raise Misuse("that part has left the queue already; receive the message first") from error


async def _dead_letters(manager: Manager, sequence_id: str) -> list[QueuedMessage]:
    """The rejected parts of a message, where this queue manager is also its sender's."""
    return [
        each
        for each in await manager.dead_letters()
        if each.id == sequence_id and each.message_class != MessageClass.NORMAL
    ]
