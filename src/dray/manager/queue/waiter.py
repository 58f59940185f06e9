"""A receive that waits at a queue."""

from __future__ import annotations

from typing import NamedTuple

from dray.manager.session import Session
from dray.wire.frames import LargeReceive, Receive, ReceiveTransaction


class Waiter(NamedTuple):
    """A receive that found nothing yet."""

    session: Session
    request_id: int
    head: Receive | LargeReceive | ReceiveTransaction
    deadline: float | None
