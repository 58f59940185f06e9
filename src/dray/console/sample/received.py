"""A received file while the browser takes it: held by a transaction, and back if it is not kept.

POST /sample/receive                 the queue manager hands it out; nobody else sees it
GET  /sample/received/ID             its bytes, as often as the browser asks
POST /sample/received/ID/keep        the transaction commits: it has left the queue
POST /sample/received/ID/give-back   the transaction aborts, as it does after a while by itself
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple

from dray.aio import LargeMessage, LargeMessageQueue, Manager, Transaction
from dray.client.awaited.large_message import verified_pieces
from dray.console.alarms import Alarms
from dray.console.attachments import PICTURE_HEAD_BYTES, is_shown, picture_type
from dray.console.http.bodies import Piece
from dray.console.sample.queues import QUEUE, STATUS_QUEUE, make_missing
from dray.console.visitors import Visitor
from dray.errors import AccessDenied, DrayError, LargeMessageHole, MessageNotFound, Misuse
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.model.queued import QueuedMessage

_HELD_MAX: Final = 8
"""Files at a time. A plain one is in memory with up to 4 MiB, a large one is at the manager."""
_UNREAD_S: Final = 60.0
"""A browser that has not read on by then is gone."""
_GONE: Final = (
    "the received file is not here any more: it was kept, or nobody took it within a minute and it"
    " is in its queue again; receive it again"
)
_CROWDED: Final = "too many received files wait to be taken; keep one of them or give it back"
TIMEOUT_S: Final = 10.0
"""The timeout of the original."""
HEADER: Final = "header"
FRAGMENT: Final = "fragment"
TRAILER: Final = "trailer"
PARTS: Final = (HEADER, FRAGMENT, TRAILER)


class ReceivedFile:
    """One message that is being received."""

    def __init__(self, visitor: Visitor) -> None:
        """Belong to a visitor; nobody else finds it."""
        self.id = secrets.token_urlsafe(16)
        self.visitor = visitor
        self.label = self.digest = self.sequence_id = self.picture = ""
        self.size = 0
        self.error: DrayError | None = None
        """Why its bytes broke off."""
        self._large: LargeMessage | None = None
        self._body = b""
        self._transaction: Transaction | None = None

    @classmethod
    async def of_large(cls, visitor: Visitor, message: LargeMessage) -> ReceivedFile:
        """Hold a large message, which has a transaction of its own."""
        held = cls(visitor)
        held._large = message
        held.label, held.size, held.sequence_id = message.label, message.size, message.sequence_id
        held.digest = f"{message.digest_kind}:{message.digest.hex()}"
        length = min(PICTURE_HEAD_BYTES, message.size)
        held.picture = _shown_type(await message.read_range(0, length))
        return held

    @classmethod
    def of_plain(cls, visitor: Visitor, message: Message, transaction: Transaction) -> ReceivedFile:
        """Hold a plain message, which `transaction` has received."""
        held = cls(visitor)
        held._body, held._transaction = bytes(message.body), transaction
        held.label, held.size = message.label, message.body_size
        held.digest = f"sha256:{hashlib.sha256(held._body).hexdigest()}"
        held.picture = _shown_type(held._body[:PICTURE_HEAD_BYTES])
        return held

    async def chunks(self) -> AsyncGenerator[Piece, None]:
        """The body in pieces, each valid until the next is asked for; an error stays in `error`."""
        if self._large is None:
            yield self._body
            return
        try:
            async with aclosing(verified_pieces(self._large)) as pieces:
                async for piece in pieces:
                    yield piece
        except DrayError as error:
            self.error = error
            raise

    async def keep(self) -> None:
        """Receive it for good."""
        if self._large is not None:
            await self._large.commit()
        if self._transaction is not None:
            await self._transaction.commit()

    async def give_back(self) -> None:
        """Leave it in its queue."""
        if self._large is not None:
            await self._large.close()
        if self._transaction is not None:
            await self._transaction.abort()


class ReceivedFiles:
    """The files that browsers are taking. Each goes back when it is left alone."""

    def __init__(self) -> None:
        self._held: dict[str, ReceivedFile] = {}
        self._alarms = Alarms()

    def check_room(self) -> None:
        """Raise `Misuse` if there are too many."""
        if len(self._held) >= _HELD_MAX:
            raise Misuse(_CROWDED)

    def add(self, held: ReceivedFile) -> None:
        """Hold one more."""
        self._held[held.id] = held
        self.touch(held)

    def find(self, visitor: Visitor, name: str) -> ReceivedFile:
        """The file of a visitor; raises `Misuse` for one that is not there."""
        held = self._held.get(name)
        if held is None or held.visitor is not visitor:
            raise Misuse(_GONE)
        self.touch(held)
        return held

    def touch(self, held: ReceivedFile) -> None:
        """Somebody reads it: wait again."""
        if held.id in self._held:
            self._alarms.set(held.id, _UNREAD_S, partial(self._return, held))

    def release(self, held: ReceivedFile) -> None:
        """It was kept or given back."""
        self._held.pop(held.id, None)
        self._alarms.call_off(held.id)

    async def close(self) -> None:
        """Give all of them back."""
        for held in list(self._held.values()):
            self.release(held)
            await held.give_back()
        await self._alarms.close()

    def _return(self, held: ReceivedFile) -> Coroutine[Any, Any, None]:
        # Nobody finds it from now on, also before it is back.
        self.release(held)
        return held.give_back()


def _shown_type(head: bytes) -> str:
    """The type of a picture that a browser can show; "" for anything else."""
    return picture_type(head) if is_shown(head) else ""


class Dropping(NamedTuple):
    """The part of the first large message that is taken away before the receive."""

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
    try:
        letters = await manager.dead_letters()
    except AccessDenied:
        # A visitor that may not see dead letters hears of the hole all the same.
        return []
    return [
        each
        for each in letters
        if each.id == sequence_id and each.message_class != MessageClass.NORMAL
    ]
