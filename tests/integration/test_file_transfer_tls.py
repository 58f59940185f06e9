"""Files between programs that reach their queue manager through TLS: nothing goes in the clear."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

import msgspec
import pytest
import trustme

import dray
from dray.client.transfer import accepting
from dray.client.transfer.direct import connect, showing_itself
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.model.transfer import TransferState
from dray.net.tunnels import answer_in_thread
from dray.wire.frames import encode_frame
from dray.wire.transfer_frames import DirectOpening, Post, encode_message
from tests.integration.commands import until

pytestmark = pytest.mark.slow

WITHIN_S = 100
FRAGMENT = 64 << 10


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A queue manager with a door for each: through TLS, and a Unix socket."""
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    shown = authority.issue_cert("localhost").private_key_and_cert_chain_pem
    shown.write_to_path(tmp_path / "shown.pem")
    options = ServeOptions(
        data="",
        listen="127.0.0.1:0",
        open=True,
        socket=str(tmp_path / "dray.sock"),
        tls_cert=str(tmp_path / "shown.pem"),
    )
    daemon = EmbeddedDaemon(tmp_path / "there", options)
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture
def secure(manager, tmp_path):
    """A program that reaches it through TLS."""
    (address,) = [each for each in manager.addresses if each.startswith("drays://")]
    with dray.connect(
        address.replace("127.0.0.1", "localhost"), ca=tmp_path / "ca.pem"
    ) as connected:
        connected.create_queue("reports")
        yield connected


@pytest.fixture
def plain(manager):
    """A program that reaches it over the Unix socket."""
    (address,) = [each for each in manager.addresses if each.startswith("dray+unix://")]
    with dray.connect(address) as connected:
        yield connected


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(os.urandom(20 * FRAGMENT - 3))
    return path


@pytest.fixture
def made(monkeypatch):
    """What a consumer was told of the producers that it connected to."""
    made = []

    def noted(joined):
        made.append(joined)
        return connect(joined)

    monkeypatch.setattr(accepting, "connect", noted)
    return made


class Tap:
    """Carries one connection to a port, and keeps what went through, both ways."""

    def __init__(self, port: int) -> None:
        self.heard = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._to = port
        self._threads = [threading.Thread(target=self._carry)]
        self._threads[0].start()

    def _carry(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", self._to))
        back = threading.Thread(target=self._pour, args=(far, near))
        back.start()
        self._pour(near, far)
        back.join(WITHIN_S)
        near.close()
        far.close()
        self._listener.close()

    def _pour(self, out: socket.socket, into: socket.socket) -> None:
        with suppress(OSError):
            while data := out.recv(1 << 16):
                self.heard += data
                into.sendall(data)
        with suppress(OSError):
            into.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for thread in self._threads:
            thread.join(WITHIN_S)
            assert not thread.is_alive()


def save(manager, source, *, offering=None, **options):
    """Offer a file, accept it, compare; how it was accepted."""
    offer = (offering or manager).offer_file(source, "reports", fragment_size=FRAGMENT)
    target = source.with_name("target")
    manager.accept_file("reports", WITHIN_S, **options).save_to(target)
    assert offer.wait(WITHIN_S).state is TransferState.DONE
    assert target.read_bytes() == source.read_bytes()


def test_behind_tls_programs_connect_and_nobody_in_between_can_read(
    secure, source, made, monkeypatch
):
    taps = []

    def tapped(joined):
        made.append(joined)
        host, port, token = joined.direct
        taps.append(Tap(port))
        return connect(msgspec.structs.replace(joined, direct=(host, taps[0].port, token)))

    monkeypatch.setattr(accepting, "connect", tapped)
    save(secure, source)
    (tap,), (joined,) = taps, made
    tap.close()
    data = source.read_bytes()
    assert len(tap.heard) > len(data)
    assert joined.direct[2].encode() not in tap.heard
    pieces = [data[at : at + 16] for at in range(0, len(data), FRAGMENT)]
    assert not any(piece in tap.heard for piece in pieces)


def test_a_producer_that_shows_another_certificate_hears_nothing(secure, source, monkeypatch):
    heard = []
    impostor = socket.create_server(("127.0.0.1", 0))

    def pretend():
        sock, _ = impostor.accept()
        try:
            answer_in_thread(sock, showing_itself()[0]).recv(1)
        except OSError as error:
            heard.append(error)

    thread = threading.Thread(target=pretend)
    thread.start()

    def misled(joined):
        host, _, token = joined.direct
        port = impostor.getsockname()[1]
        return connect(msgspec.structs.replace(joined, direct=(host, port, token)))

    monkeypatch.setattr(accepting, "connect", misled)
    save(secure, source)
    thread.join(WITHIN_S)
    impostor.close()
    assert len(heard) == 1


@pytest.mark.parametrize(("options", "connections"), [({}, 0), ({"direct": True}, 1)])
def test_behind_tls_a_consumer_does_not_connect_in_the_clear_unless_it_is_told_to(
    *, secure, plain, source, made, options, connections
):
    save(secure, source, offering=plain, **options)
    assert [joined.certificate for joined in made] == [b""] * connections


def test_who_is_not_behind_tls_connects_through_it_to_who_is(secure, plain, source, made):
    save(plain, source, offering=secure)
    (joined,) = made
    assert joined.certificate


def test_who_speaks_no_tls_is_hung_up_on(secure, source):
    offer = secure.offer_file(source, "reports", fragment_size=FRAGMENT)
    ways = offer.awaited._engine._direct
    until(lambda: isinstance(ways._listener, socket.socket))
    message = encode_message(DirectOpening("c", "0" * 32))
    for said in (b"GET / HTTP/1.1\r\n\r\n", encode_frame(Post("", message))):
        with socket.create_connection(ways._listener.getsockname(), timeout=WITHIN_S) as sock:
            sock.sendall(said)
            with suppress(ConnectionResetError):
                while sock.recv(1 << 16):
                    pass
    until(lambda: ways._shaking == 0)
    offer.cancel()
