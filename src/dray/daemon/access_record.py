"""Writes the access log of a running queue manager (`store/access_log.py`), in a thread of its own.

    refused         the first of each caller a minute, then how many there were
    keep, deliver   the first of each caller at each queue a minute, then how many there were
    manage          each, up to 1,000 of a caller a minute, then how many there were
    rules           each
    lost            how many acts of which no line could be written, once one can be written again

The loop hands lines over and goes on. An act is handed over when all that it changed is durable; a
crash can lose the lines of the moment before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from datetime import datetime
from functools import partial
from pathlib import Path

from dray.daemon.limits import ACCESS_LINES_MAX, ACCESS_LINES_WAITING_MAX, ACCESS_RETRY_S
from dray.daemon.notice_log import NoticeLog
from dray.daemon.pacing.worker import Worker
from dray.daemon.repeats import Repeats
from dray.daemon.timekeeper import Timekeeper
from dray.manager.events import ActKind, CallerAct
from dray.manager.notices import OTHERS, NoticeKind
from dray.model.access import Access
from dray.model.access_info import ActInfo
from dray.model.callers import OWNER, Caller
from dray.model.limits import ACTS_REMEMBERED_MAX
from dray.model.words import counted
from dray.store.access_log import AccessEntry, AccessLog, last_entries
from dray.store.chain import moment

_ACTS = frozenset(map(str, ActKind))
_log = logging.getLogger(__name__)


def last_acts(data: Path | None) -> tuple[ActInfo, ...]:
    """The last acts in the access log of a data directory, the newest first; none without one.

    Raises StoreError.
    """
    if data is None:
        return ()
    found = []
    for each in last_entries(data, ACTS_REMEMBERED_MAX):
        try:
            when = datetime.fromisoformat(each.time).timestamp()
        except ValueError:
            # Somebody changed the line; the check of the chain says so.
            continue
        told = (each.caller, each.address, each.frame, each.subject, each.times)
        if each.act in _ACTS:
            found.append(ActInfo(when, each.act, *told))
    return tuple(found)


class AccessRecord:
    """Takes acts in the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Timekeeper,
        data: Path | None,
        notices: NoticeLog,
    ) -> None:
        """Open the access log of a data directory; without one nothing is written.

        Raises StoreError.
        """
        self._loop = loop
        self._clock = clock
        self._notices = notices
        self._access_log = None if data is None else AccessLog(data)
        self._worker = Worker(loop, "dray-access")
        self._repeats: Repeats[CallerAct] = Repeats(loop, clock, self._say)
        self._waiting: list[AccessEntry] = []
        self._lost = 0
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None

    def note(self, act: CallerAct) -> None:
        """Write what a caller did, or count it."""
        place, subject, most = act.caller.place, act.subject, 1
        if act.kind is ActKind.MANAGE:
            subject, most = "", ACCESS_LINES_MAX
        elif act.kind is ActKind.REFUSED:
            subject = ""
        others = CallerAct(act.kind, Caller(OTHERS), 0, act.frame, "")
        name = act.caller.name
        own = CallerAct(act.kind, Caller(name), 0, act.frame, "")
        self._repeats.add(
            (act.kind, place, subject),
            act,
            group=name,
            of_group=((act.kind, name, None), own),
            shared=((act.kind, OTHERS, ""), others),
            most=most,
        )

    def rules(self, access: Access, occasion: str) -> None:
        """Write which rules hold from now on, by their number and their digest."""
        texts = "\n".join(map(str, access.rules))
        digest = hashlib.sha256(texts.encode()).hexdigest()
        subject = f"{len(access.rules)} rules, open: {access.is_open}, sha256 {digest}".lower()
        now = moment(self._clock.now())
        self._add(AccessEntry(0, now, "rules", OWNER.name, "", 0, occasion, subject))

    async def stop(self) -> None:
        """Write everything that waits, and close the log."""
        self._repeats.stop()
        self._write()
        while self._is_writing:
            await self._worker.idle()
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting or self._lost:
            count = sum(each.times for each in self._waiting) + self._lost
            _log.error("missing in the access log: %s", counted(count, "act"))
        self._worker.stop()
        if self._access_log is not None:
            self._access_log.close()

    def _say(self, act: CallerAct, times: int, _seconds: float) -> None:
        now, caller = moment(self._clock.now()), act.caller
        self._add(
            AccessEntry(
                0, now, act.kind, caller.name, caller.address, act.session, act.frame,
                act.subject, times,
            )
        )  # fmt: skip

    def _add(self, line: AccessEntry) -> None:
        if self._access_log is None:
            return
        if len(self._waiting) >= ACCESS_LINES_WAITING_MAX:
            self._lost += line.times
            return
        self._waiting.append(line)
        self._write()

    def _write(self) -> None:
        if self._is_writing or not self._waiting or self._access_log is None:
            return
        self._is_writing = True
        lines, self._waiting = self._waiting, []
        lost, self._lost = self._lost, 0
        if lost:
            lines.append(AccessEntry(0, moment(self._clock.now()), "lost", times=lost))
        job = partial(self._access_log.append, lines)
        self._worker.submit(job, partial(self._written, lines, lost))

    def _written(self, lines: list[AccessEntry], lost: int, error: BaseException | None) -> None:
        self._is_writing = False
        if error is None:
            self._write()
            return
        # Nothing of them was written: they wait for the next try.
        self._lost += lost
        self._waiting[:0] = lines[: len(lines) - bool(lost)]
        self._notices.say(NoticeKind.ACCESS_UNWRITTEN, "access log", str(error))
        if self._timer is None:
            self._timer = self._loop.call_later(ACCESS_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._write()
