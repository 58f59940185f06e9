"""A receiver that takes several short large messages by one request and commits them together.

Each message has a transaction of its own, so one that fails takes no other with it. Their commits
are asked for side by side and share syncs of the queue manager.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from dray.client.awaited.commits import commit_all
from dray.client.awaited.large import LargeMessageQueue
from dray.client.awaited.large_message import LargeMessage
from dray.client.awaited.receiver import Fate, Handled, Handler, Receiver, Report, Then
from dray.client.awaited.transaction import Transaction
from dray.client.calls.tracing import processing
from dray.errors import TargetUnwritable
from dray.model.classes import TransactionStatus

BatchHandler = Callable[
    [Sequence["LargeMessage"], Sequence["Transaction"]], Sequence[Exception | None]
]
"""Handles messages; gives None for each, or the error with which it failed."""


class BatchReceiver(Receiver):
    """A receiver of large messages that gives those that come together to a handler of their own.

    A message that comes alone goes to the handler of the call.
    """

    def __init__(
        self,
        queue: LargeMessageQueue,
        together: BatchHandler,
        *,
        most: int,
        retries: int,
        retry_delay: float,
        then: Then,
        poison: str,
        workers: int,
        reconnect: bool,
    ) -> None:
        """Take at most `most` at a time, for `together`; the rest is as in `Receiver`."""
        super().__init__(
            queue,
            retries=retries,
            retry_delay=retry_delay,
            then=then,
            poison=poison,
            workers=workers,
            reconnect=reconnect,
        )
        self._queue = queue
        self._together = together
        self._most = most
        self._next = most
        """The number asked for: 1 after a failure, and then twice as many each time."""

    async def handle_some(
        self, handler: Handler, report: Report, timeout: float | None, most: int
    ) -> None:
        """Handle what comes next, at most `most` messages; raises as `handle_next` does."""
        self._most = min(self._most, most)
        await self._handle(handler, report, None if timeout is None else time.monotonic() + timeout)

    async def _handle_within(self, handler: Handler, report: Report, wait: float | None) -> int:
        asked = min(self._next, self._most)
        done = 0

        def note(handled: Handled) -> None:
            nonlocal done
            done += handled.fate is Fate.DONE
            report(handled)

        taken = 0
        try:
            if asked == 1:
                taken = await super()._handle_within(handler, note, wait)
            else:
                taken = await self._handle_together(note, wait, asked)
        finally:
            # Another worker may have found more; only the pace depends on it.
            self._next = 2 * done if done and done == taken else 1
        return taken

    async def _handle_together(self, report: Report, wait: float | None, asked: int) -> int:
        """Handle some messages; return how many were taken."""
        taken = await self._queue.take_some(wait, asked)
        self._is_back()
        try:
            with ExitStack() as spans:
                for each in taken.messages:
                    spans.enter_context(processing(self._messages.name, each))
                errors = self._together(taken.messages, taken.transactions)
            outcomes = await self._concluded(taken.transactions, errors)
        except BaseException:
            for transaction in taken.transactions:
                if transaction.status is TransactionStatus.PENDING:
                    transaction.leave()
            raise
        if not any(isinstance(error, TargetUnwritable) for error in outcomes):
            self._is_back(wrote=True)
        failed: Exception | None = None
        for message, transaction, error in zip(
            taken.messages, taken.transactions, outcomes, strict=True
        ):
            if error is None:
                report(Handled(message, Fate.DONE))
                continue
            try:
                report(await self._ended(message, transaction, error))
            except Exception as other:  # noqa: BLE001 - raised once the others are reported
                failed = failed or other
        if failed is not None:
            raise failed
        return taken.taken

    async def _concluded(
        self, transactions: Sequence[Transaction], errors: Sequence[Exception | None]
    ) -> list[Exception | None]:
        """Commit those without an error side by side, abort the others; the errors of all."""
        outcomes = list(errors)
        good = [at for at, error in enumerate(errors) if error is None]
        for at, error in zip(
            good, await commit_all([transactions[at] for at in good]), strict=True
        ):
            outcomes[at] = error
        for transaction, error in zip(transactions, errors, strict=True):
            if error is not None and transaction.under_way:
                await transaction.abort()
        return outcomes
