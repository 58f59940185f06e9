"""What the tests of file transfers hold them with: gates at their steps, and savings in threads."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import pytest

import dray

SOON_S = 100
FRAGMENT = 1_000
WINDOW = 4
WAYS = pytest.mark.parametrize("listen", ["auto", None], ids=["direct", "relayed"])


class Gate:
    """Holds a transfer at the n-th time of a step until it is opened."""

    def __init__(self, step: str, count: int) -> None:
        self._step, self._left = step, count
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                assert self.opened.wait(SOON_S)


class Saving:
    """A `save_to` in a thread."""

    def __init__(self, incoming, *arguments) -> None:
        self.error: BaseException | None = None
        self.path = None
        self._thread = threading.Thread(target=self._save, args=(incoming, *arguments))
        self._thread.start()

    def _save(self, incoming, *arguments) -> None:
        try:
            self.path = incoming.save_to(*arguments)
        except dray.DrayError as error:
            self.error = error

    def join(self):
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.path


class Halfway(NamedTuple):
    """A transfer that is held in its middle: the gate, and both ends."""

    held: Gate
    offer: Any
    incoming: Any
    saving: Saving


def until(condition) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
