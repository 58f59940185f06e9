"""A queue manager in this process."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading

import pytest

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.server import Server
from dray.errors import AddressInUse, ConnectionLost, StoreLocked
from dray.wire import frames
from tests.cost import calls_of
from tests.unit.daemon.raw_client import RawClient

CALLS_OF_A_SEND = 250
"""Of Python functions, in the client's part and the queue manager's; 365 before."""
CALLS_IN_A_BATCH = 5
"""For each of a hundred messages that are sent and committed; 31 at first, then 17, then 7."""
CALLS_IN_A_BATCH_TAKEN = 6
"""For each of a hundred messages that are received outside transactions; 22 before, then 8."""


def test_a_session_over_a_socket_pair_is_served(tmp_path):
    daemon = EmbeddedDaemon(tmp_path / "data")
    daemon.start()
    with RawClient(daemon.connect()) as client:
        welcome = client.ask(frames.Hello("client")).head
        assert isinstance(welcome, frames.Welcome)
    daemon.stop()


def test_lone_sends_and_batches_take_few_calls(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        queue = manager.create_queue("orders", transactional=True)

        def send_batch():
            with manager.transaction() as transaction:
                queue.send_many([b"body"] * 100, transaction=transaction)

        for _ in range(2):
            queue.send(b"body")
            send_batch()
        # The least of some: a checkpoint or a timer may fall into one.
        assert min(calls_of(lambda: queue.send(b"body")) for _ in range(5)) <= CALLS_OF_A_SEND
        assert min(calls_of(send_batch) for _ in range(5)) <= 100 * CALLS_IN_A_BATCH


def test_a_batch_that_is_received_outside_transactions_takes_few_calls(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        queue = manager.create_queue("orders")
        for _ in range(4):
            queue.send_many([bytes(1024)] * 100)

        def receive_batch():
            assert len(queue.receive_many(100)) == 100

        calls = min(calls_of(receive_batch) for _ in range(4))
        assert calls <= 100 * CALLS_IN_A_BATCH_TAKEN


def test_the_manager_id_is_drawn_once_and_kept(tmp_path):
    ids = []
    for _ in range(2):
        daemon = EmbeddedDaemon(tmp_path / "data")
        daemon.start()
        with RawClient(daemon.connect()) as client:
            ids.append(client.ask(frames.Hello("client")).head.manager_id)
        daemon.stop()
    assert ids[0] == ids[1]
    assert len(bytes.fromhex(ids[0])) == 16


def test_options_of_quotas_count_until_a_program_sets_one_and_then_no_more(tmp_path):
    for quota in (1_000, 2_000):
        with dray.open(tmp_path / "data", quota=quota, journal_quota=300) as manager:
            assert (manager.info().quota, manager.info().journal_quota) == (quota, 300)
    with dray.open(tmp_path / "data", quota=3_000, journal_quota=300) as manager:
        manager.set_quota(quota=5_000)
    with dray.open(tmp_path / "data", quota=None, journal_quota=700) as manager:
        assert (manager.info().quota, manager.info().journal_quota) == (5_000, 300)


def test_several_run_in_one_process_each_with_its_own_directory(tmp_path):
    daemons = [EmbeddedDaemon(tmp_path / str(number)) for number in range(3)]
    ids = set()
    for daemon in daemons:
        daemon.start()
    for daemon in daemons:
        with RawClient(daemon.connect()) as client:
            ids.add(client.ask(frames.Hello("client")).head.manager_id)
    for daemon in daemons:
        daemon.stop()
    assert len(ids) == 3


def test_a_directory_in_use_is_refused_in_the_callers_thread(tmp_path):
    first = EmbeddedDaemon(tmp_path / "data")
    first.start()
    with pytest.raises(StoreLocked):
        EmbeddedDaemon(tmp_path / "data").start()
    first.stop()
    second = EmbeddedDaemon(tmp_path / "data")
    second.start()
    second.stop()


def test_an_address_in_use_leaves_the_directory_free(tmp_path):
    first = EmbeddedDaemon(tmp_path / "1", read_options(data="", listen="127.0.0.1:0", open=True))
    first.start()
    port = first.addresses[0].rpartition(":")[2]
    taken = read_options(data="", listen=f"127.0.0.1:{port}", open=True)
    with pytest.raises(AddressInUse):
        EmbeddedDaemon(tmp_path / "2", taken).start()
    first.stop()
    again = EmbeddedDaemon(tmp_path / "2", taken)
    again.start()
    again.stop()


def test_after_stop_there_is_no_connecting_and_stopping_again_is_harmless(tmp_path):
    daemon = EmbeddedDaemon(tmp_path / "data")
    daemon.stop()
    daemon.start()
    client = RawClient(daemon.connect())
    daemon.stop()
    daemon.stop()
    assert client.is_hung_up()
    client.socket.close()
    with pytest.raises(ConnectionLost):
        daemon.connect()


def test_a_start_without_descriptors_left_is_an_error_and_does_not_wait(tmp_path, monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("dray.daemon.embedded.LentLoop", none_left)
    with pytest.raises(OSError, match="Too many open files"):
        EmbeddedDaemon(tmp_path / "data").start()


def test_an_interrupted_start_can_be_stopped(tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    def make(loop, options):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        return Server(loop, options)

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        daemon = EmbeddedDaemon(tmp_path / "data", make=make)
        with pytest.raises(KeyboardInterrupt):
            daemon.start()
    finally:
        signal.signal(signal.SIGUSR1, before)
    daemon.stop()
    again = EmbeddedDaemon(tmp_path / "data")
    again.start()
    again.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "warned"),
    [
        ("import dray; dray.open({!r})", 1),
        ("import asyncio, dray.aio as a; asyncio.run(a.open({!r}).__aenter__())", 1),
        ("import dray; manager = dray.open({!r})", 1),
        ("import dray; manager = dray.open({!r}); manager.close()", 0),
        ("import os, dray; m = dray.open({!r}); os.fork() and (os.wait(), m.close())", 0),
    ],
)
def test_a_queue_manager_that_is_dropped_unclosed_is_told(tmp_path, program, warned):
    code = program.format(str(tmp_path / "data"))
    ended = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", code],
        capture_output=True, check=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.stderr.count("ResourceWarning: the queue manager over") == warned, ended.stderr
