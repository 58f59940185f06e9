"""A daemon around the echo manager, in a thread, over a disk whose syncs can be held up."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.server import Server
from dray.model.callers import Caller
from tests.unit.daemon.echo_manager import EchoManager
from tests.unit.daemon.gated_disk import Gate, GatedDisk
from tests.unit.daemon.raw_client import RawClient, connected


def eventually(what: Callable[[], object], patience_s: float = 100.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.001)


class EchoDaemon:
    """What a test needs of a running daemon."""

    def __init__(self, path, **options) -> None:
        self.gate = Gate()
        self.managers: list[EchoManager] = []
        self.servers: list[Server] = []
        self.daemon = EmbeddedDaemon(path, read_options(data="", **options), make=self._make)
        self.daemon.start()

    def _make(self, loop, options) -> Server:
        server = Server(loop, options, load=self._load, open_disk=self._open, caller_says=None)
        self.servers.append(server)
        return server

    def _load(self, store, config, now) -> EchoManager:
        self.managers.append(EchoManager.load(store, config, now))
        return self.managers[-1]

    def _open(self, path: str) -> GatedDisk:
        return GatedDisk(path, self.gate)

    def session_of(self, name: str) -> RawClient:
        """A session of a caller that is not the owner, over a socket that carries files."""
        ours, theirs = socket.socketpair()
        self.daemon._in_loop(self.servers[0].adopt, theirs, Caller(name))
        return RawClient(ours)

    @property
    def manager(self) -> EchoManager:
        return self.managers[-1]

    def client(self) -> RawClient:
        return RawClient(self.daemon.connect())

    def tcp_client(self) -> RawClient:
        return connected(self.daemon.addresses[0])

    def stop(self) -> None:
        self.gate.open.set()
        self.daemon.stop()


@pytest.fixture
def echo(tmp_path) -> Iterator[EchoDaemon]:
    daemon = EchoDaemon(tmp_path / "data", listen="127.0.0.1:0", open=True)
    yield daemon
    daemon.stop()


@pytest.fixture
def wait_until():
    return eventually


@pytest.fixture
def echo_daemon(tmp_path):
    """Start more of them, each in a directory by name."""

    @contextmanager
    def started(name: str, **options) -> Iterator[EchoDaemon]:
        daemon = EchoDaemon(tmp_path / name, **options)
        try:
            yield daemon
        finally:
            daemon.stop()

    return started
