"""What the peers' own Python clients do with one file, timed like `benches.clients`.

NATS: the Object Store of JetStream, file storage, in pieces of its own choosing. RabbitMQ:
persistent messages of 4 MB into a durable queue, each confirmed before the next is sent; received
with manual acknowledgments. Whatever is received goes into a file that is synced before the clock
stops, as with Dray.
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
    from nats.js.object_store import ObjectStore

BUCKET = "bench"
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


async def _with_store(
    url: str, work: Callable[[ObjectStore], Awaitable[object]]
) -> dict[str, float]:
    import nats

    connection = await nats.connect(url)
    try:
        stream = connection.jetstream(timeout=OPERATION_WITHIN_S)
        store = await stream.create_object_store(BUCKET)
        began = time.perf_counter()
        await work(store)
        return {"seconds": time.perf_counter() - began}
    finally:
        await connection.close()


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
