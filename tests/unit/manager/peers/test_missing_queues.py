"""Which sources are told that a queue was made."""

from __future__ import annotations

import pytest

from dray.manager.peers.missing_queues import MissingQueues
from dray.manager.queue import QueueTable, StoredQueue
from dray.manager.session import Session
from dray.model.callers import OWNER, Caller
from dray.model.classes import QueueKind
from dray.model.queue import QueueOptions


@pytest.fixture
def queues() -> QueueTable:
    return QueueTable()


def make(queues: QueueTable, name: str) -> StoredQueue:
    queue = StoredQueue(queues.made + 20, name, QueueKind.PRIVATE, QueueOptions())
    queues.add(queue)
    return queue


def test_a_stream_is_told_once_when_its_queue_is_made(queues: QueueTable) -> None:
    missing, session = MissingQueues(queues), Session(1, OWNER)
    missing.add(session, 7, "orders")
    make(queues, "other")
    assert missing
    assert list(missing.take()) == []
    assert not missing
    orders = make(queues, "Orders")
    assert missing
    assert list(missing.take()) == [(session, 7, orders)]
    make(queues, "more")
    assert list(missing.take()) == []


def test_nobody_is_told_whose_stream_is_open_or_whose_connection_is_gone(
    queues: QueueTable,
) -> None:
    missing, session, other = MissingQueues(queues), Session(1, OWNER), Session(2, OWNER)
    missing.add(session, 7, "orders")
    missing.add(other, 7, "orders")
    missing.opened(session, 7)
    missing.forget(other)
    make(queues, "orders")
    assert list(missing.take()) == []


def test_of_very_many_streams_the_oldest_is_forgotten(
    queues: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.missing_queues.MISSING_QUEUES_MAX", 2)
    missing, session = MissingQueues(queues), Session(1, OWNER)
    for stream in (1, 2, 3):
        missing.add(session, stream, "orders")
    make(queues, "orders")
    assert [stream for _, stream, _ in missing.take()] == [2, 3]


def test_a_stream_that_is_refused_again_is_no_longer_the_oldest(
    queues: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.missing_queues.MISSING_QUEUES_MAX", 2)
    missing, session = MissingQueues(queues), Session(1, OWNER)
    for stream in (1, 2, 1, 3):
        missing.add(session, stream, "orders")
    make(queues, "orders")
    assert [stream for _, stream, _ in missing.take()] == [1, 3]


def test_a_caller_that_asks_for_ever_other_queues_pushes_out_no_stream_of_another(
    queues: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.peers.missing_queues.MISSING_QUEUES_MAX", 3)
    missing, honest = MissingQueues(queues), Session(1, Caller("cert:honest"))
    missing.add(honest, 1, "orders")
    for number in range(2, 9):
        missing.add(Session(number, Caller("cert:greedy")), 1, "orders")
    make(queues, "orders")
    assert [session.number for session, _, _ in missing.take()] == [1, 7, 8]
    assert not len(missing._callers)
