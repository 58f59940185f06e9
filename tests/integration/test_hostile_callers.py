"""Callers who say anything at all, over real sockets: others notice nothing.

What each says comes from a seed: frames of every kind with any values in them, bodies of any size,
bytes that are no frames, half of a frame; some never fetch their answers, some hang up in between.
"""

from __future__ import annotations

import logging
import os
import random
import threading

import pytest

import dray
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.errors import DrayError
from dray.wire import file_frames, frames, queue_frames
from tests.cost import Costs, calls_in_loop, descriptors, p99
from tests.integration.commands import until
from tests.unit.daemon.raw_client import RawClient, connected
from tests.unit.manager.test_any_frame import Babbler

pytestmark = pytest.mark.slow

SESSIONS = 40
FRAMES = 40
SYSTEM_AND_MORE = 24
"""Queues that the callers know by number; the one of those who are honest comes behind them."""
PAUSES = 5.0


@pytest.fixture
def daemon(tmp_path):
    options = ServeOptions(
        data="", listen="127.0.0.1:0", open=True, socket=str(tmp_path / "dray.sock")
    )
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    yield daemon
    daemon.stop()


def spoken(babbler: Babbler) -> bytes:
    """Some frames, perhaps damaged, perhaps cut short."""
    chance, said = babbler.random, bytearray()
    for head in babbler.heads(FRAMES):
        if isinstance(head, queue_frames.SetQuota):
            continue  # Whoever is let in may set it; then the honest have no room, and rightly so.
        body = chance.randbytes(chance.choice([0, 0, 0, 1, 64, 300, 20_000, 200_000]))
        said += frames.encode_frame(head, chance.choice([0, 1, 1 << 31]), len(body)) + body
    if chance.random() < 0.3:
        for _ in range(chance.randrange(1, 20)):
            said[chance.randrange(len(said))] = chance.randrange(256)
    if chance.random() < 0.3:
        del said[chance.randrange(len(said)) :]
    return bytes(said)


def visit(client: RawClient, seed: int) -> None:
    """One hostile session; whenever the daemon ends it, it is over."""
    babbler = Babbler(seed)
    try:
        with client:
            if babbler.random.random() < 0.9:
                client.say(frames.Hello(babbler.random.choice(["client", "manager"]), "c" * 32))
                client.hear()
            client.socket.settimeout(PAUSES)
            client.socket.sendall(spoken(babbler))
            if babbler.random.random() < 0.5:
                client.socket.settimeout(0.02)
                while True:
                    client.hear()
    except (DrayError, EOFError, OSError):
        return


def send_and_receive(address: str, over: threading.Event, failures: list[BaseException]) -> None:
    try:
        with dray.connect(address) as manager:
            queue = manager.queue("honest")
            sent = 0
            while not over.is_set() or sent == 0:
                queue.send(b"%d" % sent)
                assert queue.receive(timeout=100).body == b"%d" % sent
                sent += 1
    except BaseException as error:  # noqa: BLE001 - told in the thread of the test
        failures.append(error)


@pytest.mark.parametrize("first", [0, 1000, 2000])
def test_whatever_callers_say_the_daemon_goes_on_and_others_notice_nothing(daemon, caplog, first):
    tcp, unix = sorted(daemon.addresses, key=lambda address: "unix" in address)
    with dray.connect(tcp) as manager:
        for number in range(SYSTEM_AND_MORE):
            manager.create_queue(f"made-{number}", transactional=number % 3 > 0)
        manager.create_queue("honest")
    over, failures = threading.Event(), []
    honest = threading.Thread(target=send_and_receive, args=(tcp, over, failures))
    honest.start()
    chance = random.Random(first)
    with caplog.at_level(logging.ERROR):
        for seed in range(first, first + SESSIONS):
            door = chance.choice([tcp, unix, ""])
            visit(connected(door) if door else RawClient(daemon.connect()), seed)
        over.set()
        honest.join(200)
    assert not honest.is_alive()
    assert failures == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    with dray.connect(tcp) as manager:
        assert manager.queue("honest").info().message_count == 0


def lend(client: RawClient, seed: int, lent: int) -> None:
    """One session that lends files with frames of any kind, whole, cut short, or of no file."""
    babbler = Babbler(seed)
    try:
        with client:
            client.ask(frames.Hello("client"))
            client.socket.settimeout(PAUSES)
            for other in babbler.heads(12):
                size = babbler.random.choice([0, 100, 1 << 40])
                head = babbler.random.choice([other, file_frames.SendFile(16, 0, size, 0, 0)])
                body = babbler.random.randbytes(babbler.random.choice([0, 64]))
                files = [lent] * babbler.random.choice([1, 1, 1, 2])
                cut = babbler.random.choice([0, 0, 1])
                client.lend(head, *files, request_id=1, body=body, cut=cut)
    except (DrayError, EOFError, OSError):
        return


def test_no_visit_holds_the_loop_and_nothing_of_a_visitor_stays(tmp_path):
    """No callback of the daemon's loop takes long, counted in lines; descriptors are back."""
    options = ServeOptions(data="", socket=str(tmp_path / "dray.sock"))
    costs = Costs()
    with costs.in_loops():
        daemon = EmbeddedDaemon(tmp_path / "data", options)
        daemon.start()
    try:
        (address,) = daemon.addresses
        server = daemon._server
        with dray.connect(address) as manager:
            for number in range(SYSTEM_AND_MORE):
                manager.create_queue(f"made-{number}", transactional=number % 3 > 0)
            lent = os.open(tmp_path / "lent", os.O_RDWR | os.O_CREAT, 0o600)
            os.pwrite(lent, bytes(1_000), 0)
            queue = manager.create_queue("honest")

            def exchange() -> int:
                """Calls of the loop for a send and a receive: what visitors leave counts in."""

                def both() -> None:
                    queue.send(b"honest")
                    assert queue.receive(timeout=60).body == b"honest"

                return calls_in_loop(server._loop, both)

            exchange()
            alone, among = p99([exchange() for _ in range(12)]), []
            sessions, before = len(server._sessions), descriptors()
            for seed in range(12):
                visit(connected(address), seed)
                among.append(exchange())
                lend(connected(address), seed, lent)
                among.append(exchange())
            assert p99(among) <= 3 * alone, (among, alone)
            until(lambda: len(server._sessions) == sessions)
            until(lambda: not server._around.copier.files_lent)
            until(lambda: not server._around.intake.bytes_held)
            # Heap files that were written to stay open, up to their own bound.
            until(lambda: not [each for each in descriptors() - before if ".mq" not in each])
            os.close(lent)
    finally:
        daemon.stop()
    costs.check()
