"""Takes from queues what is durably landed, in the driver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dray.client.awaited.unreadable import Unreadable
from dray.client.calls.requests import ANSWER_GRACE_S
from dray.client.connections.threads import run
from dray.errors import LargeMessageHole, MessageNotFound, QueueNotFound
from dray.spark.managers import Managers, patiently
from dray.spark.source.large import opened_in
from dray.spark.source.offsets import QueueBirth
from dray.spark.source.ranges import check_still, first_after
from dray.wire.frames import Done
from dray.wire.large_frames import LargeFound, LargeReceive
from dray.wire.message_frames import Settle
from dray.wire.selections import SelectBySequence

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager
    from dray.client.blocking.queue import Queue
    from dray.client.blocking.transaction import Transaction
    from dray.client.connections.connection import Connection
    from dray.spark.landing.batch import QueueKey
    from dray.spark.landing.table import QueueReached
    from dray.spark.positions import Range
    from dray.wire.stream import Frame


class ManagerSettler:
    """Takes from queues what is durably landed. Doing it again changes nothing."""

    def __init__(self, credentials: str | None = None) -> None:
        """Begin without a connection; `credentials` is the file of `read_credentials`."""
        self._managers = Managers(credentials)
        self._beyond: dict[tuple[str, int], set[Range]] = {}
        """Ranges that are settled, by queue and birth number."""

    def settle(self, key: QueueKey, reached: QueueReached) -> QueueReached:
        """Settle one queue as far as `reached` allows; give how far that is.

        Small messages leave by their ranges, whatever large ones lie between. Where a message that
        does not land stands before large ones, the ranges of those that have landed are settled by
        themselves. Raises `QueueRecreated`, and settles nothing, if the queue was made again since
        it was read, or its store put back.
        """
        url, manager_id, name = key

        def settle() -> QueueReached:
            queue = self._managers.raw_queue(url, name)
            check_still(queue, QueueBirth(manager_id, name, reached.born), reached.receipt)
            settled = self._settle(queue, url, reached)
            if settled.progress.beyond:
                self._settle_beyond(queue, settled)
            return settled

        return patiently(settle)

    def set_aside(self, key: QueueKey, sequence_id: str) -> str:
        """Have what only a newer program can read moved aside; say so, or "" if it is gone."""
        url, _, name = key
        return patiently(
            lambda: self._set_aside(
                self._managers.at(url), self._managers.raw_queue(url, name), sequence_id
            )
        )

    def _set_aside(self, manager: Manager, queue: Queue, sequence_id: str) -> str:
        transaction = manager.transaction()
        try:
            opened_in(queue, *take_large(queue, transaction, sequence_id), sequence_id)
        except Unreadable as unreadable:
            return str(unreadable.told(run(unreadable.set_aside())))
        except (MessageNotFound, QueueNotFound):
            # Moved when this was done before, or received by somebody who can read it.
            return ""
        finally:
            transaction.abort()
        return ""

    def _settle(self, queue: Queue, url: str, reached: QueueReached) -> QueueReached:
        for each in reached.small:
            queue.handle.call(partial(_settle_range, each, reached.born, plain=True), Done)
        if reached.holed:
            # A message removed by its sequence id has to be in the queue that was read, too.
            queue.settle(reached.progress.upto, born=reached.born)
        for sequence_id in reached.holed:
            self._reject(self._managers.at(url), queue, sequence_id)
        progress = reached.progress.advanced(lambda position: first_after(queue, position))
        if progress.upto:
            queue.settle(progress.upto, born=reached.born)
        return reached._replace(progress=progress, holed=())

    def _settle_beyond(self, queue: Queue, reached: QueueReached) -> None:
        """Settle ranges that landed behind something that did not, each once a run."""
        done = self._beyond.setdefault((queue.name, reached.born), set())
        beyond = set(reached.progress.beyond)
        for each in sorted(beyond - done):
            queue.handle.call(partial(_settle_range, each, reached.born), Done)
        self._beyond[queue.name, reached.born] = beyond

    def _reject(self, manager: Manager, queue: Queue, sequence_id: str) -> None:
        """Remove the parts of a holed large message: receiving it does that and tells the hole."""
        transaction = manager.transaction()
        try:
            take_large(queue, transaction, sequence_id)
        except (LargeMessageHole, MessageNotFound):
            # Told and removed now, or when this was done before.
            return
        finally:
            transaction.abort()

    def close(self) -> None:
        """Close the connections."""
        self._managers.close()


def take_large(
    queue: Queue, transaction: Transaction, sequence_id: str
) -> tuple[Connection, Frame]:
    """Receive a large message in a transaction."""
    connection, number = transaction.join()
    return queue.handle.call(
        lambda at: LargeReceive(at, number, 0.0, SelectBySequence(sequence_id)),
        LargeFound,
        wait_s=ANSWER_GRACE_S,
        connection=connection,
    )


def _settle_range(positions: Range, born: int, queue: int, *, plain: bool = False) -> Settle:
    first, last = positions
    return Settle(queue, last, 0, born, first - 1, plain)
