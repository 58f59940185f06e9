"""Clients of benchmarks, each run in a process of its own by `benches.processes.client`.

A client prints one JSON object: seconds, and by how many bytes its memory grew at most.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

import dray
from benches.console_clients import poll_pages
from benches.peer_clients import (
    artemis_receive,
    artemis_send,
    nats_get,
    nats_put,
    nats_receive,
    nats_send,
    rabbitmq_receive,
    rabbitmq_send,
)
from benches.processes import CLIENT_WITHIN_S, peak, reset_peak
from benches.small_peer_clients import (
    prepare_postgres,
    small_batches,
    small_lone,
    small_together,
)
from benches.spark_clients import land_in_turn
from benches.spark_large_clients import land_by_tasks, land_large
from benches.spark_row_clients import open_table, read_rows
from benches.spark_trigger_clients import trigger_queries
from dray.client.awaited import transfers
from dray.client.transfer import accepting
from dray.client.transfer.direct import connect, listen_at
from dray.errors import DrayError
from dray.wire.transfer_frames import Joined

PING_BYTES = 1024
PLAIN_PIECE_BYTES = 1 << 20
PING_WITHIN_S = 60.0


def send_large(url: str, queue: str, path: str, digest: str | None = None) -> dict[str, float]:
    """Send one file as a large message; timed from the first byte to the commit's answer."""
    with dray.connect(url) as manager:
        large = dray.LargeMessageQueue(manager.queue(queue), digest=digest)
        before = reset_peak("self")
        began = time.perf_counter()
        with manager.transaction() as transaction:
            large.send(Path(path), label=Path(path).name, transaction=transaction)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "growth": peak("self") - before}


def receive_large(url: str, queue: str, to: str, *, sync: bool = True) -> dict[str, float]:
    """Receive one large message into a file; timed from asking to the commit's answer."""
    with dray.connect(url) as manager:
        large = dray.LargeMessageQueue(manager.queue(queue))
        before = reset_peak("self")
        began = time.perf_counter()
        with (
            manager.transaction() as transaction,
            large.receive(timeout=60, transaction=transaction) as message,
        ):
            message.save_to(to, sync=sync)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "growth": peak("self") - before, "size": message.size}


def plain_send(path: str, *, memory: bool, host: str) -> dict[str, float]:
    """Send one file over a plain TCP stream to whoever connects first; from memory if asked to."""
    listener = socket.create_server((host, 0))
    _tell_port(listener.getsockname()[1])
    sock, _ = listener.accept()
    listener.close()
    with sock, Path(path).open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        sock.sendall(struct.pack("<Q", size))
        if memory:
            piece = memoryview(file.read(PLAIN_PIECE_BYTES))
            for start in range(0, size, len(piece)):
                sock.sendall(piece[: size - start])
        else:
            at = 0
            while at < size:
                at += os.sendfile(sock.fileno(), file.fileno(), at, size - at)
        sock.recv(1)
    return {}


def plain_receive(port: int, *, to: str, host: str) -> dict[str, float]:
    """Receive what `plain_send` sends, into a synced file or into nothing."""
    began = time.perf_counter()
    room = memoryview(bytearray(PLAIN_PIECE_BYTES))
    with socket.create_connection((host, port)) as sock, ExitStack() as stack:
        (left,) = struct.unpack("<Q", sock.recv(8, socket.MSG_WAITALL))
        file = stack.enter_context(Path(to).open("wb", buffering=0)) if to else None
        while left:
            count = sock.recv_into(room)
            left -= count
            if file is not None:
                file.write(room[:count])
        if file is not None:
            os.fsync(file.fileno())
        seconds = time.perf_counter() - began
        sock.send(b"!")
    return {"seconds": seconds}


def offer_file(url: str, path: str, *, relayed: bool, host: str) -> dict[str, float]:
    """Offer one file, and serve it to its end; prints the port at which it listens before."""
    with dray.connect(url) as manager:
        listener = listen_at(host)
        listen = None if relayed else host
        with mock.patch.object(transfers, "listen_at", return_value=listener):
            offer = manager.offer_file(path, "reports", listen=listen)
        _tell_port(listener.getsockname()[1])
        status = offer.wait(CLIENT_WITHIN_S)
        listener.close()
        return {"resent": status.fragments_resent}


