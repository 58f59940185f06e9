"""Sessions of the console: a cookie stands for each, and only its digest is kept."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from dray.console.http.limits import VISITOR_BODIES_MAX, VISITOR_PAGES_MAX, BoundedCount
from dray.model.callers import Credential

_COOKIE_BYTES: Final = 32
_VISITORS_MAX: Final = 256
"""More people do not look after one queue manager. The caller with the most sessions loses the one
that was away longest."""
_IDLE_S: Final = 12 * 3600.0
"""A working day: a browser that polls is never idle."""
_CONSOLE: Final = Credential()
_SAID_MAX: Final = 20
"""Sentences that wait for the next page; the oldest go."""


class _Places:
    """Pages and bodies that are under way for one caller, whatever its number of sessions."""

    def __init__(self) -> None:
        self.pages = asyncio.Semaphore(VISITOR_PAGES_MAX)
        self.bodies = BoundedCount(
            VISITOR_BODIES_MAX, 429, "too-many-bodies", f"{VISITOR_BODIES_MAX} of your files are on"
            " their way to and from the console; try again when one of them is done",
        )  # fmt: skip


class Visitor:
    """One session: whose rights it has, and what the next page says first."""

    def __init__(self, caller: Credential, places: _Places | None = None) -> None:
        """Take the caller of the queue manager whose rights it has, and whose places if not own."""
        self.caller = caller
        self.last_seen = 0.0
        self._said: list[tuple[str, str]] = []
        self._places = places or _Places()
        self.pages, self.bodies = self._places.pages, self._places.bodies

    def tell(self, sentence: str, kind: str) -> None:
        """Keep a sentence for the next page; `kind` is "good" or "bad"."""
        self._said = [*self._said, (kind, sentence)][-_SAID_MAX:]

    def hear(self) -> list[tuple[str, str]]:
        """Give the sentences, once."""
        said, self._said = self._said, []
        return said


class Visitors:
    """The sessions of a console, found by cookie."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_digest: OrderedDict[bytes, Visitor] = OrderedDict()
        self._certified: OrderedDict[Credential, Visitor] = OrderedDict()
        self._places: WeakValueDictionary[Credential, _Places] = WeakValueDictionary()

    def certified(self, caller: Credential) -> Visitor:
        """The session of everybody who shows the certificate of a name; it has no cookie."""
        visitor = self._certified.setdefault(caller, Visitor(caller))
        self._certified.move_to_end(caller)
        while len(self._certified) > _VISITORS_MAX:
            self._certified.popitem(last=False)
        return visitor

    def admit(self, caller: Credential = _CONSOLE) -> str:
        """Begin a session; return its cookie."""
        cookie = secrets.token_urlsafe(_COOKIE_BYTES)
        visitor = Visitor(caller, self._places_of(caller))
        visitor.last_seen = self._clock()
        self._by_digest[_digest(cookie)] = visitor
        if len(self._by_digest) > _VISITORS_MAX:
            sessions = Counter(each.caller for each in self._by_digest.values())
            ((most, _),) = sessions.most_common(1)
            surplus = (at for at, each in self._by_digest.items() if each.caller == most)
            del self._by_digest[next(surplus)]
        return cookie

    def find(self, cookie: str) -> Visitor | None:
        """The session of a cookie, unless it was idle for too long."""
        digest = _digest(cookie)
        visitor = self._by_digest.get(digest)
        if visitor is None:
            return None
        now = self._clock()
        if now - visitor.last_seen > _IDLE_S:
            del self._by_digest[digest]
            return None
        visitor.last_seen = now
        self._by_digest.move_to_end(digest)
        return visitor

    def dismiss(self, cookie: str) -> None:
        """End a session."""
        self._by_digest.pop(_digest(cookie), None)

    def _places_of(self, caller: Credential) -> _Places | None:
        """The places of a token; whoever comes by a start link has places alone."""
        return None if caller == _CONSOLE else self._places.setdefault(caller, _Places())


def _digest(cookie: str) -> bytes:
    return sha256(cookie.encode()).digest()
