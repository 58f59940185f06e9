"""Calls that go on for months wait for what they need to begin: a queue manager, room on a disk."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from dray.errors import ConnectionLost, TargetUnwritable

_log = logging.getLogger(__name__)

BACKOFF_S: Final = (0.2, 30.0)
"""The first and the longest pause between two attempts."""
_Found = TypeVar("_Found")


def waited_for(get: Callable[[], _Found], stop: threading.Event | None) -> _Found | None:
    """Call `get` until waiting mends its failures no more; None if told to stop.

    Without `stop` it does not wait. One line says that it waits, and one that it begins.
    """
    if stop is None:
        return get()
    pause, told = BACKOFF_S[0], False
    while not stop.is_set():
        try:
            found = get()
        except (ConnectionLost, TargetUnwritable) as error:
            if not error.retryable:
                raise
            if not told:
                _log.warning("waiting to begin: %s", error)
                told = True
        else:
            if told:
                _log.warning("begins now")
            return found
        stop.wait(pause)
        pause = min(2 * pause, BACKOFF_S[1])
    return None
