"""Which past a store has: its lives in order, and where the pasts of two copies part.

Every start of a queue manager over its store begins a *life*, durably, before it says a word. A
life's number is the ordinal of the start above a random half, so two copies of one store that are
both started have different lives from then on. Beside the number stands how many facts the store
held when the life began: its age.

    ours  1  2  3  5          the lives of this store
    met   1  2  3  4          the lives of the store that the peer last took messages from
                ^ the last life that both know: there one of them was copied

A peer remembers, for each stream, in which life of the source it accepted the last message. From
that the source computes `Past.unsent_since`: its first life of which the peer can have nothing.
Everything that joined the stream after that life began is certain to be new to the peer. Where
nothing is certain the answer is None, and a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dray.model.ids import Life

LIVES_KEPT: Final = 64
"""Lives a manager and its peers remember of one store: a Hello stays below 2 KiB."""
COPIES_KEPT: Final = 8
"""Copies of one store whose lives a destination remembers."""
_RANDOM_BITS: Final = 32


def next_life(lives: Sequence[Life], drawn: int, age: int) -> Life:
    """The life that begins now; `drawn` is random, so that no copy of the store begins the same."""
    ordinal = max((each.number >> _RANDOM_BITS for each in lives), default=0) + 1
    return Life(ordinal << _RANDOM_BITS | drawn % (1 << _RANDOM_BITS), age)


def met_with(copies: Sequence[list[Life]], lives: list[Life]) -> list[list[Life]]:
    """The copies of one store that a destination has met, with one that sends in a new life.

    A copy from which that life descends is no other copy.
    """
    numbers = {each.number for each in lives}
    others = [each for each in copies if each[-1].number not in numbers]
    return [*others, lives][-COPIES_KEPT:]


def lineage_of(copies: Sequence[list[Life]], life: int, ours: Sequence[Life] = ()) -> list[Life]:
    """The lives of the copy that has lived a life; empty if none of them has.

    Also empty if a further copy has lived a life of `ours` after that copy parted from them: it may
    have sent what is sent again now, so nothing is certain.
    """
    found = (each for each in reversed(copies) if any(life == known.number for known in each))
    lineage = next(found, [])
    since = {each.number for each in ours} - {each.number for each in lineage}
    further = {known.number for each in copies for known in each}
    return [] if since & further else lineage


class Past(NamedTuple):
    """The past of a source, and of the copy that its peer took messages from."""

    ours: Sequence[Life] = ()
    sent_in: int = 0
    """The last life of ours in which we sent the peer anything."""
    met: Sequence[Life] = ()
    """The lives of that copy, where it has lived others than we."""

    def sent(self) -> Past:
        """The same, and the present life has sent the peer something."""
        return self._replace(sent_in=self.ours[-1].number) if self.ours else self

    def lived(self, life: int) -> bool:
        """Whether a life is one of ours; 0 is nobody's, and no other copy's either."""
        return not life or any(each.number == life for each in self.ours)

    def unsent_since(self, accepted_in: int) -> int | None:
        """The first life of ours of which a peer has nothing whose last message is of a life.

        0 if that is our present life. None if it cannot be known: then the peer may have taken
        messages from a copy of this store, and nothing it says may count as an order ack.
        """
        numbers = [each.number for each in self.ours]
        if not accepted_in:
            return numbers[0] if numbers else 0
        if accepted_in in numbers:
            return next(iter(numbers[numbers.index(accepted_in) + 1 :]), 0)
        return self._after_the_fork(accepted_in)

    def parted_from(self, accepted_in: int) -> Life | None:
        """Our first life after we parted from the copy that has lived a life; None if unknown.

        Messages that joined a stream here since that life began are in no queue of that copy.
        """
        common = self._common_with(accepted_in)
        return next((each for each in self.ours if common and each.number > common), None)

    def _after_the_fork(self, accepted_in: int) -> int | None:
        """The answer if the peer's last message came from a life that is none of ours.

        The peer has all of our past only if the other copy left our common past later than we did.
        """
        own = self.parted_from(accepted_in)
        if own is None or self.sent_in >= own.number:
            return None
        theirs = [each.number for each in self.met]
        other = self.met[theirs.index(self._common_with(accepted_in)) + 1]
        return own.number if other.age >= own.age else None

    def _common_with(self, accepted_in: int) -> int:
        """The last life that is ours and the copy's that has lived a life; 0 if there is none."""
        theirs = [each.number for each in self.met]
        if accepted_in not in theirs:
            return 0
        ours = {each.number for each in self.ours}
        before = theirs[: theirs.index(accepted_in) + 1]
        return next((each for each in reversed(before) if each in ours), 0)
