"""Forged sources and destinations against real queue managers: nothing is lost, and all is told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.delivery.keys import ONCE_BYTES, ManagerKey
from dray.wire import frames, peer_frames
from tests.integration.commands import until
from tests.integration.copied_stores import Pair
from tests.unit.daemon.raw_client import RawClient

FORGERS = ManagerKey(b"f" * 32)


@pytest.fixture
def pair(tmp_path):
    with Pair(tmp_path) as pair:
        yield pair


def hello_of(send: Callable[[str], None]) -> frames.Hello:
    """Make a source call us, and hear what it says of itself to anybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        send(f"dray://127.0.0.1:{server.getsockname()[1]}/anything")
        with RawClient(server.accept()[0]) as called:
            return called.hear_head(frames.Hello)


def hear_all(client: RawClient) -> list[str]:
    """The types of the frames that come until the other end hangs up."""
    heard = []
    try:
        while True:
            heard.append(type(client.hear().head).__name__)
    except (EOFError, ConnectionError, ssl.SSLError):
        return heard


def attack(client: RawClient, hello: frames.Hello, sequence_id: int, streams: range) -> str:
    """Say that the messages of streams do not come; the error with which the session ends."""
    welcome = client.ask(hello).head
    assert isinstance(welcome, frames.Welcome)
    client.say_together(
        *(
            forged
            for stream in streams
            for forged in (
                peer_frames.OpenStream(stream, "orders", proof=bytes(32)),
                peer_frames.Passed(stream, sequence_id, 0, 1 << 20),
            )
        )
    )
    failed = client.hear_head(frames.Failed)
    hear_all(client)
    return failed.sentence


def test_a_client_that_calls_under_the_id_of_a_source_makes_no_message_disappear(pair):
    with pair.source.process.connect() as manager:
        queue = manager.queue(pair.url)
        queue.send(b"first")
        until(lambda: queue.info().message_count == 0)
        sequence_id = queue.info().delivery.sequence_id
    hello = hello_of(lambda url: pair.source.send(url, b"bait"))
    pair.source.process.stop()
    port = pair.destination.process.port
    with RawClient(socket.create_connection(("127.0.0.1", port))) as forger:
        said = attack(forger, hello, sequence_id, range(1, 30))
    assert said == "the caller does not show the key of the queue manager that it names"
    until(lambda: pair.destination.warnings("key-not-shown"))
    (told,) = pair.destination.warnings("key-not-shown")
    assert hello.manager_id in told
    pair.source.process.start()
    sent = [b"%d" % n for n in range(5)]
    pair.send(*sent)
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"first", *sent]


def serving(path: Path, **options: str) -> EmbeddedDaemon:
    daemon = EmbeddedDaemon(path, read_options(data="", listen="127.0.0.1:0", open=True, **options))
    daemon.start()
    return daemon


class FalseDestination:
    """A process at the port of a destination that is down: says that it is it, and acks."""

    def __init__(self, port: int, welcome: frames.Welcome) -> None:
        self.server = socket.create_server(("127.0.0.1", port))
        self.welcome = welcome
        self.heard: list[str] = []
        self.calls = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self.server.accept()
            except OSError:
                return
            self.calls += 1
            with RawClient(sock) as called:
                called.hear_head(frames.Hello)
                called.say(self.welcome, 1)
                called.say(peer_frames.StreamState(1, 1 << 62, 1 << 20), 0)
                self.heard += hear_all(called)


@pytest.mark.parametrize("known", [True, False], ids=["met before", "never met"])
def test_a_process_at_the_port_of_a_dead_destination_is_sent_nothing(pair, known):
    """It says the id and the public key of the destination, which are no secrets."""
    if known:
        pair.delivered(b"first")
    with RawClient(socket.create_connection(("127.0.0.1", pair.destination.process.port))) as ours:
        hello = frames.Hello("manager", FORGERS.id, "", [], FORGERS.public, bytes(ONCE_BYTES))
        welcome = ours.ask(hello).head
    pair.destination.process.kill()
    sent = [b"%d" % n for n in range(5)]
    pair.send(*sent)
    impostor = FalseDestination(pair.destination.process.port, welcome)
    try:
        until(lambda: pair.source.outgoing(pair.url) == ("need-validation", 5))
        until(lambda: impostor.calls > 1)
        until(lambda: pair.source.warnings("key-not-shown"))
        with pair.source.process.connect() as manager:
            assert [each.found for each in manager.peers()] == [""] * known
            with pytest.raises(dray.Misuse, match="nothing to accept"):
                manager.accept_peer(pair.destination.url)
    finally:
        impostor.close()
    assert impostor.heard == []
    pair.destination.process.start()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"first"] * known + sent


