"""Connections of source, landing and sink to queue managers, made as an ordinary client.

A manager that is being restarted is waited for, for as long as `PATIENCE_S`; a connection that
breaks in the middle of a payload ends the task, and Spark tries the task again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dray.client.blocking.manager import Manager, connect
from dray.errors import ConnectionLost

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue

PATIENCE_S = 30.0
"""Longer than a manager takes to recover; shorter than a person waits without being told."""
_PAUSE_S = 0.3
_Result = TypeVar("_Result")


def patiently(call: Callable[[], _Result]) -> _Result:
    """Call until a connection holds; raises `ConnectionLost` when patience is at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except ConnectionLost:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


class Managers:
    """Connections to managers, made when first needed and shared by one task or one planner."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_url: dict[str, Manager] = {}

    def at(self, url: str) -> Manager:
        """The manager at a URL."""
        if url not in self._by_url:
            self._by_url[url] = patiently(lambda: connect(url))
        return self._by_url[url]

    def raw_queue(self, url: str, queue: str) -> Queue:
        """A handle that sees single messages, also in a queue in large use."""
        return self.at(url).queue(queue, raw=True)

    def close(self) -> None:
        """Close all; they are made anew when needed again."""
        while self._by_url:
            self._by_url.popitem()[1].close()
