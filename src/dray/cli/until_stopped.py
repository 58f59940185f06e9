"""Commands that run for months: they wait for their queue manager, and SIGTERM ends them."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from dray.cli.settings import Settings
from dray.cli.watchdog import AskedEvent, watched
from dray.errors import ConnectionLost
from dray.notify import READY, STOPPING, notify

if TYPE_CHECKING:
    from dray.client.blocking.manager import Manager

_log = logging.getLogger(__name__)
_CONNECT_AGAIN_S = 1.0


@contextmanager
def stopped_by_sigterm() -> Iterator[threading.Event]:
    """Give an event that SIGTERM sets; warnings go to standard error meanwhile."""
    logging.basicConfig(format="dray: %(message)s", level=logging.WARNING)
    stop = AskedEvent()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        notify(STOPPING)

    previous = signal.signal(signal.SIGTERM, end)
    try:
        with watched(stop):
            yield stop
    finally:
        signal.signal(signal.SIGTERM, previous)


def connected(settings: Settings, stop: threading.Event) -> Manager | None:
    """Connect as soon as the queue manager answers; None if told to stop before."""
    told = False
    while not stop.is_set():
        try:
            manager = settings.connect()
        except ConnectionLost as error:
            if not error.retryable:
                raise
            if not told:
                _log.warning("waiting for the queue manager: %s", error)
                told = True
            stop.wait(_CONNECT_AGAIN_S)
        else:
            notify(READY)
            return manager
    return None
