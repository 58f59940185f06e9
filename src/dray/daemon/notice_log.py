"""Notices in the daemon's log, its own and the manager's: at once, then at most one a minute.

    a notice of (kind, subject)                     is logged
    the first, or the first after a quiet minute    at once
    others within the minute                        once when the minute is over, with their count
    held back when the daemon stops                 then, with their count

So a queue that refuses a thousand messages a second costs one line a minute, and the numbers in the
log add up to what happened. If there are very many subjects, the last ones share a line for each
kind. Ends of messages are counted by sentence, for the sentence says where the messages are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from dray.daemon.limits import NOTICE_RETRY_S, NOTICE_S, NOTICE_SUBJECTS_MAX
from dray.daemon.timekeeper import Timekeeper
from dray.manager.notices import (
    BY_SENTENCE,
    EACH_ONCE,
    FOR_INFORMATION,
    OTHERS,
    Notice,
    NoticeKind,
)

_log = logging.getLogger(__name__)


class NoticeLog:
    """Writes notices to the log."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Timekeeper) -> None:
        """Begin with nothing logged; `clock` tells the time, `loop` only calls again."""
        self._loop = loop
        self._clock = clock
        self._subjects: dict[tuple[str, str, str], _NoticeSubject] = {}
        """By kind, subject and, for some kinds, sentence; the one logged first stands first."""
        self._timer: asyncio.TimerHandle | None = None

    def say(self, kind: NoticeKind, subject: str, sentence: str) -> None:
        """Log what the daemon itself notices, or hold it back."""
        self.write([Notice(kind, subject, sentence)])

    def write(self, notices: Iterable[Notice]) -> None:
        """Log notices, or hold them back."""
        for notice in notices:
            now = self._clock.now()
            self._log_what_is_due(now)
            self._take(notice, now)
            self._call_again(now)

    def stop(self) -> None:
        """Log everything that is held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.now()
        for each in self._subjects.values():
            if each.latest is not None:
                _say(each.latest, each.times, f" in the last {now - each.since:.0f} seconds")
        self._subjects.clear()

    def _take(self, notice: Notice, now: float) -> None:
        if notice.kind in EACH_ONCE:
            _say(notice, notice.times)
            return
        sentence = notice.sentence if notice.kind in BY_SENTENCE else ""
        key = (notice.kind, notice.subject, sentence)
        if key not in self._subjects and len(self._subjects) >= NOTICE_SUBJECTS_MAX:
            key = (notice.kind, OTHERS, "")
        subject = self._subjects.get(key)
        if subject is None:
            self._subjects[key] = _NoticeSubject(now)
            _say(notice, notice.times)
        else:
            subject.latest = notice
            subject.times += notice.times

    def _log_what_is_due(self, now: float) -> None:
        """Log what was held back for a minute, and forget whoever was quiet as long."""
        for key, subject in list(self._subjects.items()):
            if subject.since + NOTICE_S > now:
                return
            del self._subjects[key]
            if subject.latest is not None:
                _say(subject.latest, subject.times, " in the last minute")
                self._subjects[key] = _NoticeSubject(now)

    def _call_again(self, now: float) -> None:
        if self._timer is None and self._subjects:
            oldest = next(iter(self._subjects.values()))
            delay = max(NOTICE_RETRY_S, oldest.since + NOTICE_S - now)
            self._timer = self._loop.call_later(delay, self._minute)

    def _minute(self) -> None:
        self._timer = None
        now = self._clock.now()
        self._log_what_is_due(now)
        self._call_again(now)


class _NoticeSubject:
    """Notices of one kind and subject that are not logged yet."""

    __slots__ = ("latest", "since", "times")

    def __init__(self, since: float) -> None:
        self.since = since
        self.latest: Notice | None = None
        self.times = 0


def _say(notice: Notice, times: int, period: str = "") -> None:
    often = f" ({times} {'time' if times == 1 else 'times'}{period})" if times > 1 or period else ""
    facts = {"kind": notice.kind, "subject": notice.subject, "times": times}
    level = logging.INFO if notice.kind in FOR_INFORMATION else logging.WARNING
    _log.log(level, "%s%s", notice, often, extra={"facts": facts})
