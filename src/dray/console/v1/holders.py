"""TokenHolders: each token gets one connection to the queue manager, and what it has open on it.

A connection is made at the first request of a token and closed when the caller has used nothing for
a while. Leases and transactions belong to their caller: nobody else finds them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Final

from dray.aio import Manager
from dray.client.awaited.opening import Opening
from dray.client.connections.link import Link
from dray.console.alarms import Alarms
from dray.console.http.limits import BODIES_AT_ONCE_MAX, BoundedCount, Greetings
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.held import Holdings
from dray.console.v1.limits import (
    BODIES_MAX,
    SESSION_UNUSED_S,
    SESSIONS_MAX,
    TOKEN_CHARACTERS_MAX,
    UPLOADS_AT_HAND_MAX,
    WAITS_MAX,
)
from dray.console.v1.resumable import HttpUpload, UploadName
from dray.errors import AccessDenied
from dray.model.callers import Credential
from dray.model.names import STATUS_QUEUE

Connects = Callable[[Credential], "Opening[Manager]"]
"""Connects to the queue manager as a caller."""
_BEARER: Final = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/=-]+)\Z")
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="dray"'}


class TokenHolder:
    """One token: its connection, and what it has open."""

    def __init__(
        self, name: str, manager: Manager, bodies: BoundedCount, uploads: UploadsAtHand
    ) -> None:
        """Begin with nothing open. `name` is a digest of the token; the rest is of all callers."""
        self.name = name
        self.manager = manager
        self.leases: Holdings = Holdings("lease")
        self.transactions: Holdings = Holdings("transaction")
        self.requests = 0
        self._bodies = BoundedCount(
            BODIES_MAX, 429, "too-many-bodies", f"{BODIES_MAX} bodies of this caller are on their"
            " way; try again when one of them is done",
        )  # fmt: skip
        self._waits = BoundedCount(
            WAITS_MAX, 429, "too-many-waits", f"{WAITS_MAX} receives of this caller are waiting;"
            " try again when one of them is answered",
        )  # fmt: skip
        self._all = bodies
        self.uploads = uploads

    @property
    def link(self) -> Link:
        """Gives the connection."""
        return self.manager.queue(STATUS_QUEUE).handle.link

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if the connection were closed."""
        return not (self.requests or self.leases.open or self.transactions.open)

    @contextmanager
    def body(self) -> Iterator[None]:
        """One body on its way; raises `HttpRefusal` if there are too many."""
        with self._bodies.one(), self._all.one():
            yield

    def wait(self) -> AbstractContextManager[None]:
        """One receive that waits; raises `HttpRefusal` if there are too many."""
        return self._waits.one()

    async def close(self) -> None:
        """Abort what is open, and close the connection."""
        await self.leases.close()
        await self.transactions.close()
        await self.manager.close()


class TokenHolders:
    """All callers with a connection, those used last at the end."""

    def __init__(self, connects: Connects, *, read_only: bool = False) -> None:
        """Connect to nothing yet. `read_only`: refuse everything that could change something."""
        self.read_only = read_only
        self._connects = connects
        self._known: OrderedDict[str, TokenHolder] = OrderedDict()
        self._greetings = Greetings()
        self._bodies = BoundedCount(
            BODIES_AT_ONCE_MAX, 503, "busy", f"{BODIES_AT_ONCE_MAX} bodies are on their way"
            " here; try again soon",
        )  # fmt: skip
        self._uploads = UploadsAtHand()
        self._alarms = Alarms()

    @asynccontextmanager
    async def of(
        self, authorization: str | None, certified: str = ""
    ) -> AsyncIterator[TokenHolder]:
        """The caller of one request: the holder of its token, else of its client's certificate.

        Raises `HttpRefusal` for one that is unknown.
        """
        if authorization is None and certified:
            who = Credential(caller=certified)
        else:
            who = Credential(_token_in(authorization))
        # No token has a colon, so it is never the name of a certificate.
        name = hashlib.sha256((who.token or who.caller).encode()).hexdigest()
        caller = self._known.get(name) or await self._greeted(name, who)
        try:
            # A connection that was lost is made anew here, and a token that was revoked is refused.
            await caller.link.connection()
        except AccessDenied as error:
            await self._drop(caller)
            raise _unauthorized(str(error)) from error
        caller.requests += 1
        self._alarms.call_off(name)
        self._known.move_to_end(name)
        try:
            yield caller
        finally:
            caller.requests -= 1
            self._watch(caller)

    async def close(self) -> None:
        """Abort everything, and close all connections."""
        known, self._known = self._known, OrderedDict()
        await asyncio.gather(self._alarms.close(), *(each.close() for each in known.values()))

    async def _greeted(self, name: str, who: Credential) -> TokenHolder:
        async with self._greetings.of(name):
            known = self._known.get(name)
            if known is not None:
                return known
            await self._make_room()
            try:
                manager = await self._connects(who)
            except AccessDenied as error:
                raise _unauthorized(str(error)) from error
            caller = TokenHolder(name, manager, self._bodies, self._uploads)
            self._known[name] = caller
            return caller

    async def _make_room(self) -> None:
        if len(self._known) < SESSIONS_MAX:
            return
        oldest = next((each for each in self._known.values() if each.idle), None)
        if oldest is None:
            raise HttpRefusal(
                503, "busy", f"{SESSIONS_MAX} callers have something open here; try again soon"
            )
        await self._drop(oldest)

    def _watch(self, caller: TokenHolder) -> None:
        """Look at a caller again when it may have been unused for long enough."""
        if not caller.requests and self._known.get(caller.name) is caller:
            self._alarms.set(caller.name, SESSION_UNUSED_S, partial(self._look, caller))

    async def _look(self, caller: TokenHolder) -> None:
        if caller.idle:
            await self._drop(caller)
        else:
            self._watch(caller)

    async def _drop(self, caller: TokenHolder) -> None:
        self._alarms.call_off(caller.name)
        self._known.pop(caller.name, None)
        await caller.close()


def _token_in(authorization: str | None) -> str:
    found = _BEARER.match(authorization or "")
    if found is None or len(found[1]) > TOKEN_CHARACTERS_MAX:
        raise _unauthorized(
            "the request shows no token; send Authorization: Bearer TOKEN with a token of `dray"
            " token create`"
        )
    return found[1]


def _unauthorized(sentence: str) -> HttpRefusal:
    return HttpRefusal(401, "unauthorized", sentence, _CHALLENGE)


class UploadsAtHand:
    """The uploads whose digest is at hand, those used last at the end; a caller finds its own."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, UploadName], HttpUpload] = OrderedDict()

    def find(self, caller: str, name: UploadName) -> HttpUpload | None:
        """The upload of a caller, if it is at hand."""
        found = self._kept.get((caller, name))
        if found is not None:
            self._kept.move_to_end((caller, name))
        return found

    def keep(self, caller: str, upload: HttpUpload) -> HttpUpload:
        """Keep an upload at hand; give the one that is there already, if there is one."""
        kept = self._kept.setdefault((caller, upload.name), upload)
        if len(self._kept) > UPLOADS_AT_HAND_MAX:
            unused = (key for key, each in self._kept.items() if not each.lock.locked())
            del self._kept[next(unused)]
        return kept

    def forget(self, caller: str, name: UploadName) -> None:
        """Keep an upload no longer."""
        self._kept.pop((caller, name), None)
