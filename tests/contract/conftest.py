"""One suite of promises, kept alike by both faces, here, over TCP and over a Unix socket."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

import dray
from dray.client.manager import Manager
from dray.client.queue import Queue
from tests.contract.faces import AwaitedFace, BlockingFace

FACES = (BlockingFace, AwaitedFace)
DOORS = ("embedded", "tcp", "unix")


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real daemon behind real sockets; its addresses by the kind of door."""
    from dray.daemon.config import ServeOptions
    from dray.daemon.embedded import EmbeddedDaemon

    path = tmp_path_factory.mktemp("manager")
    daemon = EmbeddedDaemon(
        path / "data",
        ServeOptions(data="", listen="127.0.0.1:0", socket=str(path / "dray.sock")),
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
    manager.create_queue("statusq", exist_ok=True)
    return face.LargeMessageQueue(queue, fragment_size=1000)
