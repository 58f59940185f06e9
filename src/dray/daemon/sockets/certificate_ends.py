"""A warning each day of certificates that end soon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from dray.daemon.limits import CERTIFICATE_LOOK_S
from dray.daemon.notice_log import NoticeLog
from dray.daemon.timekeeper import Timekeeper
from dray.errors import InvalidConfiguration
from dray.manager.notices import NoticeKind
from dray.model.limits import CERTIFICATE_WARNING_DAYS


class CertificateEnds:
    """Looks at the daemon's certificates now and each day, and warns of those that end soon."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Timekeeper, notices: NoticeLog
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._notices = notices
        self._files: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, files: Iterable[str | None]) -> None:
        """Look at these files from now on; an unset one is left out."""
        self.stop()
        self._files = [each for each in files if each is not None]
        if self._files:
            self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(CERTIFICATE_LOOK_S, self._look)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        for file in self._files:
            for sentence in _warnings(file, now):
                self._notices.say(NoticeKind.CERTIFICATE_ENDS, file, sentence)


def _warnings(file: str, now: datetime) -> list[str]:
    # X.509 takes a tenth of a second to load, which only a daemon with certificates needs.
    from dray.net.certificates import endings  # noqa: PLC0415

    try:
        found = endings(file)
    except InvalidConfiguration as error:
        return [str(error)]
    soon = now + timedelta(days=CERTIFICATE_WARNING_DAYS)
    return [
        f"the certificate {each.name} in {file} {'ended' if each.ends <= now else 'ends'} on"
        f" {each.ends:%Y-%m-%d}; put a new one there and send the queue manager SIGHUP"
        for each in found
        if each.ends <= soon
    ]
