"""Requests of landing and source to queue managers, made as an ordinary client.

Everything here only looks, except `ManagerSettler`, which takes from a queue what is durably
landed. A manager that is being restarted is waited for, for as long as `PATIENCE_S`; a connection
that breaks in the middle of a payload ends the task, and Spark tries the task again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from dray.client.awaited.fragments import Origin
from dray.client.awaited.large_message import open_found
from dray.client.awaited.unreadable import Unreadable
from dray.client.blocking.large_message import LargeMessage
from dray.client.blocking.manager import Manager, connect
from dray.client.calls.requests import ANSWER_GRACE_S
from dray.client.connections.threads import BlockingRuntime, run
from dray.errors import ConnectionLost, LargeMessageHole, MessageNotFound
from dray.model.ids import ManagerId, join_id
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.spark.options import CLAIM_TIMEOUT_S
from dray.spark.positions import Range, ranges_of
from dray.spark.ranges import first_after, first_message, is_there
from dray.spark.schema import TAKEN
from dray.wire.frames import (
    LargeEntry,
    LargeFound,
    LargeList,
    LargeListed,
    LargeReceive,
    SelectBySequence,
)

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue
    from dray.client.blocking.transaction import Transaction
    from dray.client.connections.connection import Connection
    from dray.spark.batch import QueueKey
    from dray.spark.offsets import QueuePlace
    from dray.spark.payload import PayloadTarget
    from dray.spark.table import QueueReached
    from dray.wire.stream import Frame

IsLanded = Callable[[list[str]], list[bool]]
"""Says of each sequence id whether its row is in the table."""
PATIENCE_S = 30.0
"""Longer than a manager takes to recover; shorter than a person waits without being told."""
_PAUSE_S = 0.3
_Result = TypeVar("_Result")


def patiently(call: Callable[[], _Result]) -> _Result:
    """Call until a connection holds; raises `ConnectionLost` when patience is at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except ConnectionLost:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


