"""Plain messages and large ones do not mix in a queue that programs send to (S0-3).

Dead-letter queues, journals and the other system queues are exempt: the manager puts both kinds
into them, so both kinds can be received from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.errors import LargeMessageMixing
from dray.model.classes import QueueKind

if TYPE_CHECKING:
    from dray.manager.queues import Queue

_EXEMPT = (QueueKind.SYSTEM, QueueKind.JOURNAL)


def check_plain_receive(queue: Queue) -> None:
    """Raise `LargeMessageMixing` if a plain receive could take a part of a large message."""
    if queue.large_use and queue.kind not in _EXEMPT:
        raise LargeMessageMixing(
            f"queue {queue.name!r} is used for large messages; use LargeMessageQueue with it",
            queue=queue.name,
        )
