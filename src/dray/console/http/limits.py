"""Bounds of the clients' connections, each with its reason, and what keeps to a bound.

Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from dray.console.http.refusal import HttpRefusal

PIECE_BYTES: Final = 1 << 20
"""Bytes handed to the socket at a time: above its buffer, so that a slow client is felt at once."""
LONG_BODY_BYTES: Final = 256 << 10
"""A body with more bytes to come goes straight into the memory of its reader."""
STALLED_S: Final = 30.0
"""A client that sends or takes nothing of a body for so long is hung up on. A form comes whole by
then."""
HEAD_S: Final = 10.0
"""A client that has not sent the whole head of a request by then is hung up on."""
ANSWER_S: Final = 30.0
"""A page or request says by then that the queue manager does not answer: a list of 100,000
queues took 7 s on a busy machine."""
CONNECTIONS_MAX: Final = 1_000
"""Connections at a time; more are answered 503."""
WITHOUT_HEAD_MAX: Final = 500
"""Connections without a request, half of all: when there are more, the oldest is hung up on. So
silent clients never take the places of others, who send a head as soon as they have connected. A
connection whose request was answered is among them, also while the rest of a body still comes, and
so is one on which somebody signs in."""
HEAD_BYTES_MAX: Final = 16 << 10
"""The head of a request, or what the client sent of it; a longer one is answered 400."""
GRACE_S: Final = 3
"""Requests that still run then are cut off: a receive that waits takes nothing with it."""
BODIES_AT_ONCE_MAX: Final = 24
"""Bodies on their way at a time, at `/v1` and at the pages each: 360 MB at the very most."""
VISITOR_PAGES_MAX: Final = 4
"""Pages of one visitor that are made at a time; the others wait. A browser asks for six at most,
and a page of many queues takes 20 ms of the loop, which all visitors share."""
VISITOR_BODIES_MAX: Final = 8
"""Bodies of one visitor of the pages, a third of all: slow ones leave places for others."""
GREETINGS_MAX: Final = 16
"""Connections that are being made at a time: strangers with wrong tokens wait for each other."""


class BoundedCount:
    """The number of something under way, with a bound."""

    def __init__(self, most: int, status: int, code: str, sentence: str) -> None:
        """Begin with none; one above `most` is refused with the rest."""
        self._most = most
        self._refusal = status, code, sentence
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one more; raises `HttpRefusal` if there are too many."""
        if self._count >= self._most:
            raise HttpRefusal(*self._refusal)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class Greetings:
    """Callers whose connection is being made: each caller once, and a bounded number at a time."""

    def __init__(self) -> None:
        """Begin with none."""
        self._places = asyncio.Semaphore(GREETINGS_MAX)
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._asking: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def of(self, caller: Hashable) -> AsyncIterator[None]:
        """Wait for the caller's turn; whoever waited looks first whether the connection is made."""
        self._asking[caller] += 1
        try:
            async with self._locks.setdefault(caller, asyncio.Lock()), self._places:
                yield
        finally:
            self._asking[caller] -= 1
            if not self._asking[caller]:
                del self._asking[caller], self._locks[caller]
