"""Pulls payloads of large messages from their managers, on an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dray.client.awaited.large_message import checked_pieces, save_into, verified_pieces
from dray.client.awaited.unreadable import Unreadable
from dray.client.connections.threads import iterate, run
from dray.errors import QueueNotFound
from dray.spark.managers import Managers
from dray.spark.source.large import look_at
from dray.spark.source.offsets import QueuePlace
from dray.spark.source.options import CLAIM_TIMEOUT_S
from dray.spark.source.ranges import is_there, pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dray.client.blocking.large_message import LargeMessage
    from dray.spark.landing.payload import PayloadTarget
    from dray.spark.landing.pieces import Piece, PieceTarget


class ManagerPuller:
    """Reads payloads from their managers, fragment by fragment, at constant memory.

    It goes to the executors pickled, and is used by one task.
    """

    def __init__(self, credentials: str | None = None) -> None:
        """Begin without a connection; `credentials` is the file of `read_credentials`."""
        self._managers = Managers(credentials)

    def pull(self, row: dict[str, Any], target: PayloadTarget) -> str:
        """Write the whole payload; every record's CRC32C and the digest are checked on the way."""
        message = self._look_at(row)
        if target.partial is not None:
            # A queue manager of this machine copies into the file by itself.
            run(save_into(message.awaited, target.partial))
            return message.digest.hex()
        for piece in iterate(verified_pieces(message.awaited)):
            target.write(piece)
        return message.digest.hex()

    def pull_piece(self, row: dict[str, Any], piece: Piece, target: PieceTarget) -> None:
        """Write one piece of a payload; every record's CRC32C is checked on the way."""
        message = self._look_at(row)
        first, last = piece.of(message.fragment_count)
        for offset, fragment in iterate(checked_pieces(message.awaited, first, last)):
            target.write_at(offset, fragment)

    def _look_at(self, row: dict[str, Any]) -> LargeMessage:
        queue = self._managers.raw_queue(row["manager"], row["queue"])
        try:
            return look_at(queue, row["sequence_id"])[0]
        except Unreadable as unreadable:
            raise unreadable.told("it stays in the queue") from unreadable

    def messages(self, row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The small messages of a range with bodies; none if their queue is gone or another one."""
        place = QueuePlace(row["manager"], row["manager_id"], row["queue"], row["queue_born"])
        after, upto = row["first_lookup_id"] - 1, row["last_lookup_id"]
        queue = self._managers.raw_queue(place.url, place.queue)
        try:
            for page in pages(queue, after, upto, bodies=True, plain=True):
                if page.born != place.born or not page.messages:
                    return
                yield page.messages.batch(place)
        except QueueNotFound:
            # Its messages went with it, as those that somebody took.
            return

    def comes_back(self, row: dict[str, Any]) -> bool:
        """Wait while a transaction holds what was not found; whether it may be there again."""
        queue = self._managers.raw_queue(row["manager"], row["queue"])
        try:
            return is_there(queue, row["first_lookup_id"], CLAIM_TIMEOUT_S)
        except QueueNotFound:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._managers.close()
