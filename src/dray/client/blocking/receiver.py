"""The blocking face of `awaited.receiver`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dray.client.awaited.handled_messages import AnyMessage as AwaitedMessage
from dray.client.awaited.large_message import LargeMessage as AwaitedLargeMessage
from dray.client.awaited.receiver import Handled, Then
from dray.client.awaited.receiver import Receiver as AwaitedReceiver
from dray.client.blocking.face import Face
from dray.client.blocking.large_message import LargeMessage
from dray.client.blocking.transaction import Transaction
from dray.client.calls.handlers import KnownHandler
from dray.client.calls.public_calls import public
from dray.client.connections.threads import run

if TYPE_CHECKING:
    import threading

    from dray.client.awaited.receiver import Handler as AwaitedHandler
    from dray.client.awaited.transaction import Transaction as AwaitedTransaction
    from dray.client.blocking.large import LargeMessageQueue
    from dray.client.blocking.queue import Queue
    from dray.model.message import Message

Handler = Callable[[Any, Transaction], object]
"""See `awaited.receiver`."""


@public()
class Receiver(Face[AwaitedReceiver]):
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
        `workers` threads side by side. While the queue manager is away the receiver waits and goes
        on by itself; without `reconnect` it raises the error. Raises `ValueError`.
        """
        super().__init__(
            AwaitedReceiver(
                queue.awaited,
                retries=retries,
                retry_delay=retry_delay,
                then=then,
                poison=poison,
                workers=workers,
                reconnect=reconnect,
            )
        )
        self._handler = KnownHandler()

    def handle_next(self, handler: Handler, timeout: float | None = None) -> Handled:
        """Receive a message and call the handler; raises `ReceiveTimeout`.

        The result holds an exception of the handler. Errors that are not the fault of the message
        (a lost connection, a quota, a commit in doubt) abort the transaction and are raised. With
        `reconnect` the call waits until these are over, for as long as `timeout` lasts.
        """
        return _of_this_face(run(self.awaited.handle_next(self._awaited(handler), timeout)))

    def run(
        self,
        handler: Handler,
        stop: threading.Event,
        *,
        report: Callable[[Handled], object] | None = None,
    ) -> int:
        """Handle messages until `stop` is set; return how many.

        `report` is called with each `Handled`. A message under way is handled to its end. The call
        logs a warning for a large message that lacks parts or cannot be read, and goes on. Raises
        as `handle_next` does; then the other workers end first.
        """
        told = None if report is None else lambda handled: report(_of_this_face(handled))
        return run(self.awaited.run(self._awaited(handler), stop, report=told))

    def _awaited(self, handler: Handler) -> AwaitedHandler:
        self._handler.check(handler)

        def handle(message: AwaitedMessage, transaction: AwaitedTransaction) -> object:
            return handler(_outside(message), Transaction(transaction))

        return handle


def _of_this_face(handled: Handled) -> Handled:
    return handled._replace(message=_outside(handled.message))


def _outside(message: AwaitedMessage) -> Message | LargeMessage:
    return LargeMessage(message) if isinstance(message, AwaitedLargeMessage) else message
