"""Backup and restore with real processes: under traffic, through kills, over the wire."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dray
from dray.errors import BackupDamaged, ConnectionLost, Misuse
from tests.integration.commands import until

DRAY = [sys.executable, "-m", "dray.cli"]
WITHIN_S = 100


class Daemon:
    """A manager in a process of its own."""

    def __init__(self, data: Path, listen: str = "127.0.0.1:0") -> None:
        command = [*DRAY, "serve", "--data", str(data), "--open", "--listen", listen]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(WITHIN_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    found = Daemon(tmp_path / "data")
    yield found
    if found.process.poll() is None:
        found.stop()


def received(manager, queue: str) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(bytes(manager.queue(queue).receive(timeout=0).body))
        except dray.ReceiveTimeout:
            return found


def run(*arguments: str, check: bool = True, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*DRAY, *arguments], capture_output=True, check=check, timeout=WITHIN_S, **more
    )


@pytest.mark.slow
def test_a_backup_under_traffic_is_one_moment_of_it(daemon: Daemon, tmp_path: Path):
    """Each transaction moves a token and notes it: any moment has one token and a whole history."""
    with dray.connect(daemon.url) as manager:
        state, history = manager.create_queue("state"), manager.create_queue("history")
        state.send(b"0")
        ballast = manager.create_queue("ballast")
        with manager.transaction() as transaction:
            for _ in range(12):
                ballast.send(os.urandom(3_000_000), transaction=transaction)
        stop = threading.Event()

        def traffic() -> None:
            with dray.connect(daemon.url) as own:
                own_state, own_history = own.queue("state"), own.queue("history")
                while not stop.is_set():
                    with own.transaction() as transaction:
                        token = int(bytes(own_state.receive(transaction=transaction).body))
                        own_state.send(b"%d" % (token + 1), transaction=transaction)
                        own_history.send(b"%d" % token, transaction=transaction)

        worker = threading.Thread(target=traffic)
        worker.start()
        try:
            archives = [tmp_path / f"{n}.dray" for n in range(5)]
            reports = [manager.backup(archive) for archive in archives]
        finally:
            stop.set()
            worker.join(WITHIN_S)
        assert history.info().message_count > reports[-1].messages - 14
    for n, archive in enumerate(archives):
        dray.restore(archive, tmp_path / f"new{n}")
        with dray.open(tmp_path / f"new{n}") as restored:
            (token,) = received(restored, "state")
            assert received(restored, "history") == [b"%d" % k for k in range(int(token))]
            assert restored.queue("ballast").info().message_count == 12
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_a_manager_killed_during_a_backup_leaves_no_file_and_loses_nothing(
    daemon: Daemon, tmp_path: Path
):
    with dray.connect(daemon.url) as manager:
        queue = manager.create_queue("orders")
        for _ in range(20):
            queue.send(os.urandom(2_000_000))

        def killed(done: int, _total: int) -> None:
            if done > 10_000_000 and daemon.process.poll() is None:
                daemon.stop(signal.SIGKILL)

        with pytest.raises(ConnectionLost):
            manager.backup(tmp_path / "a.dray", progress=killed)
    assert [each.name for each in tmp_path.iterdir()] == ["data"]
    with dray.open(tmp_path / "data") as manager:
        assert manager.queue("orders").info().message_count == 20
        manager.backup(tmp_path / "a.dray")


@pytest.mark.slow
def test_a_client_killed_during_a_backup_lets_go_of_the_heap(daemon: Daemon, tmp_path: Path):
    with dray.connect(daemon.url) as manager:
        queue = manager.create_queue("orders")
        for _ in range(20):
            queue.send(os.urandom(2_000_000))
        command = [*DRAY, "--url", daemon.url, "backup", "-"]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert client.stdout is not None
        client.stdout.read(1_000_000)
        client.kill()
        client.wait(WITHIN_S)
        client.stdout.close()

        def again() -> bool:
            try:
                manager.backup(tmp_path / "a.dray")
            except Misuse:
                return False
            return True

        until(again, WITHIN_S)


@pytest.mark.slow
def test_a_restore_killed_anywhere_leaves_nothing_under_the_name(daemon: Daemon, tmp_path: Path):
    with dray.connect(daemon.url) as manager:
        queue = manager.create_queue("orders")
        for _ in range(30):
            queue.send(os.urandom(1_000_000))
        manager.backup(tmp_path / "a.dray")
    archive = (tmp_path / "a.dray").read_bytes()
    new = tmp_path / "new"
    for share in (0.001, 0.3, 0.6, 0.99):
        command = [*DRAY, "restore", "-", str(new)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(archive[: int(len(archive) * share)])
        process.stdin.flush()
        until((tmp_path / "new.restoring").exists, WITHIN_S)
        process.kill()
        process.wait(WITHIN_S)
        process.stdin.close()
        assert not new.exists()
    run("restore", str(tmp_path / "a.dray"), str(new))
    assert not (tmp_path / "new.restoring").exists()
    with dray.open(new) as manager:
        assert manager.queue("orders").info().message_count == 30


@pytest.mark.slow
def test_through_pipes_and_back_with_every_command(daemon: Daemon, tmp_path: Path):
    with dray.connect(daemon.url) as manager:
        queue = manager.create_queue("orders")
        ids = [queue.send(b"order %d" % n) for n in range(50)]
    archive = run("--url", daemon.url, "backup", "-").stdout
    run("restore", "-", str(tmp_path / "new"), input=archive)
    checked = json.loads(run("check", "--data", str(tmp_path / "new"), "--json").stdout)
    assert (checked["clean"], checked["messages"]) == (True, 50)
    story = json.loads(
        run("inspect", "story", ids[7], "--data", str(tmp_path / "new"), "--json").stdout
    )
    assert story["now"][0]["lookup_id"] == 8
    refused = run("check", "--data", str(tmp_path / "data"), check=False)
    assert refused.returncode == 41
    damaged = bytearray(archive)
    damaged[len(damaged) // 2] ^= 8
    with pytest.raises(BackupDamaged):
        dray.restore(io.BytesIO(bytes(damaged)), tmp_path / "other")


@pytest.mark.slow
def test_a_restored_source_delivers_the_rest_exactly_once(tmp_path: Path):
    """Half of the backup was delivered before the source was lost, and more was sent after it."""
    destination = Daemon(tmp_path / "destination")
    source = Daemon(tmp_path / "source")
    address = f"{destination.url}/orders"
    try:
        with dray.connect(destination.url) as there, dray.connect(source.url) as here:
            there.create_queue("orders")
            outgoing = here.queue(address)
            outgoing.send(b"0")
            until(lambda: there.queue("orders").info().message_count == 1, WITHIN_S)
            here.pause(address)
            for n in range(1, 10):
                outgoing.send(b"%d" % n)
            here.backup(tmp_path / "a.dray")
            here.resume(address)
            until(lambda: there.queue("orders").info().message_count == 10, WITHIN_S)
            outgoing.send(b"after the backup")
            until(lambda: there.queue("orders").info().message_count == 11, WITHIN_S)
        source.stop(signal.SIGKILL)
        dray.restore(tmp_path / "a.dray", tmp_path / "again")
        source = Daemon(tmp_path / "again")
        with dray.connect(destination.url) as there, dray.connect(source.url) as here:
            assert here.queue(address).info().message_count == 9
            here.resume(address)
            here.queue(address).send(b"new")
            until(lambda: there.queue("orders").info().message_count == 12, WITHIN_S)
            assert here.queue(address).info().message_count == 0
            got = received(there, "orders")
        assert got == [*(b"%d" % n for n in range(10)), b"after the backup", b"new"]
    finally:
        for each in (source, destination):
            if each.process.poll() is None:
                each.stop()
