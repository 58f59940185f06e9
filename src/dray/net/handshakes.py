"""TLS handshakes that are not finished: a bounded number at once; of too many the oldest ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from dray.model.places import Places

HANDSHAKES_MAX: Final = 1_000
"""TLS handshakes that are not finished: when there are more, the oldest one ends, which has had the
time of a thousand others."""
HANDSHAKES_PER_HOST_MAX: Final = 500
"""The same for one address, behind which a cluster may be that starts at once. So one machine shuts
out no other."""
HANDSHAKE_S: Final = 10.0
"""The longest handshake: an end that takes longer speaks no TLS."""


class BoundedHandshakes:
    """The handshakes of one server, by the host that calls."""

    def __init__(self) -> None:
        self._tasks: Places[asyncio.Task[None]] = Places()

    def __len__(self) -> int:
        """The number of handshakes under way."""
        return len(self._tasks)

    def begin(
        self, host: str, handshake: Coroutine[Any, Any, None], close: Callable[[], object]
    ) -> None:
        """Shake hands with a host; `close` hangs up if the handshake is cancelled."""
        crowded = self._tasks.count(host) >= HANDSHAKES_PER_HOST_MAX
        if crowded or len(self._tasks) >= HANDSHAKES_MAX:
            oldest = self._tasks.oldest(host if crowded else None)
            assert oldest is not None, "there are too many"
            self._tasks.discard(oldest)
            oldest.cancel()
        task = asyncio.create_task(handshake)
        self._tasks.add(task, host)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                # Also if it had not begun, and so could not hang up by itself.
                close()

        task.add_done_callback(ended)

    def cancel(self) -> None:
        """End them all."""
        for task in self._tasks:
            task.cancel()
