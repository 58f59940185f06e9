"""A timeout means the same at every call that waits: the table of docs/reference/api.md."""

from __future__ import annotations

import pytest

import dray

NEXT = (
    lambda desk, timeout: desk.queue.receive(timeout),
    lambda desk, timeout: desk.queue.receive_many(3, timeout=timeout),
    lambda desk, timeout: desk.queue.peek(timeout),
    lambda desk, timeout: desk.queue.receive_transaction(timeout),
    lambda desk, timeout: desk.queue.cursor().next(timeout),
    lambda desk, timeout: desk.queue.cursor().peek(timeout),
    lambda desk, timeout: desk.queue.cursor().receive(timeout),
    lambda desk, timeout: desk.large.receive(timeout),
    lambda desk, timeout: desk.large.peek(timeout),
    lambda desk, timeout: desk.receiver.handle_next(never, timeout),
    lambda desk, timeout: desk.manager.accept_file("orders", timeout),
)
"""Calls that take what comes next."""
CERTAIN = (
    lambda desk, *timeout: desk.queue.receive_by_id(desk.absent, *timeout),
    lambda desk, *timeout: desk.queue.receive_by_correlation_id("none", *timeout),
    lambda desk, *timeout: desk.queue.receive_by_lookup_id(77, *timeout),
    lambda desk, *timeout: desk.queue.peek_by_id(desk.absent, *timeout),
    lambda desk, *timeout: desk.queue.peek_by_correlation_id("none", *timeout),
    lambda desk, *timeout: desk.queue.peek_by_lookup_id(77, *timeout),
    lambda desk, *timeout: desk.large.receive_by_correlation_id("none", *timeout),
)
"""Calls that take a certain message."""
WRONG = (-1, -0.001, float("nan"), True, "1")


def never(message, transaction):
    raise AssertionError("there was nothing to handle")


class Desk:
    """An empty queue, and all that waits at it."""

    def __init__(self, face, manager, queue):
        self.manager, self.queue = manager, queue
        manager.create_queue("orders", exist_ok=True)
        manager.create_queue("offers", exist_ok=True)
        manager.create_queue("statusq", exist_ok=True)
        self.large = face.LargeMessageQueue(queue)
        self.receiver = face.Receiver(queue)
        self.absent = f"{manager.info().id}\\77"


@pytest.fixture
def desk(face, manager, queue):
    return Desk(face, manager, queue)


def test_what_comes_next_is_waited_for_as_long_as_was_said(desk):
    for call in NEXT:
        for timeout in (0, 0.0, 0.01):
            with pytest.raises(dray.ReceiveTimeout):
                call(desk, timeout)
        for timeout in WRONG:
            with pytest.raises(dray.Misuse):
                call(desk, timeout)


def test_a_certain_message_is_there_or_not_unless_there_is_time_to_wait(desk):
    for call in CERTAIN:
        for timeout in ((), (None,), (0,), (0.0,)):
            with pytest.raises(dray.MessageNotFound):
                call(desk, *timeout)
        with pytest.raises(dray.ReceiveTimeout):
            call(desk, 0.01)
        for timeout in WRONG:
            with pytest.raises(dray.Misuse):
                call(desk, timeout)


def test_an_offer_is_waited_for_as_long_as_was_said(desk, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    (tmp_path / "file").write_bytes(b"x")
    offer = desk.manager.offer_file(tmp_path / "file", "offers")
    for timeout in (0, 0.01):
        with pytest.raises(dray.TransferTimeout):
            offer.wait(timeout)
    for timeout in WRONG:
        with pytest.raises(dray.Misuse):
            offer.wait(timeout)
    offer.cancel()
