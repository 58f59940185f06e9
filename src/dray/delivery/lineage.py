"""The past of a store: its incarnations in order, and where the pasts of two copies part.

Every start of a queue manager over its store begins an *incarnation*, durably, before it says a
word. An incarnation's number is the ordinal of the start above a random half, so two copies of one
store that are both started have different incarnations from then on. Beside the number stands how
many facts the store held when the incarnation began: its age.

    ours  1  2  3  5          the incarnations of this store
    met   1  2  3  4          the incarnations of the store that the peer last took messages from
                ^ the last incarnation that both know: there one of them was copied

A peer remembers, for each stream, in which incarnation of the source it accepted the last message.
From that the source computes `Past.unsent_since`: its first incarnation of which the peer can have
nothing. Everything that joined the stream after that incarnation began is certain to be new to the
peer. Where nothing is certain the answer is None, and a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dray.model.ids import Incarnation

INCARNATIONS_KEPT: Final = 64
"""Incarnations a manager and its peers remember of one store: a Hello stays below 2 KiB."""
COPIES_KEPT: Final = 8
"""Copies of one store whose incarnations a destination remembers."""
_RANDOM_BITS: Final = 32


def next_incarnation(incarnations: Sequence[Incarnation], drawn: int, age: int) -> Incarnation:
    """The incarnation that begins now; `drawn` is random, so that a copy begins another one."""
    ordinal = max((each.number >> _RANDOM_BITS for each in incarnations), default=0) + 1
    return Incarnation(ordinal << _RANDOM_BITS | drawn % (1 << _RANDOM_BITS), age)


def began_before(number: int, incarnation: Incarnation) -> bool:
    """Whether an incarnation, by its number, is of an earlier start than another one."""
    return number >> _RANDOM_BITS < incarnation.number >> _RANDOM_BITS


def met_with(
    copies: Sequence[list[Incarnation]], incarnations: list[Incarnation]
) -> list[list[Incarnation]]:
    """The copies of one store that a destination has met, with one that sends in a new incarnation.

    A copy from which that incarnation descends is no other copy.
    """
    numbers = {each.number for each in incarnations}
    others = [each for each in copies if each[-1].number not in numbers]
    return [*others, incarnations][-COPIES_KEPT:]


def lineage_of(
    copies: Sequence[list[Incarnation]], incarnation: int, ours: Sequence[Incarnation] = ()
) -> list[Incarnation]:
    """The incarnations of the copy that had a given one; empty if none of them had it.

    Also empty if a further copy had an incarnation of `ours` after that copy parted from
    them: it may have sent what is sent again now, so nothing is certain.
    """
    found = (
        each for each in reversed(copies) if any(incarnation == known.number for known in each)
    )
    lineage = next(found, [])
    since = {each.number for each in ours} - {each.number for each in lineage}
    further = {known.number for each in copies for known in each}
    return [] if since & further else lineage


class Past(NamedTuple):
    """The past of a source, and of the copy that its peer took messages from."""

    ours: Sequence[Incarnation] = ()
    sent_in: int = 0
    """The last incarnation of ours in which we sent the peer anything."""
    met: Sequence[Incarnation] = ()
    """The incarnations of that copy, where it had others than we."""

    def sent(self) -> Past:
        """The same, and the present incarnation has sent the peer something."""
        return self._replace(sent_in=self.ours[-1].number) if self.ours else self

    def includes(self, incarnation: int) -> bool:
        """Whether an incarnation is one of ours; 0 is nobody's, and no other copy's either."""
        return not incarnation or any(each.number == incarnation for each in self.ours)

    def unsent_since(self, accepted_in: int) -> int | None:
        """Our first incarnation of which a peer has nothing; it has a message of `accepted_in`.

        0 if that is our present incarnation. None if it cannot be known: then the peer may have
        taken messages from a copy of this store, and nothing it says may count as an order ack.
        """
        numbers = [each.number for each in self.ours]
        if not accepted_in:
            return numbers[0] if numbers else 0
        if accepted_in in numbers:
            return next(iter(numbers[numbers.index(accepted_in) + 1 :]), 0)
        return self._after_the_fork(accepted_in)

    def parted_from(self, accepted_in: int) -> Incarnation | None:
        """Our first incarnation after we parted from the copy that had `accepted_in`, or None.

        Messages that joined a stream here since that incarnation began are in no queue of that
        copy.
        """
        common = self._common_with(accepted_in)
        return next((each for each in self.ours if common and each.number > common), None)

    def _after_the_fork(self, accepted_in: int) -> int | None:
        """The answer if the peer's last message came from an incarnation that is none of ours.

        The peer has all of our past only if the other copy left our common past later than we did.
        """
        own = self.parted_from(accepted_in)
        if own is None or self.sent_in >= own.number:
            return None
        theirs = [each.number for each in self.met]
        other = self.met[theirs.index(self._common_with(accepted_in)) + 1]
        return own.number if other.age >= own.age else None

    def _common_with(self, accepted_in: int) -> int:
        """The last incarnation that we share with the copy that had `accepted_in`; 0 if none."""
        theirs = [each.number for each in self.met]
        if accepted_in not in theirs:
            return 0
        ours = {each.number for each in self.ours}
        before = theirs[: theirs.index(accepted_in) + 1]
        return next((each for each in reversed(before) if each in ours), 0)
