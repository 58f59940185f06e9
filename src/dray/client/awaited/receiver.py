"""Handles messages one by one, with a policy for messages that cannot be handled (semantics 1.11).

Every message is handled in a transaction of its own: the sends and receives of the handler take
effect with the message, or not at all. A message on which the handler raises is tried again; with a
`retry_delay` it waits in the sub-queue `retry` meanwhile, so that others pass it. The queue manager
counts the attempts (aborts, and moves there and back), so no restart forgets them.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from dray.client.awaited.transaction import Transaction
from dray.client.calls.public_calls import public
from dray.client.calls.requests import check_timeout
from dray.errors import DrayError, MessageNotFound, Misuse, ReceiveTimeout
from dray.model.classes import TransactionStatus

if TYPE_CHECKING:
    from dray.client.awaited.queue import Queue
    from dray.model.ids import MessageId
    from dray.model.message import Message

Handler = Callable[["Message", Transaction], object]
"""Called with a message and its transaction; may be a coroutine function."""
Then = Literal["reject", "move", "drop"]
RETRY = "retry"


class Fate(enum.StrEnum):
    """The outcome of a message."""

    DONE = "done"
    RETRIED = "retried"
    REJECTED = "rejected"
    MOVED = "moved"
    DROPPED = "dropped"


class Handled(NamedTuple):
    """A message, its outcome, and the exception of the handler."""

    message: Message
    fate: Fate
    error: Exception | None = None


@public()
class Receiver:
    """Receives from one transactional queue, with a policy for poison messages."""

    def __init__(
        self,
        queue: Queue,
        *,
        retries: int = 5,
        retry_delay: float = 0.0,
        then: Then = "reject",
        poison: str = "poison",
    ) -> None:
        """Retry a message `retries` times, `retry_delay` seconds apart.

        Then reject it (its sender finds it in its dead-letter queue), move it to the sub-queue
        `poison`, or drop it. Raises `ValueError`.
        """
        self._queue = queue
        self._link = self._queue.handle.link
        self._retries = retries
        self._retry_delay = retry_delay
        self._then = then
        self._poison = poison
        self._due: dict[MessageId, float] | None = None

    def __repr__(self) -> str:
        return f"<Receiver of {self._queue.name}>"

    async def handle_next(self, handler: Handler, timeout: float | None = None) -> Handled:
        """Receive a message and call the handler; raises `ReceiveTimeout`.

        The result holds an exception of the handler. Errors that are not the fault of the message
        (a lost connection, a quota, a commit in doubt) abort the transaction and are raised.
        """
        check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            due = await self._bring_back()
            wait = _sooner(_left(deadline), _left(due))
            transaction = await Transaction.begin(self._link)
            try:
                message = await self._queue.receive(wait, transaction)
            except ReceiveTimeout:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                continue
            return await self._handle(handler, message, transaction)

    async def _handle(
        self, handler: Handler, message: Message, transaction: Transaction
    ) -> Handled:
        try:
            async with transaction:
                result = handler(message, transaction)
                if isinstance(result, Awaitable):
                    await result
        except Exception as error:
            if isinstance(error, DrayError) and not isinstance(error, Misuse):
                raise
            if transaction.status is TransactionStatus.COMMITTED:
                return Handled(message, Fate.DONE, error)
            return Handled(message, await self._after_failure(message), error)
        return Handled(message, Fate.DONE)

    async def _after_failure(self, message: Message) -> Fate:
        tries = 1 + message.abort_count + message.move_count // 2
        try:
            if tries > self._retries:
                return await self._give_up(message)
            if self._retry_delay:
                await self._queue.move(message, f"{self._queue.name};{RETRY}")
                self._wait_for(message)
        except MessageNotFound:
            # Back in the queue it was another reader's to take, and to try.
            return Fate.RETRIED
        return Fate.RETRIED

    async def _give_up(self, message: Message) -> Fate:
        if self._then == "move":
            await self._queue.move(message, f"{self._queue.name};{self._poison}")
            return Fate.MOVED
        async with await Transaction.begin(self._link) as transaction:
            await self._queue.receive_by_lookup_id(message.lookup_id or 0, transaction=transaction)
            if self._then == "reject":
                await self._queue.reject(message, transaction)
        return Fate.REJECTED if self._then == "reject" else Fate.DROPPED

    async def _bring_back(self) -> float | None:
        """Move back messages whose delay is over; return when the next one is due."""
        if not self._retry_delay:
            return None
        waiting = type(self._queue)(self._link, f"{self._queue.name};{RETRY}")
        if self._due is None:
            self._due = {}
            # Left there by one that has ended; when their delay began is not known.
            async for message in waiting.messages():
                self._wait_for(message)
        for id, due in list(self._due.items()):
            if due > time.monotonic():
                return due
            del self._due[id]
            try:
                await waiting.move(await waiting.peek_by_id(id), self._queue.name)
            except MessageNotFound:
                # Another receiver of this queue was first.
                continue
        return None

    def _wait_for(self, message: Message) -> None:
        assert message.id is not None
        assert self._due is not None
        self._due[message.id] = time.monotonic() + self._retry_delay


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
