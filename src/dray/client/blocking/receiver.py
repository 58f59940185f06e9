"""The blocking face of `awaited.receiver`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.client.awaited.receiver import Handled, Then
from dray.client.awaited.receiver import Receiver as AwaitedReceiver
from dray.client.blocking.face import Face
from dray.client.blocking.transaction import Transaction
from dray.client.calls.public_calls import public
from dray.client.connections.threads import run

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue
    from dray.model.message import Message


@public()
class Receiver(Face[AwaitedReceiver]):
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
        super().__init__(
            AwaitedReceiver(
                queue.awaited, retries=retries, retry_delay=retry_delay, then=then, poison=poison
            )
        )

    def handle_next(
        self, handler: Callable[[Message, Transaction], object], timeout: float | None = None
    ) -> Handled:
        """Receive a message and call the handler; raises `ReceiveTimeout`.

        The result holds an exception of the handler. Errors that are not the fault of the message
        (a lost connection, a quota, a commit in doubt) abort the transaction and are raised.
        """
        return run(
            self.awaited.handle_next(
                lambda message, transaction: handler(message, Transaction(transaction)), timeout
            )
        )
