"""What the peers' own Python clients do with one file, timed like `benches.clients`.

NATS, in two ways, both in file storage: the Object Store of JetStream, in pieces of its own
choosing, and messages of 1 MB, the most that its server takes by default, through a stream that is
a work queue. 32 of them are on their way at a time, and each is acknowledged. RabbitMQ: persistent
messages of 4 MB into a durable queue, each confirmed before the next is sent; received with manual
acknowledgments. Each receiver syncs its file before the clock stops, as with Dray.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benches.stomp import Stomp

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.object_store import ObjectStore

BUCKET = "bench"
NATS_QUEUE = "work"
NATS_MESSAGE_BYTES = 1_000_000
NATS_ON_THEIR_WAY = 32
MESSAGE_BYTES = 4_000_000
OPERATION_WITHIN_S = 600.0


def nats_put(url: str, path: str) -> dict[str, float]:
    """Put a file into an Object Store."""
    with Path(path).open("rb") as file:
        return asyncio.run(_with_store(url, lambda store: store.put("payload", file)))


def nats_get(url: str, to: str) -> dict[str, float]:
    """Get it back into a file; the client compares its SHA-256.

    `unsynced` are the seconds until all is written, `seconds` until it is synced too.
    """
    unsynced = 0.0
    with Path(to).open("wb") as file:

        async def get(store: ObjectStore) -> None:
            nonlocal unsynced
            began = time.perf_counter()
            await store.get("payload", writeinto=file)
            file.flush()
            unsynced = time.perf_counter() - began
            os.fsync(file.fileno())

        return asyncio.run(_with_store(url, get)) | {"unsynced": unsynced}


def nats_send(url: str, path: str) -> dict[str, float]:
    """Send a file as messages of 1 MB into a stream; all are acknowledged when the clock stops."""
    with Path(path).open("rb") as file:

        async def send(stream: JetStreamContext) -> None:
            while piece := file.read(NATS_MESSAGE_BYTES):
                await stream.publish_async(NATS_QUEUE, piece, wait_stall=OPERATION_WITHIN_S)
            await stream.publish_async_completed()

        return asyncio.run(_with_stream(url, send))


def nats_receive(url: str, to: str, size: int) -> dict[str, float]:
    """Receive them into a file and acknowledge each; the figures are those of `nats_get`."""
    unsynced = 0.0
    with Path(to).open("wb") as file:

        async def receive(stream: JetStreamContext) -> None:
            nonlocal unsynced
            taken = await stream.pull_subscribe(NATS_QUEUE, durable="receiver")
            began, left = time.perf_counter(), size
            while left > 0:
                for message in await taken.fetch(NATS_ON_THEIR_WAY, OPERATION_WITHIN_S):
                    file.write(message.data)
                    left -= len(message.data)
                    await message.ack()
            file.flush()
            unsynced = time.perf_counter() - began
            os.fsync(file.fileno())

        return asyncio.run(_with_stream(url, receive)) | {"unsynced": unsynced}


async def _with_stream(
    url: str, work: Callable[[JetStreamContext], Awaitable[object]]
) -> dict[str, float]:
    from nats.js.api import RetentionPolicy

    async def with_stream(stream: JetStreamContext) -> float:
        await stream.add_stream(
            name=NATS_QUEUE, subjects=[NATS_QUEUE], retention=RetentionPolicy.WORK_QUEUE
        )
        return await _seconds(work(stream))

    return await _connected(url, with_stream)


async def _with_store(
    url: str, work: Callable[[ObjectStore], Awaitable[object]]
) -> dict[str, float]:
    async def with_store(stream: JetStreamContext) -> float:
        store = await stream.create_object_store(BUCKET)
        return await _seconds(work(store))

    return await _connected(url, with_store)


async def _connected(
    url: str, work: Callable[[JetStreamContext], Awaitable[float]]
) -> dict[str, float]:
    import nats

    connection = await nats.connect(url)
    try:
        stream = connection.jetstream(
            timeout=OPERATION_WITHIN_S, publish_async_max_pending=NATS_ON_THEIR_WAY
        )
        return {"seconds": await work(stream)}
    finally:
        await connection.close()


async def _seconds(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def rabbitmq_send(port: int, path: str) -> dict[str, float]:
    """Send a file as persistent messages, each confirmed."""
    import pika

    with _rabbitmq(port) as connection:
        channel = connection.channel()
        channel.queue_declare("bench", durable=True)
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
        began = time.perf_counter()
        with Path(path).open("rb") as file:
            while piece := file.read(MESSAGE_BYTES):
                channel.basic_publish("", "bench", piece, persistent, mandatory=True)
        return {"seconds": time.perf_counter() - began}


def artemis_send(port: int, path: str) -> dict[str, float]:
    """Send a file as persistent messages, each confirmed."""
    stomp = Stomp(port)
    began = time.perf_counter()
    with Path(path).open("rb") as file:
        while piece := file.read(MESSAGE_BYTES):
            stomp.send([piece])
    seconds = time.perf_counter() - began
    stomp.close()
    return {"seconds": seconds}


def artemis_receive(port: int, to: str, size: int) -> dict[str, float]:
    """Receive them into a file, each in a transaction of its own."""
    stomp = Stomp(port)
    began, left = time.perf_counter(), size
    with Path(to).open("wb") as file:
        while left > 0:
            for body in stomp.take(1):
                file.write(body)
                left -= len(body)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - began
    stomp.close()
    return {"seconds": seconds}


def rabbitmq_receive(port: int, to: str, size: int) -> dict[str, float]:
    """Receive them into a file; the figures are those of `nats_get`."""
    with _rabbitmq(port) as connection:
        channel = connection.channel()
        channel.queue_declare("bench", durable=True)
        channel.basic_qos(prefetch_count=10)
        began, left = time.perf_counter(), size
        with Path(to).open("wb") as file:
            for method, _, body in channel.consume("bench", inactivity_timeout=OPERATION_WITHIN_S):
                file.write(body)
                channel.basic_ack(method.delivery_tag)
                left -= len(body)
                if left <= 0:
                    break
            file.flush()
            unsynced = time.perf_counter() - began
            os.fsync(file.fileno())
        seconds = time.perf_counter() - began
        channel.cancel()
        return {"seconds": seconds, "unsynced": unsynced}


def _rabbitmq(port: int) -> pika.BlockingConnection:  # type: ignore[name-defined]  # noqa: F821
    import pika

    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", port, heartbeat=0, blocked_connection_timeout=60)
    )
