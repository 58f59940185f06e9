"""A timeout means the same at every call that waits: the table of docs/reference/api.md."""

from __future__ import annotations

import pytest

import dray

NEXT = (
    lambda targets, timeout: targets.queue.receive(timeout),
    lambda targets, timeout: targets.queue.receive_many(3, timeout=timeout),
    lambda targets, timeout: targets.queue.peek(timeout),
    lambda targets, timeout: targets.queue.receive_transaction(timeout),
    lambda targets, timeout: targets.queue.cursor().next(timeout),
    lambda targets, timeout: targets.queue.cursor().peek(timeout),
    lambda targets, timeout: targets.queue.cursor().receive(timeout),
    lambda targets, timeout: targets.large.receive(timeout),
    lambda targets, timeout: targets.large.peek(timeout),
    lambda targets, timeout: targets.receiver.handle_next(never, timeout),
    lambda targets, timeout: targets.manager.accept_file("orders", timeout),
)
"""Calls that take what comes next."""
CERTAIN = (
    lambda targets, *timeout: targets.queue.receive_by_id(targets.absent, *timeout),
    lambda targets, *timeout: targets.queue.receive_by_correlation_id("none", *timeout),
    lambda targets, *timeout: targets.queue.receive_by_lookup_id(77, *timeout),
    lambda targets, *timeout: targets.queue.peek_by_id(targets.absent, *timeout),
    lambda targets, *timeout: targets.queue.peek_by_correlation_id("none", *timeout),
    lambda targets, *timeout: targets.queue.peek_by_lookup_id(77, *timeout),
    lambda targets, *timeout: targets.large.receive_by_correlation_id("none", *timeout),
)
"""Calls that take a certain message."""
WRONG = (-1, -0.001, float("nan"), True, "1")


def never(message, transaction):
    raise AssertionError("there was nothing to handle")


class CallTargets:
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
def targets(face, manager, queue):
    return CallTargets(face, manager, queue)


def test_what_comes_next_is_waited_for_as_long_as_was_said(targets):
    for call in NEXT:
        for timeout in (0, 0.0, 0.01):
            with pytest.raises(dray.ReceiveTimeout):
                call(targets, timeout)
        for timeout in WRONG:
            with pytest.raises(dray.Misuse):
                call(targets, timeout)


def test_a_certain_message_is_there_or_not_unless_there_is_time_to_wait(targets):
    for call in CERTAIN:
        for timeout in ((), (None,), (0,), (0.0,)):
            with pytest.raises(dray.MessageNotFound):
                call(targets, *timeout)
        with pytest.raises(dray.ReceiveTimeout):
            call(targets, 0.01)
        for timeout in WRONG:
            with pytest.raises(dray.Misuse):
                call(targets, timeout)


def test_an_offer_is_waited_for_as_long_as_was_said(targets, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    (tmp_path / "file").write_bytes(b"x")
    offer = targets.manager.offer_file(tmp_path / "file", "offers")
    for timeout in (0, 0.01):
        with pytest.raises(dray.TransferTimeout):
            offer.wait(timeout)
    for timeout in WRONG:
        with pytest.raises(dray.Misuse):
            offer.wait(timeout)
    offer.cancel()