@pytest.fixture
def ca(tmp_path, monkeypatch):
    """An authority for the source, the thief and localhost, whose files are beside its own."""
    authority = trustme.CA()
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    for name in ("localhost", "source", "thief"):
        chain = authority.issue_cert(name).private_key_and_cert_chain_pem
        chain.write_to_path(tmp_path / f"{name}.pem")
    monkeypatch.setenv("DRAY_CA", str(ca))
    monkeypatch.setenv("DRAY_CERT", str(tmp_path / "source.pem"))
    return ca


def test_another_certificate_of_the_same_authority_opens_no_stream_of_another_manager(tmp_path, ca):
    """Mutual TLS lets every holder of a certificate in; the key says which manager it is."""
    tls = {"tls_client_ca": str(ca)}
    there = serving(tmp_path / "b", tls_cert=str(tmp_path / "localhost.pem"), **tls)
    here = serving(tmp_path / "a")
    try:
        address = there.addresses[0].replace("127.0.0.1", "localhost")
        with dray.connect(address, ca=ca, cert=tmp_path / "thief.pem") as manager:
            manager.create_queue("orders")
            with dray.connect(here.addresses[0]) as source:
                queue = source.queue(f"{address}/orders")
                queue.send(b"first")
                until(lambda: queue.info().message_count == 0)
                sequence_id = queue.info().delivery.sequence_id
                thief = ssl.create_default_context(cafile=str(ca))
                thief.load_cert_chain(tmp_path / "thief.pem")
                port = int(address.rpartition(":")[2])
                plain = socket.create_connection(("127.0.0.1", port))
                with RawClient(thief.wrap_socket(plain, server_hostname="localhost")) as client:
                    hello = hello_of(lambda url: source.queue(url).send(b"bait"))
                    said = attack(client, hello, sequence_id, range(1, 30))
                assert "does not show the key" in said
                queue.send(b"second")
                until(lambda: queue.info().message_count == 0)
            assert [bytes(each.body) for each in manager.queue("orders").messages()] == [
                b"first", b"second",
            ]  # fmt: skip
    finally:
        here.stop()
        there.stop()


def test_a_stolen_store_with_another_certificate_delivers_nothing_until_it_is_accepted(
    tmp_path, ca, monkeypatch
):
    """It has the key of the source. The destination knows the source by its certificate, too."""
    shown = str(tmp_path / "localhost.pem")
    there = serving(tmp_path / "b", tls_cert=shown, tls_client_ca=str(ca))
    here = serving(tmp_path / "a")
    address = there.addresses[0].replace("127.0.0.1", "localhost")
    try:
        with dray.connect(address, ca=ca, cert=tmp_path / "source.pem") as manager:
            orders = manager.create_queue("orders")
            with dray.connect(here.addresses[0]) as source:
                source.queue(f"{address}/orders").send(b"first")
                assert orders.receive(timeout=60).body == b"first"
            here.stop()
            monkeypatch.setenv("DRAY_CERT", str(tmp_path / "thief.pem"))
            here = serving(tmp_path / "a")
            with dray.connect(here.addresses[0]) as source:
                queue = source.queue(f"{address}/orders")
                queue.send(b"second")
                until(lambda: queue.info().state == "need-validation")
                (peer,) = manager.peers()
                assert (peer.caller, peer.found_caller) == ("cert:source", "cert:thief")
                assert (
                    f"dray peer accept {peer.manager_id}" in queue.info().delivery.refusal.sentence
                )
                assert orders.info().message_count == 0
                manager.accept_peer(peer.address)
                assert orders.receive(timeout=60).body == b"second"
                assert [each.caller for each in manager.peers()] == ["cert:thief"]
    finally:
        here.stop()
        there.stop()
