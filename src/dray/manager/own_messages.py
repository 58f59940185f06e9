"""Messages that the manager itself sends, with numbers leased to itself."""

from __future__ import annotations

from collections.abc import Callable

import crc32c

from dray.manager.facts import Fact, NumbersLeased
from dray.manager.state import State
from dray.model.limits import NUMBERS_LEASED
from dray.model.message import Message
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind
from dray.store.store import Store
from dray.wire.record import encode_record


class OwnMessages:
    """Makes the messages that the manager itself sends, with numbers leased to itself."""

    def __init__(self, state: State, store: Store, record: Callable[[Fact], None]) -> None:
        """Lease nothing before the first message; `record` makes a lease durable."""
        self.source = bytes.fromhex(state.manager_id)
        """The manager's id, as its messages bear it."""
        self._state = state
        self._store = store
        self._record = record
        self._next = self._end = 0

    def number(self) -> int:
        """A message number nobody else has."""
        if self._next == self._end:
            self._next = self._state.next_number
            self._end = self._next + NUMBERS_LEASED
            self._record(NumbersLeased(self._end))
        self._next += 1
        return self._next - 1

    def place(self, message: Message, kind: Kind = Kind.RECOVERABLE) -> tuple[Extent, int, int]:
        """Write a message into the heap; gives place, CRC32C and number."""
        number = self.number()
        head, body = encode_record(message, self.source, number)
        record = head + bytes(body)
        return self._store.place(record, kind), crc32c.crc32c(record), number
