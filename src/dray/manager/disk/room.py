"""Room on the disk and in the log: what new messages may take, and what one turn may say.

New messages leave some of the disk free, and what large ones have been promised:

    free on the disk, and heap files ready to be written again
    - promised to large messages that have begun     what their remaining parts will take of files
    - the low-water mark                             the log, checkpoints, queues' files
    = what a new message may take

A message takes no part of a file that another record has, so parts of 2.5 MB take 4 MiB each: what
is promised is counted in whole heap files. Nobody can promise room that other programs may take.

One fact, and one turn, says only so much that a group of the log holds it; and a turn lets only so
many messages leave that it is short.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.errors import StoreFull
from dray.manager.entries import TAIL_BYTES
from dray.model.limits import LEAVING_A_TURN
from dray.model.places import Amounts
from dray.store.store import Store

_PORTIONS = 4
"""A group has room for what waits, a portion, and what else its turn may have to say."""
_WINDOWS = 5
"""A portion, less what the log keeps in reserve."""
_BESIDE_BYTES = 512
"""Bytes of a fact besides its messages, and of a turn besides the fact."""


def window_of(log_capacity: int) -> int:
    """The most messages under way on a stream for which one fact can say that they are delivered.

    So is the order ack of a whole window noted at once, whatever is to be kept of each message.
    """
    return max(1, log_capacity // _WINDOWS // TAIL_BYTES)


class Promise(NamedTuple):
    """Bytes that are still to be placed, in records of at most `longest`; 0 if nobody said."""

    size: int
    longest: int = 0


class RoomLeft:
    """The part of the disk and of the log that may still be used. Sizes in bytes; volatile."""

    def __init__(self, store: Store, low_water: int) -> None:
        self.low_water = low_water
        self.was_refused = False
        """Whether something was refused since `take_refusal`."""
        self.wanted = 0
        """Bytes that the disk had no room for, while no look has found room since; 0 if it has."""
        self.departed = 0
        """Messages that were chosen in this turn to leave their queues, as `LEAVING_A_TURN`."""
        self._store = store
        self._promised = 0
        self.promised_to: Amounts[str] = Amounts()
        """Bytes of promises, by the place of the caller that each was made to."""

    def take_refusal(self) -> bool:
        """Whether something was refused since the last call."""
        refused, self.was_refused = self.was_refused, False
        return refused

    def has_room_again(self) -> bool:
        """Look whether there is room for what was refused; then nothing is refused any more."""
        if not self.has(self.wanted):
            return False
        self.wanted = 0
        return True

    @property
    def free(self) -> int:
        """Free bytes that nobody was promised; below zero if others took them meanwhile."""
        return self._store.free_bytes() - self._promised

    def has(self, requested: int) -> bool:
        """Whether so many bytes more would leave the low-water mark."""
        wanted = requested + self.low_water
        # Only where the last look would refuse them another one is worth a call to the kernel.
        lately_free = self._store.free_bytes(anew=False) - self._promised
        return lately_free >= wanted or self.free >= wanted

    def check(self, requested: int, *, fact_bytes: int) -> None:
        """Raise `StoreFull` if so many bytes more would not leave the low-water mark.

        Or if the next checkpoint would find no room, with so much more of facts.
        """
        if not self.has(requested):
            free = self.free
            self._refuse(requested)
            raise StoreFull(
                f"only {max(0, free)} bytes are free on the disk of the data directory and"
                f" {self.low_water} must stay free: {requested} more were refused; free some space"
                " or receive messages",
                file="",
            )
        try:
            self._store.have_checkpoint_room(fact_bytes)
        except StoreFull as error:
            self._refuse(requested)
            sentence = (
                "the disk of the data directory has no room left for the next checkpoint, which new"
                " messages would make longer; free some space or receive messages"
            )
            raise StoreFull(sentence, file="MQTrans") from error

    def _refuse(self, requested: int) -> None:
        self.was_refused = True
        self.wanted = max(1, requested)

    def free_for(self, refused: int) -> int:
        """The bytes that must be `free` before a refused one has a chance: with a heap file more.

        A caller that was refused although so much is free wants another kind of file.
        """
        file_bytes = self._store.heap_file_bytes
        wanted = self.low_water + refused + file_bytes
        free = self.free
        return wanted if free < wanted else free + file_bytes

    def footprint(self, promise: Promise) -> int:
        """The bytes of the disk that the records of a promise take."""
        if not promise.longest:
            return promise.size
        file_bytes = self._store.heap_file_bytes
        used_of_file = file_bytes // promise.longest * promise.longest
        if promise.size <= used_of_file:
            return promise.size
        return -(-promise.size // used_of_file) * file_bytes

    def change(self, before: Promise, after: Promise, place: str) -> None:
        """A promise to a caller has become another one."""
        self._promised += self.footprint(after) - self.footprint(before)
        self.promised_to.add(place, after.size - before.size)

    @property
    def fact_bytes_max(self) -> int:
        """The bytes that one fact may take, so that a group of the log surely holds it.

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
        """Whether so much waits for the next group of the log that more is said later.

        Or so many messages have left in this turn that others are served first.
        """
        if self.departed >= LEAVING_A_TURN:
            return True
        return self._store.waiting_bytes >= self.portion_bytes
