"""Notices in the daemon's log, its own and the manager's: at once, then at most one a minute.

So a queue that refuses a thousand messages a second costs one line a minute (`repeats`). If there
are very many subjects, the last ones share a line for each kind. Ends of messages are counted by
sentence, for the sentence says where the messages are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from dray.daemon.limits import NOTICE_S
from dray.daemon.repeats import Repeats
from dray.daemon.timekeeper import Timekeeper
from dray.manager.notices import BY_SENTENCE, EACH_ONCE, FOR_INFORMATION, OTHERS, Notice, NoticeKind

_log = logging.getLogger(__name__)


class NoticeLog:
    """Writes notices to the log."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Timekeeper) -> None:
        """Begin with nothing logged; `clock` tells the time, `loop` only calls again."""
        self._repeats: Repeats[Notice] = Repeats(loop, clock, _say)

    def say(self, kind: NoticeKind, subject: str, sentence: str) -> None:
        """Log what the daemon itself notices, or hold it back."""
        self.write([Notice(kind, subject, sentence)])

    def write(self, notices: Iterable[Notice]) -> None:
        """Log notices, or hold them back."""
        for notice in notices:
            if notice.kind in EACH_ONCE:
                _say(notice, notice.times, 0.0)
                continue
            sentence = notice.sentence if notice.kind in BY_SENTENCE else ""
            key = (notice.kind, notice.subject, sentence)
            shared = ((notice.kind, OTHERS, ""), notice)
            self._repeats.add(
                key, notice, group=notice.kind, of_group=shared, shared=shared, times=notice.times
            )

    def stop(self) -> None:
        """Log everything that is held back."""
        self._repeats.stop()


def _say(notice: Notice, times: int, seconds: float) -> None:
    period = f" in the last {_length(seconds)}" if seconds else ""
    often = f" ({times} {'time' if times == 1 else 'times'}{period})" if times > 1 or period else ""
    facts = {"kind": notice.kind, "subject": notice.subject, "times": times}
    level = logging.INFO if notice.kind in FOR_INFORMATION else logging.WARNING
    _log.log(level, "%s%s", notice, often, extra={"facts": facts})


def _length(seconds: float) -> str:
    if seconds == NOTICE_S:
        return "minute"
    whole = max(1, round(seconds))
    return "second" if whole == 1 else f"{whole} seconds"
