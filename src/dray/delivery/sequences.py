"""Sequence ids: what tells one sequence of a stream from every other, for ever (R38).

     63                            32 31 30                             0
    +--------------------------------+--+--------------------------------+
    | seconds since the epoch        |R | 0, 1, 2... within the second   |
    +--------------------------------+--+--------------------------------+

A sequence begins in one of two ways, and R says which.

    R  begins when                                     numbers of its messages
    0  nothing was unacknowledged any more             from 1: lookup id less the sequence's base
    1  the source's store proved to be an older copy   lookup ids

The seconds stop 12 days before their 32 bits end, in January 2106, and sequences are counted from
there on: a clock that shows a later year makes no id that has no place in a frame.

So a store that meets the id of a sequence it does not know, because it is an older copy, knows what
that sequence proves: with 0 that everything before it was accepted, with 1 that everything up to
the number was.
"""

from __future__ import annotations

from typing import Final

RENEWED: Final = 1 << 31
_SECONDS_SHIFT: Final = 32
_SECONDS_MAX: Final = (1 << 32) - (1 << 20)
"""The last second in an id; a million seconds are left for the ids that are counted from there."""
_ID_OF_CLOCK_MAX: Final = (_SECONDS_MAX + 1 << _SECONDS_SHIFT) - 1


def next_sequence_id(previous: int, seconds: int) -> int:
    """The id of a sequence that begins because all of the one before was acknowledged."""
    lowest = previous + 1
    if lowest & RENEWED:
        lowest = ((lowest >> _SECONDS_SHIFT) + 1) << _SECONDS_SHIFT
    return max(lowest, min(seconds, _SECONDS_MAX) << _SECONDS_SHIFT)


def renewed_sequence_id(own: int, peers: int, seconds: int) -> int:
    """The id of a sequence that goes on after a judgement, above all that was ever used."""
    return max(own + 1, peers + 1, min(seconds, _SECONDS_MAX) << _SECONDS_SHIFT) | RENEWED


def may_be_known(sequence_id: int, own: int) -> bool:
    """Whether a peer can know a sequence of a stream whose present sequence has the id `own`.

    An older copy of a store does not know all of its ids, but each was made of a time of day.
    Another id is an invention, and there might be none above it.
    """
    return 0 <= sequence_id <= max(own, _ID_OF_CLOCK_MAX)


def numbers_are_lookup_ids(sequence_id: int) -> bool:
    """Whether a sequence was renewed, so that the numbers of its messages are lookup ids."""
    return bool(sequence_id & RENEWED)
