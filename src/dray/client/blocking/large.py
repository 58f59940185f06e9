"""The blocking face of `awaited.large`."""

from __future__ import annotations

from dray.client.awaited.large import PARAMETERS
from dray.client.awaited.large import LargeMessageQueue as AwaitedLargeMessageQueue
from dray.client.blocking.face import Face, blocking, blocking_as
from dray.client.blocking.large_message import LargeMessage
from dray.client.blocking.queue import Queue
from dray.client.calls.public_calls import public
from dray.large.split import LargeMessageParameters
from dray.model.limits import FRAGMENT_BYTES_MAX


@public()
class LargeMessageQueue(Face[AwaitedLargeMessageQueue]):
    """A transactional queue used for large messages only (S0-2, S0-3)."""

    def __init__(
        self,
        queue: Queue,
        *,
        fragment_size: int = FRAGMENT_BYTES_MAX,
        status_queue: str = "statusq",
        parameters: LargeMessageParameters = PARAMETERS,
        digest: str | None = None,
        compression: str | None = None,
    ) -> None:
        """Use `queue` for large messages; a `fragment_size` of 0 means the largest.

        `digest` is the digest of sent messages, "blake3" or "sha256", by default that of the queue,
        else "blake3"; receivers accept both. With `compression="zstd"` fragments are sent
        compressed if that makes them smaller; receivers do not notice. Raises `ValueError`.
        """
        super().__init__(
            AwaitedLargeMessageQueue(
                queue.awaited,
                fragment_size=fragment_size,
                status_queue=status_queue,
                parameters=parameters,
                digest=digest,
                compression=compression,
            )
        )

    @property
    def fragment_size(self) -> int:
        """Bytes of the largest fragment to send."""
        return self.awaited.fragment_size

    send = blocking(AwaitedLargeMessageQueue.send)
    unfinished = blocking(AwaitedLargeMessageQueue.unfinished)
    drop_unfinished = blocking(AwaitedLargeMessageQueue.drop_unfinished)
    receive = blocking_as(LargeMessage, AwaitedLargeMessageQueue.receive)
    receive_by_correlation_id = blocking_as(
        LargeMessage, AwaitedLargeMessageQueue.receive_by_correlation_id
    )
    peek = blocking_as(LargeMessage, AwaitedLargeMessageQueue.peek)
    peek_by_id = blocking_as(LargeMessage, AwaitedLargeMessageQueue.peek_by_id)
