"""Handles messages one by one, with a policy for messages that cannot be handled (semantics 1.11).

Every message is handled in a transaction of its own: the sends and receives of the handler take
effect with the message, or not at all. A message on which the handler raises is tried again; with a
`retry_delay` it waits in the sub-queue `retry` meanwhile, so that others pass it. The queue manager
counts the attempts (aborts, and moves there and back), so no restart forgets them.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, Literal, NamedTuple, Protocol

from dray.client.awaited.handled_messages import AnyMessage, handled_messages
from dray.client.awaited.large import LargeMessageQueue
from dray.client.awaited.large_message import LargeMessage
from dray.client.awaited.manager import Manager
from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.client.calls.handlers import KnownHandler
from dray.client.calls.public_calls import public
from dray.client.calls.tracing import processing
from dray.errors import (
    ConnectionLost,
    DrayError,
    InDoubt,
    InvalidConfiguration,
    LargeMessageError,
    LargeMessageHole,
    MessageNotFound,
    Misuse,
    ReceiveTimeout,
    TargetUnwritable,
    TransactionAborted,
)
from dray.model.classes import TransactionStatus

Handler = Callable[[Any, Transaction], object]
"""Called with a message and its transaction; may be a coroutine function. It may take only the type
that its queue has, `Message` or `LargeMessage`."""
Report = Callable[["Handled"], object]
Then = Literal["reject", "move", "drop"]
RETRY = "retry"
BACKOFF_S: Final = (0.2, 30.0)
"""The first and the longest pause while a queue manager is away."""
_LISTEN_S: Final = 0.5
"""A receiver that is to stop, or that has lost its connection, knows it within so long."""
_DECIDED: Final = (TransactionStatus.COMMITTED, TransactionStatus.ABORTED)
_log = logging.getLogger(__name__)


class Stop(Protocol):
    """Tells when to stop: a `threading.Event` or an `asyncio.Event`."""

    def is_set(self) -> bool:
        """Whether to stop."""


class Fate(enum.StrEnum):
    """The outcome of a message."""

    DONE = "done"
    RETRIED = "retried"
    REJECTED = "rejected"
    MOVED = "moved"
    DROPPED = "dropped"


class Handled(NamedTuple):
    """A message, its outcome, and the exception of the handler."""

    message: Any
    """A `Message`, or the `LargeMessage` of this face."""
    fate: Fate
    error: Exception | None = None


@public()
class Receiver:
    """Receives from one transactional queue, with a policy for poison messages."""

    def __init__(
        self,
        queue: Queue | LargeMessageQueue,
        *,
        retries: int = 5,
        retry_delay: float = 0.0,
        then: Then = "reject",
        poison: str = "poison",
        workers: int = 1,
        reconnect: bool = True,
    ) -> None:
        """Retry a message `retries` times, `retry_delay` seconds apart.

        Then reject it (its sender finds it in its dead-letter queue), move it to the sub-queue
        `poison`, or drop it. A `LargeMessageQueue` gives large messages. `run` handles messages in
        `workers` side by side. While the queue manager is away the receiver waits and goes on by
        itself; without `reconnect` it raises the error. Raises `ValueError`.
        """
        self._messages = handled_messages(queue)
        self._link = self._messages.link
        self._retries = retries
        self._retry_delay = retry_delay
        self._then = then
        self._poison = poison
        self._workers = workers
        self._reconnect = reconnect
        self._away = False
        self._target_fails = False
        """Whether it is away because received bodies cannot be written."""
        self._due: dict[str, float] | None = None
        self._stop: Stop = _NeverStop()
        self._handler = KnownHandler()

    def __repr__(self) -> str:
        return f"<Receiver of {self._messages.name}>"

    async def handle_next(self, handler: Handler, timeout: float | None = None) -> Handled:
        """Receive a message and call the handler; raises `ReceiveTimeout`.

        The result holds an exception of the handler. Errors that are not the fault of the message
        (a lost connection, a quota, a commit in doubt) abort the transaction and are raised. With
        `reconnect` the call waits until these are over, for as long as `timeout` lasts.
        """
        self._handler.check(handler)
        deadline = None if timeout is None else time.monotonic() + timeout
        handled: list[Handled] = []
        await self._handle(handler, handled.append, deadline)
        return handled[0]

    async def _handle(self, handler: Handler, report: Report, deadline: float | None) -> int:
        if not self._reconnect:
            return await self._handle_next(handler, report, deadline)
        return await self._handle_patiently(handler, report, deadline, _NeverStop())

    async def run(self, handler: Handler, stop: Stop, *, report: Report | None = None) -> int:
        """Handle messages until `stop` is set; return how many.

        `report` is called with each `Handled`. A message under way is handled to its end. The call
        logs a warning for a large message that lacks parts or cannot be read, and goes on. Raises
        as `handle_next` does; then the other workers end first.
        """
        self._handler.check(handler)
        run = self._stop = _Run(stop)

        async def work() -> int:
            count = 0
            try:
                while not run.is_set():
                    count += await self._handle_or_wait(handler, report or _ignore, run)
            except BaseException:
                run.end()
                raise
            return count

        try:
            workers = [work() for _ in range(self._workers)]
            return sum(await self._link.runtime.together(workers, run.end))
        finally:
            self._stop = _NeverStop()

    async def _handle_or_wait(self, handler: Handler, report: Report, stop: Stop) -> int:
        """Handle a message; return how many, 0 if there was none for a moment."""
        try:
            if self._reconnect:
                return await self._handle_patiently(handler, report, None, stop)
            return await self._handle_next(handler, report, time.monotonic() + _LISTEN_S)
        except ReceiveTimeout:
            return 0
        except LargeMessageError as error:
            # The queue manager has rejected the message or moved it; if it cannot, a pause helps.
            _log.warning("%s", error)
            await self._pause(BACKOFF_S[0], None, stop)
            return 0

    async def _handle_patiently(
        self, handler: Handler, report: Report, deadline: float | None, stop: Stop
    ) -> int:
        """Handle a message; wait while the queue manager is away. Raises `ReceiveTimeout`."""
        pause = BACKOFF_S[0]
        while True:
            soon = time.monotonic() + _LISTEN_S
            try:
                return await self._handle_next(handler, report, _sooner(deadline, soon))
            except ReceiveTimeout:
                self._is_back()
                if stop.is_set() or (deadline is not None and time.monotonic() >= deadline):
                    raise
                pause = BACKOFF_S[0]
            except DrayError as error:
                if self._link.closed or not _passes(error):
                    raise
                self._is_away(error)
                if not await self._pause(pause, deadline, stop):
                    raise ReceiveTimeout(
                        f"no message came in time, since the queue manager is away: {error}"
                    ) from error
                pause = min(2 * pause, BACKOFF_S[1])

    async def _handle_next(self, handler: Handler, report: Report, deadline: float | None) -> int:
        """Handle what comes next, and report it; return how many messages that were."""
        while True:
            due = await self._bring_back()
            wait = _sooner(_left(deadline), _left(due))
            try:
                return await self._handle_within(handler, report, wait)
            except ReceiveTimeout:
                if deadline is not None and time.monotonic() >= deadline:
                    raise

    async def _handle_within(self, handler: Handler, report: Report, wait: float | None) -> int:
        transaction = await Transaction.begin(self._link)
        try:
            message = await self._messages.take(wait, transaction)
        except ReceiveTimeout:
            raise
        except BaseException:
            if transaction.under_way:
                await transaction.abort()
            raise
        self._is_back()
        handled = await self._handle_one(handler, message, transaction)
        self._is_back(wrote=True)
        report(handled)
        return 1

    async def _handle_one(
        self, handler: Handler, message: AnyMessage, transaction: Transaction
    ) -> Handled:
        try:
            async with transaction:
                try:
                    with processing(self._messages.name, message):
                        result = handler(message, transaction)
                        if isinstance(result, Awaitable):
                            await result
                finally:
                    if isinstance(message, LargeMessage):
                        await message.close()
        except Exception as error:  # noqa: BLE001 - the fate of the message is decided there
            return await self._ended(message, transaction, error)
        return Handled(message, Fate.DONE)

    async def _ended(
        self, message: AnyMessage, transaction: Transaction, error: Exception
    ) -> Handled:
        """Give the outcome of a message after an error; raises one that is not of the message."""
        if isinstance(error, InDoubt):
            if self._reconnect and await self._has_committed(transaction):
                return Handled(message, Fate.DONE)
            raise error
        if not _is_of_the_message(error):
            raise error
        if transaction.status is TransactionStatus.COMMITTED:
            return Handled(message, Fate.DONE, error)
        return Handled(message, await self._after_failure(message), error)

    async def _has_committed(self, transaction: Transaction) -> bool:
        """Ask until the queue manager knows how a transaction in doubt has ended.

        False also if it is to stop before; if the transaction did not commit, its message comes
        again.
        """
        pause = BACKOFF_S[0]
        while True:
            try:
                status = await Manager(self._link).outcome(transaction.id)
            except ConnectionLost as error:
                if self._link.closed:
                    raise
                self._is_away(error)
            else:
                if status in _DECIDED:
                    return status is TransactionStatus.COMMITTED
                if status is TransactionStatus.UNKNOWN:
                    return False
            if not await self._pause(pause, None, self._stop):
                return False
            pause = min(2 * pause, BACKOFF_S[1])

    async def _after_failure(self, message: AnyMessage) -> Fate:
        counts = message.said.header if isinstance(message, LargeMessage) else message
        tries = 1 + counts.abort_count + counts.move_count // 2
        try:
            if tries > self._retries:
                return await self._give_up(message)
            if self._retry_delay:
                await self._messages.set_aside(message, f"{self._messages.name};{RETRY}")
                self._wait_for(_id_of(message))
        except MessageNotFound:
            # Back in the queue it was another reader's to take, and to try.
            return Fate.RETRIED
        except LargeMessageHole:
            # A part was damaged where it lay; the rest was rejected as this was found.
            return Fate.REJECTED
        return Fate.RETRIED

    async def _give_up(self, message: AnyMessage) -> Fate:
        if self._then == "move":
            await self._messages.set_aside(message, f"{self._messages.name};{self._poison}")
            return Fate.MOVED
        await self._messages.remove(message, reject=self._then == "reject")
        return Fate.REJECTED if self._then == "reject" else Fate.DROPPED

    async def _bring_back(self) -> float | None:
        """Move back messages whose delay is over; return when the next one is due."""
        if not self._retry_delay:
            return None
        name = f"{self._messages.name};{RETRY}"
        waiting = self._due
        if waiting is None:
            # Left there by one that has ended; when their delay began is not known.
            due = time.monotonic() + self._retry_delay
            self._due = waiting = dict.fromkeys(await self._messages.ids(name), due)
        for id, due in list(waiting.items()):
            if due > time.monotonic():
                return due
            if waiting.pop(id, None) is None:
                # Another worker was first.
                continue
            try:
                await self._messages.bring_back(id, name)
            except MessageNotFound:
                # Another receiver of this queue was first.
                continue
        return None

    def _wait_for(self, id: str) -> None:
        if self._due is not None:
            self._due[id] = time.monotonic() + self._retry_delay

    def _is_away(self, error: DrayError) -> None:
        target_fails = isinstance(error, TargetUnwritable)
        if not self._away or (target_fails and not self._target_fails):
            self._away = True
            self._target_fails = target_fails
            _log.warning("receiving has stopped and goes on by itself: %s", error)
        # Whether a message was moved to wait there is not known.
        self._due = None

    def _is_back(self, *, wrote: bool = False) -> None:
        """Say that receiving goes on; if bodies could not be written, only after one was."""
        if self._away and (wrote or not self._target_fails):
            self._away = self._target_fails = False
            _log.warning("receiving goes on")

    async def _pause(self, pause_s: float, deadline: float | None, stop: Stop) -> bool:
        """Wait; whether there is time for another attempt."""
        until = time.monotonic() + pause_s
        never: Future[None] = Future()
        while (left := until - time.monotonic()) > 0:
            if stop.is_set() or (deadline is not None and time.monotonic() >= deadline):
                return False
            await self._link.runtime.arrives(never, min(left, _LISTEN_S))
        return True


class _Run:
    """Stops the workers of one run, at the caller's word or when one of them fails."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._ended = False

    def is_set(self) -> bool:
        """Whether to stop."""
        return self._ended or self._stop.is_set()

    def end(self) -> None:
        """Stop."""
        self._ended = True


def _ignore(_: Handled) -> None:
    """Nobody wants to know."""


class _NeverStop:
    """Never tells to stop."""

    def is_set(self) -> bool:
        """Whether to stop."""
        return False


def _is_of_the_message(error: Exception) -> bool:
    """Whether a message is to blame for an error of its handler."""
    if isinstance(error, TargetUnwritable) and error.retryable:
        return False
    if isinstance(error, InvalidConfiguration):
        # Such as a target that was removed: every message would meet it.
        return False
    return not isinstance(error, DrayError) or isinstance(error, Misuse | LargeMessageError)


def _passes(error: DrayError) -> bool:
    """Whether an error is over when the queue manager is back, or has room again."""
    away = isinstance(error, ConnectionLost | InDoubt | TransactionAborted)
    full = isinstance(error, TargetUnwritable)
    mine = isinstance(error, LargeMessageError | Misuse) and not full
    return (error.retryable or away) and not mine


def _id_of(message: AnyMessage) -> str:
    found = message.sequence_id if isinstance(message, LargeMessage) else message.id
    assert found is not None
    return found


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
