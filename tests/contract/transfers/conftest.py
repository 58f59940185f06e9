"""A manager behind three doors, a file, and what offers it."""

from __future__ import annotations

import os

import pytest

from dray.client.files import steps
from tests.contract.faces import AwaitedFace, BlockingFace
from tests.contract.transfers.parties import FRAGMENT, SOON_S, WINDOW, Gate, Halfway, Saving


@pytest.fixture(
    scope="module",
    params=[(BlockingFace, "embedded"), (AwaitedFace, "tcp"), (BlockingFace, "unix")],
    ids=["blocking-embedded", "awaited-tcp", "blocking-unix"],
)
def corner(request):
    """A face and a door; a transfer is a thread with sockets of its own behind all of them."""
    face = request.param[0]()
    yield face, request.param[1]
    face.close()


@pytest.fixture
def face(corner):
    return corner[0]


@pytest.fixture(scope="module")
def manager(corner, tmp_path_factory, addresses):
    face, door = corner
    if door == "embedded":
        opened = face.open(tmp_path_factory.mktemp("embedded") / "data")
    else:
        opened = face.connect(addresses[door])
    with opened as manager:
        yield manager


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Where this test's transfers are kept."""
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    return tmp_path / "transfers"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "report.bin"
    path.write_bytes(os.urandom(40 * FRAGMENT + 7))
    return path


@pytest.fixture
def reports(make_queue):
    return make_queue().name


@pytest.fixture
def offer_of(manager):
    """Offers a file in small fragments; ends what a test leaves running."""
    offers = []

    def offer(path, to, **options):
        options = {"fragment_size": FRAGMENT, "window_size": WINDOW, **options}
        offers.append(manager.offer_file(path, to, **options))
        return offers[-1]

    yield offer
    for each in offers:
        each.close()


@pytest.fixture
def gate(monkeypatch):
    """Makes the one gate of a test."""
    gates = []

    def make(step: str, count: int = 1) -> Gate:
        gates.append(Gate(step, count))
        monkeypatch.setattr(steps, "watch", gates[-1])
        return gates[-1]

    yield make
    for each in gates:
        each.opened.set()


@pytest.fixture
def halfway(*, manager, reports, source, offer_of, tmp_path, gate):
    """Offers the file, has it saved, and holds that at the tenth time of a step."""

    def begin(step, *, target=tmp_path / "out", between=lambda: None, **options) -> Halfway:
        held = gate(step, 10)
        offer = offer_of(source, reports, **options)
        between()
        incoming = manager.accept_file(source=reports, timeout=SOON_S)
        saving = Saving(incoming, target)
        assert held.reached.wait(SOON_S)
        return Halfway(held, offer, incoming, saving)

    return begin
