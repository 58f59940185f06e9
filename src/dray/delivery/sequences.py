"""Sequence ids: what tells one sequence of a stream from every other, for ever (R38).

     63                            32 31 30                             0
    +--------------------------------+--+--------------------------------+
    | seconds since the epoch        |R | 0, 1, 2... within the second   |
    +--------------------------------+--+--------------------------------+

A sequence begins in one of two ways, and R says which.

    R  begins when                                     numbers of its messages
    0  nothing was unacknowledged any more             from 1: lookup id less the sequence's base
    1  the source's store proved to be an older copy   lookup ids

So a store that meets the id of a sequence it does not know, because it is an older copy, knows what
that sequence proves: with 0 that everything before it was accepted, with 1 that everything up to
the number was.
"""

from __future__ import annotations

from typing import Final

RENEWED: Final = 1 << 31
_SECONDS_SHIFT: Final = 32


def next_sequence_id(previous: int, seconds: int) -> int:
    """The id of a sequence that begins because all of the one before was acknowledged."""
    lowest = previous + 1
    if lowest & RENEWED:
        lowest = ((lowest >> _SECONDS_SHIFT) + 1) << _SECONDS_SHIFT
    return max(lowest, seconds << _SECONDS_SHIFT)


def renewed_sequence_id(own: int, peers: int, seconds: int) -> int:
    """The id of a sequence that goes on after a judgement, above all that was ever used."""
    return max(own + 1, peers + 1, seconds << _SECONDS_SHIFT) | RENEWED


def numbers_are_lookup_ids(sequence_id: int) -> bool:
    """Whether a sequence was renewed, so that the numbers of its messages are lookup ids."""
    return bool(sequence_id & RENEWED)
