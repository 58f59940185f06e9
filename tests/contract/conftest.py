"""One suite of promises, kept alike by both faces, here, over TCP and over a Unix socket."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dray
from dray.client.blocking.manager import Manager
from dray.client.blocking.queue import Queue
from tests.contract.faces import AwaitedFace, BlockingFace, inside
from tests.lines.losing_line import LosingLine

if TYPE_CHECKING:
    from dray.daemon.embedded import EmbeddedDaemon

FACES = (BlockingFace, AwaitedFace)
DOORS = ("embedded", "tcp", "unix")
HERE = Path(__file__).parent
SHARED = ("face", "addresses")
"""Fixtures of the whole run: an embedded manager ends with its face."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Item | None) -> Iterator[None]:
    """End what the tests of this folder share, when the next test is of another folder.

    Tests elsewhere change classes and functions of the whole process for a moment, and a queue
    manager that still ran here would meet the change.
    """
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.path.is_relative_to(HERE):
            for name in SHARED:
                for each in item.session._fixturemanager.getfixturedefs(name, item) or ():
                    each.finish(item._request)


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real daemon behind real sockets; its addresses by the kind of door."""
    from dray.daemon.config import ServeOptions
    from dray.daemon.embedded import EmbeddedDaemon

    path = tmp_path_factory.mktemp("manager")
    daemon = EmbeddedDaemon(
        path / "data",
        ServeOptions(data="", listen="127.0.0.1:0", open=True, socket=str(path / "dray.sock")),
    )
    daemon.start()
    tcp, unix = sorted(daemon.addresses, key=lambda address: "unix" in address)
    yield {"tcp": tcp, "unix": unix}
    daemon.stop()


@pytest.fixture(scope="session", params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[BlockingFace | AwaitedFace]:
    """`dray`, or `dray.aio` in the shape of `dray`."""
    face = request.param()
    yield face
    face.close()


@pytest.fixture(scope="session")
def embedded(face, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    with face.open(tmp_path_factory.mktemp("embedded") / "data") as manager:
        yield manager


@pytest.fixture(params=DOORS)
def manager(face, request: pytest.FixtureRequest) -> Iterator[Manager]:
    """A queue manager, through each door and each face."""
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
        return
    with face.connect(request.getfixturevalue("addresses")[request.param]) as connected:
        yield connected


@pytest.fixture
def make_queue(manager: Manager) -> Callable[..., Queue]:
    """Makes queues with names of their own, so that tests share a manager without meeting."""

    def make(**options: object) -> Queue:
        return manager.create_queue(f"q-{uuid.uuid4().hex}", **options)

    return make


@pytest.fixture
def queue(make_queue: Callable[..., Queue]) -> Queue:
    return make_queue()


@pytest.fixture
def large(face, manager: Manager, queue: Queue) -> dray.LargeMessageQueue:
    """A queue for large messages, cut small so that many fragments are cheap."""
    return face.LargeMessageQueue(queue, fragment_size=1000)


class House:
    """A queue manager of this test's own, which can be started again behind the same door."""

    def __init__(self, face, door: str, path: Path) -> None:
        self._face, self._door, self._path = face, door, path
        self._daemon: EmbeddedDaemon | None = None
        self.manager: Manager | None = None

    def start(self, **options: object) -> Manager:
        """Start the manager, or stop it and start it again."""
        self.stop()
        if self._door == "embedded":
            self.manager = self._face.open(self._path / "data", **options)
            return self.manager
        from dray.daemon.config import ServeOptions
        from dray.daemon.embedded import EmbeddedDaemon

        at = {"listen": "127.0.0.1:0", "open": True, "socket": str(self._path / "s")}
        self._daemon = EmbeddedDaemon(self._path / "data", ServeOptions(data="", **at, **options))
        self._daemon.start()
        self.manager = self._face.connect(self.url)
        return self.manager

    @property
    def url(self) -> str | None:
        """Where the manager listens; an embedded one listens nowhere."""
        if self._daemon is None:
            return None
        tcp, unix = sorted(self._daemon.addresses, key=lambda address: "unix" in address)
        return unix if self._door == "unix" else tcp

    def stop(self) -> None:
        """End the manager and whoever is connected to it."""
        if self.manager is not None:
            self.manager.close()
        if self._daemon is not None:
            self._daemon.stop()
        self.manager = self._daemon = None


@pytest.fixture(params=DOORS)
def house(face, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    house = House(face, request.param, tmp_path)
    yield house
    house.stop()


@pytest.fixture
def line(manager):
    """A losing line between this handle and its queue manager."""
    link = getattr(inside(manager), "awaited", inside(manager))._link
    with LosingLine(link._dialer.dial) as line:
        link._dialer = line
        link._connection.fail(dray.ConnectionLost("the test wants another connection"))
        manager.info()
        yield line
