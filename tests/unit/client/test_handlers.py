"""Handlers that could handle no message are refused before one is received."""

from __future__ import annotations

import asyncio
import threading

import pytest

import dray
import dray.aio


def takes_one(message):
    """Handle a message, and know nothing of its transaction."""


def yields(message, transaction):
    yield message, transaction


async def yields_later(message, transaction):
    yield message, transaction


class YieldsWhenCalled:
    def __call__(self, *both):
        yield both


HANDLERS = [
    (takes_one, "takes_one cannot be called with a message and its transaction: too many"),
    (lambda: None, "cannot be called with"),
    (yields, "yields is a generator function"),
    (yields_later, "yields_later is a generator function"),
    (YieldsWhenCalled(), "is a generator function"),
]


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    return tmp_path_factory.mktemp("handlers") / "door"


@pytest.fixture(scope="module")
def queue(door):
    with dray.open(door.parent / "data", socket=str(door)) as manager:
        queue = manager.create_queue("orders")
        queue.send(b"kept")
        yield queue
        assert queue.receive(timeout=0).abort_count == 0


@pytest.mark.parametrize(("handler", "why"), HANDLERS)
def test_a_handler_that_could_handle_no_message_is_refused(queue, handler, why):
    receiver = dray.Receiver(queue, retries=0, then="drop")
    for call in (
        lambda: receiver.handle_next(handler, 0),
        lambda: receiver.run(handler, threading.Event()),
    ):
        with pytest.raises(dray.InvalidArgument, match=why):
            call()


@pytest.mark.parametrize(("handler", "why"), HANDLERS)
def test_an_awaited_receiver_refuses_it_too(queue, door, handler, why):
    async def act():
        async with dray.aio.connect(f"dray+unix://{door}") as manager:
            receiver = dray.aio.Receiver(manager.queue(queue.name), retries=0, then="drop")
            with pytest.raises(dray.InvalidArgument, match=why):
                await receiver.handle_next(handler, 0)
            with pytest.raises(dray.InvalidArgument, match=why):
                await receiver.run(handler, asyncio.Event())

    asyncio.run(act())
