"""Whether a peer's position fits this store's past, decided before the position counts.

A store may be an old copy: put back, restored, cloned, or without its last commit. Then the peer
has numbers that new messages would get again, and its order ack would cover messages that it never
saw. The peer says in which incarnation of this store it accepted its position (`lineage.py`); the
stream keeps a mark of how far it had come when each incarnation began.

    the peer's position    the peer accepted it in    it
    not beyond the mark    an earlier incarnation     fits: it counts, the sequence goes on
    beyond the mark        an earlier incarnation     older copy: it has all up to the mark
    not beyond our last    the present incarnation    fits
    beyond our last        the present incarnation    diverged
    known already          that of then, or ours      fits
    known already          one of another copy        fits, if nothing that both hold waits
    any                    one of another copy        older copy, if the copy has all our past
                                                      of then; else diverged

The mark is that of the first incarnation of which the peer has nothing, so a message that joined
the stream since is certain to be new to the peer.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from dray.delivery.lineage import Past
from dray.delivery.sequences import numbers_are_lookup_ids


class IncarnationMark(NamedTuple):
    """The end of a stream when an incarnation of its store began. `last` is a lookup id."""

    incarnation: int
    last: int
    sequence_id: int
    base: int


class Standing(enum.Enum):
    """The relation of a peer's position to the past of this store."""

    FITS = enum.auto()
    OLDER_COPY = enum.auto()
    DIVERGED = enum.auto()


class Judgement(NamedTuple):
    """The relation, and the lookup id up to which an older copy is certain to be delivered."""

    standing: Standing
    delivered: int = 0


class PeerPosition(NamedTuple):
    """A peer's position: sequence id and number, and in which incarnation of ours it got there."""

    sequence_id: int
    number: int
    incarnation: int

    @property
    def at(self) -> tuple[int, int]:
        """Sequence id and number, by which positions are in order."""
        return self.sequence_id, self.number


NOWHERE = PeerPosition(0, 0, 0)


class KnownPositions(NamedTuple):
    """Positions that the peer has stated before, and what is acknowledged by them."""

    heard: tuple[int, int] = (0, 0)
    """The highest position that the peer has acknowledged."""
    judged: PeerPosition = NOWHERE
    """The position after which the present sequence was begun anew."""
    acknowledged: int = 0
    """The lookup id up to which everything is acknowledged."""


NOTHING = KnownPositions()
_FITS = Judgement(Standing.FITS)
_DIVERGED = Judgement(Standing.DIVERGED)


def judge(
    position: PeerPosition,
    past: Past,
    marks: Sequence[IncarnationMark],
    present: IncarnationMark,
    *,
    known: KnownPositions = NOTHING,
) -> Judgement:
    """Judge the position with which a peer answers when a stream is opened."""
    if _is_known(position, past, marks, known):
        return _FITS
    since = past.unsent_since(position.incarnation)
    if since is None:
        return _DIVERGED
    mark = _mark_of(since, marks) if since else present
    if position.at <= (mark.sequence_id, mark.last - mark.base):
        if past.includes(position.incarnation):
            return _FITS
        same = position.sequence_id == mark.sequence_id
        return Judgement(Standing.OLDER_COPY, mark.base + position.number if same else 0)
    if not since:
        return _DIVERGED
    # A sequence that the peer knows and the mark does not began when nothing of the stream was
    # unacknowledged; or it was renewed, and then its numbers are lookup ids.
    if numbers_are_lookup_ids(position.sequence_id):
        return Judgement(Standing.OLDER_COPY, min(position.number, mark.last))
    return Judgement(Standing.OLDER_COPY, mark.last)


def _is_known(
    position: PeerPosition, past: Past, marks: Sequence[IncarnationMark], known: KnownPositions
) -> bool:
    """Whether the peer has stated the position before, and has nothing that waits here.

    At or below a position that it reached in our incarnations the peer has accepted nothing since,
    or has forgotten it. A copy of this store may have sent it the same messages after it forgot
    them. That cannot be if all that the copy shares with us is acknowledged: the present sequence,
    in which all the rest goes, is above the position.
    """
    if past.includes(position.incarnation):
        return position.at <= max(known.heard, known.judged.at)
    if position.at > known.judged.at:
        return False
    if position.incarnation == known.judged.incarnation:
        return True
    own = past.parted_from(position.incarnation)
    return own is not None and _mark_of(own.number, marks).last <= known.acknowledged


def _mark_of(incarnation: int, marks: Sequence[IncarnationMark]) -> IncarnationMark:
    """The end of the stream when an incarnation began; nowhere if it had carried nothing."""
    earlier = [each for each in marks if each.incarnation <= incarnation]
    return earlier[-1] if earlier else IncarnationMark(incarnation, 0, 0, 0)