class Managers:
    """Connections to managers, made when first needed and shared by one task or one planner."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_url: dict[str, Manager] = {}

    def at(self, url: str) -> Manager:
        """The manager at a URL."""
        if url not in self._by_url:
            self._by_url[url] = patiently(lambda: connect(url))
        return self._by_url[url]

    def raw_queue(self, url: str, queue: str) -> Queue:
        """A handle that sees single messages, also in a queue in large use."""
        return self.at(url).queue(queue, raw=True)

    def close(self) -> None:
        """Close all; they are made anew when needed again."""
        while self._by_url:
            self._by_url.popitem()[1].close()


def large_pages(queue: Queue, after: int) -> Iterator[list[LargeEntry]]:
    """Large messages that are whole or surely holed and begin behind a position, in order.

    Also those that a transaction holds. A page is as many as one answer lists.
    """
    while entries := _list_large(queue, after):
        yield entries
        if len(entries) < BATCH_MESSAGES_MAX:
            return
        after = entries[-1].first_lookup_id


def _list_large(queue: Queue, after: int) -> list[LargeEntry]:
    _, frame = queue.handle.call(
        lambda number: LargeList(number, after, BATCH_MESSAGES_MAX, held=True),
        LargeListed,
        wait_s=ANSWER_GRACE_S,
    )
    assert isinstance(frame.head, LargeListed)
    return frame.head.entries


def sequence_id_of(entry: LargeEntry) -> str:
    """The sequence id of a listed large message."""
    return join_id(ManagerId(entry.source), entry.sequence)


def describe_large(place: QueuePlace, queue: Queue, entry: LargeEntry) -> dict[str, Any]:
    """One row of `schema.LARGE`. Raises `MessageNotFound` if it is no longer there."""
    row = _row(place, entry, queue.name)
    if entry.missing:
        return row | _describe_holed(queue, entry)
    try:
        return row | _describe_whole(queue, entry)
    except Unreadable:
        return row | _describe_unreadable(entry)


def _row(place: QueuePlace, entry: LargeEntry, queue: str) -> dict[str, Any]:
    """The columns that are known of every large message that was listed."""
    return {
        "manager": place.url,
        "manager_id": place.manager_id,
        "queue": queue,
        "queue_born": place.born,
        "first_lookup_id": entry.first_lookup_id,
        "last_lookup_id": entry.last_lookup_id,
        "sequence_id": sequence_id_of(entry),
        "fragment_count": entry.fragment_count,
        "missing": [missing_as_text(each) for each in entry.missing],
    }


def _describe_whole(queue: Queue, entry: LargeEntry) -> dict[str, Any]:
    message, ranges = _look_at(queue, sequence_id_of(entry))
    return {
        "lookup_ranges": ranges,
        "label": message.label,
        "size": message.size,
        "digest": message.digest.hex(),
        "digest_kind": message.digest_kind,
        "fragments_present": message.fragment_count,
        "app_specific": message.app_specific,
        "correlation_id": message.correlation_id,
        "transaction_id": message.transaction_id,
        "source": message.source,
        "sent_time": time_of(message.sent_time),
        "arrived_time": time_of(message.arrived_time),
    }


def _describe_holed(queue: Queue, entry: LargeEntry) -> dict[str, Any]:
    """The properties in the first available part; the label only if that is the header."""
    first = first_message(queue, entry.first_lookup_id - 1)
    if first is None or first.lookup_id != entry.first_lookup_id:
        raise MessageNotFound(
            f"large message {sequence_id_of(entry)} left queue {queue.name!r} while it was read"
        )
    has_header = "header" not in entry.missing
    lost = sum(each[1] - each[0] + 1 for each in entry.missing if not isinstance(each, str))
    return {
        "lookup_ranges": [],
        "label": first.label if has_header else "",
        "size": entry.size,
        "digest": None,
        "digest_kind": None,
        "fragments_present": max(0, entry.fragment_count - lost),
        "app_specific": None,
        "correlation_id": first.correlation_id if has_header else None,
        "transaction_id": first.transaction_id,
        "source": first.source,
        "sent_time": time_of(first.sent_time),
        "arrived_time": time_of(first.arrived_time),
    }


def describe_taken(place: QueuePlace, entry: LargeEntry) -> dict[str, Any]:
    """The row of a large message that somebody took while it was read."""
    row = _row(place, entry, place.queue) | _describe_unreadable(entry)
    return row | {"fragments_present": 0, "missing": [TAKEN]}


def _describe_unreadable(entry: LargeEntry) -> dict[str, Any]:
    """The row of a message that only a newer program can read: nothing from its sender."""
    return {
        "lookup_ranges": [],
        "label": "",
        "size": entry.size,
        "digest": None,
        "digest_kind": None,
        "fragments_present": entry.fragment_count,
        "app_specific": None,
        "correlation_id": None,
        "transaction_id": None,
        "source": entry.source,
        "sent_time": None,
        "arrived_time": None,
    }


def missing_as_text(missing: Any) -> str:
    """One missing part, or range of fragments, as the table has it."""
    if isinstance(missing, str):
        return missing
    first, last = missing
    return str(first) if first == last else f"{first}-{last}"


def time_of(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as a point in time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _look_at(queue: Queue, sequence_id: str) -> tuple[LargeMessage, list[Range]]:
    """A large message to be read without taking it, and the positions of its parts.

    Raises `Unreadable`.
    """
    connection, frame = queue.handle.call(
        lambda number: LargeReceive(number, 0, 0.0, SelectBySequence(sequence_id), peek=True),
        LargeFound,
        wait_s=ANSWER_GRACE_S,
    )
    message, found = _opened(queue, connection, frame, sequence_id)
    ends = [found.header.lookup_id, *([found.trailer.lookup_id] if found.trailer else [])]
    return message, ranges_of([*ends, *(part.lookup_id for part in found.parts)])


def _opened(
    queue: Queue, connection: Connection, frame: Frame, sequence_id: str
) -> tuple[LargeMessage, LargeFound]:
    found = frame.head
    assert isinstance(found, LargeFound)
    number = queue.handle.opened(connection).number
    origin = Origin(BlockingRuntime(), connection, number, queue.name, sequence_id)
    return LargeMessage(open_found(origin, found, frame.body)), found


class ManagerPuller:
    """Reads payloads from their managers, fragment by fragment, at constant memory."""

    def __init__(self, claim_timeout_s: float = CLAIM_TIMEOUT_S) -> None:
        """Begin without a connection; warn of claims that last longer than the time given."""
        self._managers = Managers()
        self._claim_timeout_s = claim_timeout_s

    def pull(self, row: dict[str, Any], target: PayloadTarget) -> str:
        """Write the whole payload; every record's CRC32C and the digest are checked on the way."""
        queue = self._managers.raw_queue(row["manager"], row["queue"])
        try:
            message, _ = _look_at(queue, row["sequence_id"])
        except Unreadable as unreadable:
            raise unreadable.told("it stays in the queue") from unreadable
        for piece in message:
            target.write(piece)
        return message.digest.hex()

    def comes_back(self, row: dict[str, Any]) -> bool:
        """Wait while a transaction holds what was not found; whether it may be there again."""
        queue = self._managers.raw_queue(row["manager"], row["queue"])
        return is_there(queue, row["first_lookup_id"], self._claim_timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._managers.close()


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
            _opened(queue, *_take(queue, transaction, sequence_id), sequence_id)
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
                _take(queue, transaction, sequence_id)
            except (LargeMessageHole, MessageNotFound):
                # A hole is told and removed elsewhere; or another receiver has it.
                transaction.abort()

    def _reject(self, manager: Manager, queue: Queue, sequence_id: str) -> None:
        """Remove the parts of a holed large message: receiving it does that and tells the hole."""
        transaction = manager.transaction()
        try:
            _take(queue, transaction, sequence_id)
        except (LargeMessageHole, MessageNotFound):
            # Told and removed now, or when this was done before.
            return
        finally:
            transaction.abort()

    def close(self) -> None:
        """Close the connections."""
        self._managers.close()


def _take(queue: Queue, transaction: Transaction, sequence_id: str) -> tuple[Connection, Frame]:
    """Receive a large message in a transaction."""
    connection, number = transaction.join()
    return queue.handle.call(
        lambda at: LargeReceive(at, number, 0.0, SelectBySequence(sequence_id)),
        LargeFound,
        wait_s=ANSWER_GRACE_S,
        connection=connection,
    )