def accept_file(url: str, to: str, *, port: int) -> dict[str, float]:
    """Accept one file; a direct connection goes to `port`, where a long line may begin.

    `connections` says how many did: none if it came through the queue manager.
    """
    connections = 0

    def through(joined: Joined) -> socket.socket:
        nonlocal connections
        connections += 1
        assert joined.direct is not None
        host, _, token = joined.direct
        return connect(msgspec.structs.replace(joined, direct=(host, port, token)))

    with dray.connect(url) as manager:
        incoming = manager.accept_file("reports", timeout=60)
        before = reset_peak("self")
        began = time.perf_counter()
        with mock.patch.object(accepting, "connect", through):
            incoming.save_to(to)
        seconds = time.perf_counter() - began
        growth = peak("self") - before
        return {"seconds": seconds, "growth": growth, "connections": connections}


def _tell_port(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


def send_small(
    url: str, queue: str, *, count: int, size: int, batch: int, threads: int
) -> dict[str, float]:
    """Send `count` messages of `size` bytes, `batch` in each transaction.

    Each of the `threads` waits for the commit of its transaction before it begins another.
    """
    body = os.urandom(size)
    with dray.connect(url) as manager:
        target = manager.queue(queue)
        target.send(body)
        before = manager.info()

        def send(_: int) -> None:
            messages = [dray.Message(body=body, app_specific=index) for index in range(batch)]
            with manager.transaction() as transaction:
                target.send_many(messages, transaction=transaction)

        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            deque(pool.map(send, range(count // batch)), maxlen=0)
        seconds = time.perf_counter() - began
        after = manager.info()
    return {
        "seconds": seconds,
        "syncs": after.syncs - before.syncs,
        "groups": after.groups - before.groups,
    }


def send_singly(
    url: str, queue: str, *, count: int, size: int, recoverable: bool
) -> dict[str, float]:
    """Send `count` messages outside transactions, one a call, and remove them again."""
    body = os.urandom(size)
    with dray.connect(url) as manager:
        target = manager.queue(queue)
        target.send(body, recoverable=recoverable)
        before = manager.info()
        began = time.perf_counter()
        for _ in range(count):
            target.send(body, recoverable=recoverable)
        seconds = time.perf_counter() - began
        after = manager.info()
        target.purge()
    return {"seconds": seconds, "syncs": after.syncs - before.syncs}


def receive_small(url: str, queue: str, *, count: int, batch: int) -> dict[str, float]:
    """Receive `count` messages, `batch` in each transaction."""
    with dray.connect(url) as manager:
        source = manager.queue(queue)
        began = time.perf_counter()
        taken = 0
        while taken < count:
            with manager.transaction() as transaction:
                taken += len(source.receive_many(batch, timeout=10, transaction=transaction))
        return {"seconds": time.perf_counter() - began}


def send_big(url: str, queue: str, *, sizes: list[int], count: int, batch: int) -> dict[str, float]:
    """Send `count` messages of those sizes in turn, `batch` in each transaction, one by one."""
    bodies = [os.urandom(size) for size in sizes]
    done = 0
    with dray.connect(url) as manager:
        target = manager.queue(queue)
        target.send(b"first")
        began = time.perf_counter()
        for start in range(0, count, batch):
            with manager.transaction() as transaction:
                for index in range(start, start + batch):
                    body = bodies[index % len(bodies)]
                    target.send(body, transaction=transaction)
                    done += len(body)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "bytes": done}


def commit_alone(url: str, queue: str, *, count: int, size: int) -> dict[str, float]:
    """How long commits of one message take, and sends without a transaction, in microseconds."""
    body = os.urandom(size)
    commits, sends = [], []
    with dray.connect(url) as manager:
        target = manager.queue(queue)
        target.send(body)
        for _ in range(count):
            transaction = manager.transaction()
            target.send(body, transaction=transaction)
            began = time.perf_counter()
            transaction.commit()
            commits.append((time.perf_counter() - began) * 1e6)
        for _ in range(count):
            began = time.perf_counter()
            target.send(body)
            sends.append((time.perf_counter() - began) * 1e6)
    commits.sort()
    return {
        "commit": statistics.median(commits),
        "commit p99": commits[count * 99 // 100],
        "send": statistics.median(sends),
    }


def echo_with_syncs(folder: str, *, count: int, size: int, fact_bytes: int) -> dict[str, float]:
    """How long another plain program takes to sync what it is sent and to answer, in microseconds.

    It writes the body into one preallocated file and `fact_bytes` into another, as a queue manager
    does for a commit, and does nothing else: no commit of two Python programs can be faster.
    """
    ours, theirs = socket.socketpair()
    asked = {"line": theirs.fileno(), "folder": folder, "size": size, "fact_bytes": fact_bytes}
    command = [sys.executable, "-m", "benches.clients", "answer_with_syncs"]
    command.append(json.dumps(asked | {"count": count + 1}))
    body, found = os.urandom(size), []
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=sys.stderr) as other:
        theirs.close()
        for _ in range(count + 1):
            began = time.perf_counter()
            ours.sendall(body)
            if not ours.recv(1):
                raise DrayError("the program that syncs and answers ended before its time")
            found.append((time.perf_counter() - began) * 1e6)
        other.wait()
    # The first one waited until the other program had begun.
    return {"echo": statistics.median(found[1:])}


def answer_with_syncs(
    line: int, folder: str, *, count: int, size: int, fact_bytes: int
) -> dict[str, float]:
    """The other end of `echo_with_syncs`."""
    fact = os.urandom(fact_bytes)
    heap = _preallocated(Path(folder, "echo-heap"), count * size)
    log = _preallocated(Path(folder, "echo-log"), count * fact_bytes)
    with socket.socket(fileno=line) as sock:
        for index in range(count):
            os.pwrite(heap, sock.recv(size, socket.MSG_WAITALL), index * size)
            os.pwrite(log, fact, index * fact_bytes)
            os.fdatasync(heap)
            os.fdatasync(log)
            sock.send(b"!")
    return {}


def _preallocated(path: Path, size: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.posix_fallocate(descriptor, 0, size)
    os.fsync(descriptor)
    return descriptor


def commit_together(
    url: str, queue: str, *, count: int, size: int, clients: int
) -> dict[str, float]:
    """Commit `count` transactions of one message from many connections, each its own thread."""
    body = os.urandom(size)
    with ExitStack() as stack:
        managers = [stack.enter_context(dray.connect(url)) for _ in range(clients)]
        targets = [manager.queue(queue) for manager in managers]
        before = managers[0].info()

        def send(which: int) -> None:
            for _ in range(count // clients):
                with managers[which].transaction() as transaction:
                    targets[which].send(body, transaction=transaction)

        began = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            deque(pool.map(send, range(clients)), maxlen=0)
        seconds = time.perf_counter() - began
        after = managers[0].info()
    return {"seconds": seconds, "syncs": after.syncs - before.syncs}


def ping(
    url: str, queue: str, *, url_back: str, queue_back: str, seconds: float, every_s: float
) -> dict[str, list[float]]:
    """Send 1 KiB messages, one every so often, and receive each where it arrives.

    Milliseconds of each: until the send is answered, and until it has been received.
    """
    body = os.urandom(PING_BYTES)
    sends, whole = [], []
    with dray.connect(url) as manager, dray.connect(url_back) as there:
        target, arrives = manager.queue(queue), there.queue(queue_back)
        target.send(body)
        arrives.receive(timeout=PING_WITHIN_S)
        began = due = time.perf_counter()
        while due < began + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            due = max(due + every_s, time.perf_counter())
            sent = time.perf_counter()
            target.send(body)
            sends.append((time.perf_counter() - sent) * 1e3)
            arrives.receive(timeout=PING_WITHIN_S)
            whole.append((time.perf_counter() - sent) * 1e3)
    return {"sends": sends, "whole": whole}


CLIENTS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (
        send_large,
        receive_large,
        send_small,
        send_singly,
        receive_small,
        send_big,
        commit_alone,
        echo_with_syncs,
        answer_with_syncs,
        commit_together,
        ping,
        artemis_receive,
        artemis_send,
        nats_put,
        nats_get,
        nats_receive,
        nats_send,
        rabbitmq_send,
        rabbitmq_receive,
        plain_send,
        plain_receive,
        offer_file,
        accept_file,
        poll_pages,
        land_in_turn,
        land_by_tasks,
        land_large,
        open_table,
        read_rows,
        trigger_queries,
        prepare_postgres,
        small_lone,
        small_batches,
        small_together,
    )
}

if __name__ == "__main__":
    measured = CLIENTS[sys.argv[1]](**json.loads(sys.argv[2]))
    # By one clock for all clients, for what begins in one and ends in another.
    print(json.dumps(measured | {"ended": time.time()}))
