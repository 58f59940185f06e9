"""A scripted queue manager and a client connected to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dray.client.blocking.manager import Manager
from dray.client.blocking.queue import Queue
from tests.unit.client.peer import Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def manager(peer: Peer) -> Iterator[Manager]:
    with Manager(peer) as manager:
        yield manager


@pytest.fixture
def queue(manager: Manager) -> Queue:
    return manager.queue("orders")
