"""The files of a watched folder that have arrived, by the acknowledgments of their messages.

The acknowledgments come to a queue of their own, whose name is in the ledger. They leave it only
after the ledger has noted them, so no kill loses one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.client.awaited.deliveries import Arrival, check_parts, has_arrived, refusal_of
from dray.client.awaited.manager import Manager
from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.client.connections.link import Link
from dray.client.connections.threads import run
from dray.errors import DeliveryRefused, ReceiveTimeout
from dray.folders.ledger import FolderLedger
from dray.folders.tree import LeftOut
from dray.model.classes import Acknowledge
from dray.model.ids import split_id
from dray.model.message import Message

_AT_ONCE: Final = 1_000
ACKNOWLEDGE: Final = {
    "accepted": Acknowledge.FULL_REACH_QUEUE,
    "received": Acknowledge.FULL_RECEIVE,
}


class FolderArrivals:
    """Takes the acknowledgments of the files in one ledger."""

    def __init__(self, link: Link, ledger: FolderLedger, until: Arrival) -> None:
        """Wait for what `until` says; nothing is asked yet."""
        self._link = link
        self._ledger = ledger
        self._until = until
        self._queue: Queue | None = None

    def take(self) -> Iterator[LeftOut]:
        """Note what has come; give the files that were refused, which stay in their folder.

        The first call makes the queue for acknowledgments, unless it is there.
        """
        if self._queue is None:
            name = self._ledger.arrivals
            run(Manager(self._link).create_queue(name, label=_LABEL, exist_ok=True))
            self._queue = Queue(self._link, name)
        while self._ledger.awaits():
            transaction = run(Transaction.begin(self._link))
            self._ledger.check_manager(split_id(transaction.id)[0])
            try:
                told = run(self._queue.receive_many(_AT_ONCE, timeout=0, transaction=transaction))
                arrived, refused = self._read(told)
                stay = self._ledger.note_arrivals(arrived, refused)
            except ReceiveTimeout:
                run(transaction.abort())
                return
            except BaseException:
                run(transaction.abort())
                raise
            run(transaction.commit())
            for id, path in stay.items():
                yield LeftOut(path, f"it was sent and stays in its folder: {refused[id]}")

    def _read(self, told: list[Message]) -> tuple[list[str], dict[str, DeliveryRefused]]:
        """Tell the messages that have arrived from those that were refused."""
        arrived: dict[str, None] = {}
        refused: dict[str, DeliveryRefused] = {}
        for each in told:
            id = str(each.correlation_id)
            has = has_arrived(each, self._until)
            if has:
                arrived[id] = None
            elif has is False:
                refused[id] = refusal_of(id, each.message_class)
        while True:
            try:
                run(check_parts(self._link, arrived))
            except DeliveryRefused as error:
                refused[error.id] = error
                del arrived[error.id]
            else:
                return [each for each in arrived if each not in refused], refused


_LABEL: Final = "acknowledgments for `dray watch --wait`"
