"""Lent files whose frames are not whole yet, on all connections of a daemon.

A descriptor comes with the first byte of its frame, and the frame may never be whole. So its
connection has a few seconds; when too many such files are open, the oldest goes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.daemon.limits import CLAIM_S, FILES_UNCLAIMED_MAX

GiveUp = Callable[[str], None]
"""Ends the connection that has lent a file, for a reason; it stands for that connection."""


class UnclaimedFiles:
    """One for each daemon; driven in its loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.since: dict[GiveUp, asyncio.TimerHandle] = {}
        """Connections that have lent a file whose frame is not whole."""

    def came(self, lender: GiveUp) -> None:
        """Note that a connection has lent a file before its frame."""
        if lender in self.since:
            return
        self.since[lender] = self._loop.call_later(CLAIM_S, self._too_late, lender)
        if len(self.since) > FILES_UNCLAIMED_MAX:
            oldest = next(iter(self.since))
            self.claimed(oldest)
            oldest(f"more than {FILES_UNCLAIMED_MAX} files came before their frames")

    def claimed(self, lender: GiveUp) -> None:
        """Note that the frame is whole, or that the connection has ended."""
        timer = self.since.pop(lender, None)
        if timer is not None:
            timer.cancel()

    def _too_late(self, lender: GiveUp) -> None:
        del self.since[lender]
        lender(f"a file came and its frame did not within {CLAIM_S:.0f} s")
