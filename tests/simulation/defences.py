"""Outgoing streams without one of the defences against copies of their own store."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import ceil

from dray.delivery.judgement import Judgement, Standing
from dray.delivery.outgoing import OutgoingStream
from dray.testing.promises import BrokenPromiseError


def enough_notice(run: Callable[[int], object], worlds: int, least: float) -> bool:
    """Whether so many of the first worlds break a promise; those behind them are not run."""
    enough = max(1, ceil(least))
    found = (seed for seed in range(worlds) if _breaks(run, seed))
    return len(list(islice(found, enough))) == enough


def _breaks(run: Callable[[int], object], seed: int) -> bool:
    try:
        run(seed)
    except BrokenPromiseError:
        return True
    return False


class TrustsEveryPosition(OutgoingStream):
    """Takes every position of the peer for an order ack, as if no store were ever a copy."""

    def _verdict(self, _peer):
        return Judgement(Standing.FITS)


class TrustsWhatIsKnown(OutgoingStream):
    """Takes every position up to a known one for its own, also if another copy has reached it."""

    def _verdict(self, peer):
        known = (peer.sequence_id, peer.upto) <= max(self.heard, self.judged[:2])
        return Judgement(Standing.FITS) if known else super()._verdict(peer)


class MarksNoIncarnation(OutgoingStream):
    """Does not know how far it had come when an incarnation began."""

    def incarnation_began(self, _incarnation):
        pass


class SendsTheWholeCopy(OutgoingStream):
    """Sends everything again that an older copy holds."""

    def _verdict(self, peer):
        return super()._verdict(peer)._replace(delivered=0)


class CountsNewMessagesAsOld(OutgoingStream):
    """Does not know where an older copy ended."""

    def _verdict(self, peer):
        return super()._verdict(peer)._replace(delivered=self.last)


class HealsUnsaid(OutgoingStream):
    """Takes an incarnation that it cannot place for an earlier one of its own."""

    def _verdict(self, peer):
        found = super()._verdict(peer)
        return Judgement(Standing.FITS) if found.standing is Standing.DIVERGED else found
