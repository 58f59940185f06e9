"""Connections to the queue manager, one for each caller whose rights a request has."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dray.aio import Manager
from dray.client.awaited.opening import Opening
from dray.model.callers import Credential

CONSOLE: Final = Credential()
"""The console itself."""
Connecting = Callable[[Credential], "Opening[Manager]"]
"""Connects as a caller."""
_CONNECTIONS_MAX: Final = 64
"""Callers at a time; the one that was silent longest loses its connection and gets a new one."""


class Callers:
    """The open connections, by credential. A connection that breaks is made anew by the client."""

    def __init__(self, connect: Connecting) -> None:
        """Connect when a caller first asks for something."""
        self._connect = connect
        self._open: OrderedDict[Credential, Manager] = OrderedDict()
        self._dialling = asyncio.Lock()

    async def manager(self, caller: Credential = CONSOLE) -> Manager:
        """The connection of a caller; raises `ConnectionLost` and `AccessDenied`."""
        found = self._open.get(caller)
        if found is None:
            async with self._dialling:
                found = self._open.get(caller) or await self._connect(caller)
                self._open[caller] = found
                await self._close_surplus()
        self._open.move_to_end(caller)
        return found

    async def forget(self, caller: Credential) -> None:
        """Close the connection of a caller."""
        found = self._open.pop(caller, None)
        if found is not None:
            await found.close()

    async def close(self) -> None:
        """Close all of them."""
        while self._open:
            _, manager = self._open.popitem()
            await manager.close()

    async def _close_surplus(self) -> None:
        while len(self._open) > _CONNECTIONS_MAX:
            # The console's own connection looks at the queues for everybody.
            oldest = next(each for each in self._open if each != CONSOLE)
            await self.forget(oldest)
