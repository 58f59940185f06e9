"""Room in the log: how much one fact, and one turn, may say so that a group of the log holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.manager.queue.index import TAIL_BYTES

if TYPE_CHECKING:
    from dray.store.store import Store

_PORTIONS = 4
"""A group has room for what waits, a portion, and what else its turn may have to say."""
_WINDOWS = 5
"""A portion, less what the log keeps in reserve."""
_BESIDE_BYTES = 512
"""Bytes of a fact besides its messages, and of a turn besides the fact."""


def window_of(log_capacity: int) -> int:
    """How many messages may be under way on a stream, so that one fact can say they are delivered.

    So is the order ack of a whole window noted at once, whatever is to be kept of each message.
    """
    return max(1, log_capacity // _WINDOWS // TAIL_BYTES)


class LogRoom:
    """How much may be said before the next group of the log. Sizes in bytes."""

    def __init__(self, store: Store) -> None:
        """Ask `store`."""
        self._store = store

    @property
    def fact_bytes_max(self) -> int:
        """How many bytes one fact may take, so that a group of the log surely holds it.

        Besides what waits for that group already.
        """
        most = self._store.group_bytes_max
        return most - most // _PORTIONS - _BESIDE_BYTES

    @property
    def portion_bytes(self) -> int:
        """Bytes of one fact of those that could as well say less (`works.py`)."""
        return self._store.group_bytes_max // _PORTIONS

    @property
    def has_said_enough(self) -> bool:
        """Whether so much waits for the next group of the log that more is said later."""
        return self._store.waiting_bytes >= self.portion_bytes
