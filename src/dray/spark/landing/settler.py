"""Takes from queues what is durably landed, in the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.client.awaited.unreadable import Unreadable
from dray.client.calls.requests import ANSWER_GRACE_S
from dray.client.connections.threads import run
from dray.errors import LargeMessageHole, MessageNotFound
from dray.spark.managers import Managers, patiently
from dray.spark.source.large import large_pages, opened_in, sequence_id_of
from dray.spark.source.ranges import first_after
from dray.wire.frames import LargeFound, LargeReceive, SelectBySequence

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager
    from dray.client.blocking.queue import Queue
    from dray.client.blocking.transaction import Transaction
    from dray.client.connections.connection import Connection
    from dray.spark.landing.batch import QueueKey
    from dray.spark.landing.table import QueueReached
    from dray.wire.stream import Frame

IsLanded = Callable[[list[str]], list[bool]]
"""Says of each sequence id whether its row is in the table."""


class ManagerSettler:
    """Takes from queues what is durably landed. Doing it again changes nothing."""

    def __init__(self) -> None:
        """Begin without a connection."""
        self._managers = Managers()

    def settle(self, key: QueueKey, reached: QueueReached, landed: IsLanded) -> QueueReached:
        """Settle one queue as far as `reached` allows; give how far that is.

        Where a message that does not land stands before others, those that have landed are taken
        one by one. Raises `QueueRecreated`, and settles nothing, if the queue was made again since
        it was read.
        """
        url, _, name = key

        def settle() -> QueueReached:
            queue = self._managers.raw_queue(url, name)
            settled = self._settle(queue, url, reached)
            if settled.progress.beyond:
                self._take_landed(self._managers.at(url), queue, settled.progress.upto, landed)
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
        except MessageNotFound:
            # Moved when this was done before, or received by somebody who can read it.
            return ""
        finally:
            transaction.abort()
        return ""

    def _settle(self, queue: Queue, url: str, reached: QueueReached) -> QueueReached:
        if reached.holed:
            # What is removed by its sequence id has to be in the queue that was read, too.
            queue.settle(reached.progress.upto, born=reached.born)
        for sequence_id in reached.holed:
            self._reject(self._managers.at(url), queue, sequence_id)
        progress = reached.progress.advanced(lambda position: first_after(queue, position))
        if progress.upto:
            queue.settle(progress.upto, born=reached.born)
        return reached._replace(progress=progress, holed=())

    def _take_landed(self, manager: Manager, queue: Queue, after: int, landed: IsLanded) -> None:
        """Take every large message behind a position that has landed, each in a transaction."""
        for entries in large_pages(queue, after):
            ids = [sequence_id_of(each) for each in entries]
            for sequence_id, is_landed in zip(ids, landed(ids), strict=True):
                if is_landed:
                    self._take_one(manager, queue, sequence_id)

    def _take_one(self, manager: Manager, queue: Queue, sequence_id: str) -> None:
        with manager.transaction() as transaction:
            try:
                take_large(queue, transaction, sequence_id)
            except (LargeMessageHole, MessageNotFound):
                # A hole is told and removed elsewhere; or another receiver has it.
                transaction.abort()

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
