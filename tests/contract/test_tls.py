"""Promises about `drays://`: the same as without TLS, and nobody who is not who he says he is."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest
import trustme

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from tests.integration.commands import until

PATIENCE_S = 60


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def ca(authority, tmp_path):
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    return file


@pytest.fixture
def served(authority, tmp_path):
    """Start daemons that show a certificate for `name`; each gives its address."""
    running = []

    def serve(name="localhost", listen="127.0.0.1:0", by=None, **options):
        file = tmp_path / f"{len(running)}.pem"
        (by or authority).issue_cert(name).private_key_and_cert_chain_pem.write_to_path(file)
        options = read_options(data="", listen=listen, open=True, tls_cert=str(file), **options)
        daemon = EmbeddedDaemon(tmp_path / f"data{len(running)}", options)
        daemon.start()
        running.append(daemon)
        return daemon.addresses[0].replace("127.0.0.1", "localhost")

    yield serve
    for daemon in running:
        daemon.stop()


def test_a_queue_manager_is_spoken_to_through_tls(face, served, ca):
    address = served()
    assert address.startswith("drays://")
    with face.connect(address, ca=ca) as manager:
        queue = manager.create_queue("orders")
        bodies = [bytes([n]) * (1 << 20) for n in range(5)] + [b""]
        queue.send_many(bodies)
        with manager.transaction() as transaction:
            received = [queue.receive(0, transaction).body for _ in bodies]
        assert received == bodies


def test_a_large_message_goes_through_tls_and_back(face, served, ca, tmp_path):
    payload = bytes(range(256)) * 40_000
    with face.connect(served(), ca=ca) as manager:
        queue = manager.create_queue("large")
        manager.create_queue("statusq")
        large = face.LargeMessageQueue(queue)
        large.send(payload)
        with large.receive(10) as message:
            message.save_to(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == payload


def test_the_environment_names_whom_to_trust(face, served, ca, monkeypatch):
    address = served()
    with pytest.raises(dray.ConnectionLost, match=r"TLS.*DRAY_CA=FILE.pem.*--tls-ca"):
        face.connect(address)
    monkeypatch.setenv("DRAY_CA", str(ca))
    with face.connect(address) as manager:
        assert manager.queues()


def test_a_certificate_for_another_name_or_by_another_authority_is_refused(face, served, ca):
    with pytest.raises(dray.ConnectionLost, match=r"TLS.*localhost.*call it by a name in its cert"):
        face.connect(served("elsewhere.example"), ca=ca)
    with pytest.raises(dray.ConnectionLost, match=r"TLS.*DRAY_CA"):
        face.connect(served(by=trustme.CA()), ca=ca)


def test_who_speaks_no_tls_is_told_to_write_drays_and_keeps_nobody_else_out(face, served, ca):
    address = served()
    port = int(address.rpartition(":")[2])
    with pytest.raises(dray.ConnectionLost, match="speaks TLS only: write drays:// instead"):
        face.connect(f"dray://127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port)), face.connect(address, ca=ca) as manager:
        assert manager.queues()


def test_who_speaks_tls_to_a_port_without_it_is_told_to_write_dray(face, tmp_path, ca):
    daemon = EmbeddedDaemon(
        tmp_path / "plain", read_options(data="", listen="127.0.0.1:0", open=True)
    )
    daemon.start()
    address = daemon.addresses[0].replace("dray://127.0.0.1", "drays://localhost")
    try:
        with pytest.raises(dray.ConnectionLost, match=r"TLS.*write dray:// instead of drays://"):
            face.connect(address, ca=ca)
    finally:
        daemon.stop()


def test_waiting_for_ever_and_sending_do_not_hinder_each_other(served, ca):
    """Both directions of one connection at once, from two threads."""
    with dray.connect(served(), ca=ca) as manager:
        queue = manager.create_queue("orders")
        taken = []
        waiting = threading.Thread(target=lambda: taken.append(queue.receive(PATIENCE_S)))
        waiting.start()
        other = manager.create_queue("other")
        for _ in range(20):
            other.send(bytes(100_000))
        queue.send(b"at last")
        waiting.join(PATIENCE_S)
    assert [message.body for message in taken] == [b"at last"]


def test_what_makes_no_sense_is_refused(face, ca, tmp_path):
    with pytest.raises(dray.InvalidConfiguration, match="drays://"):
        face.connect("dray://localhost:1", ca=ca)
    with pytest.raises(dray.InvalidConfiguration, match="trusted"):
        face.connect("drays://localhost:1", ca=tmp_path / "none.pem")
    with pytest.raises(dray.InvalidConfiguration, match="does not hold a certificate"):
        face.open(tmp_path / "data", listen="127.0.0.1:0", open=True, tls_cert=str(ca))
    with pytest.raises(dray.InvalidConfiguration, match="tls_cert"):
        face.open(tmp_path / "data", tls_key=str(ca))


def test_messages_travel_between_managers_through_tls(served, ca, tmp_path):
    with (
        dray.connect(served(), ca=ca) as far,
        dray.open(tmp_path / "near", tls_ca=str(ca)) as near,
    ):
        queue = far.create_queue("orders")
        address = f"{far.awaited._link}".rstrip("/")
        there = near.queue(f"{address}/orders")
        ids = [there.send(bytes(300_000), use_dead_letter_queue=True) for _ in range(10)]
        assert [queue.receive(PATIENCE_S).id for _ in ids] == ids
        delivery = there.info().delivery
        assert "(TLS)" in delivery.next_hop


def test_a_manager_that_cannot_be_made_sure_of_gets_nothing(served, tmp_path):
    address = served()
    with dray.open(tmp_path / "near") as near:
        there = near.queue(f"{address}/orders")
        there.send(b"secret")
        waits = threading.Event()
        for _ in range(PATIENCE_S * 10):
            if any("TLS" in change.reason for change in there.info().delivery.history):
                break
            waits.wait(0.1)
        else:
            pytest.fail("nothing was said of TLS")
        assert there.info().message_count == 1


@pytest.mark.parametrize(
    ("scheme", "options", "remedy"),
    [
        ("dray", {}, "write drays:// instead of dray://"),
        ("drays", {}, "DRAY_CA=FILE.pem"),
        ("drays", {"tls_ca": "ca.pem", "tls_client_ca": "ca.pem"}, "DRAY_CERT=FILE.pem"),
    ],
    ids=["without TLS", "unknown authority", "no certificate"],
)
def test_a_manager_that_cannot_reach_another_by_tls_says_what_to_do(
    scheme, options, remedy, *, served, ca, tmp_path
):
    files = {name: str(ca) for name in options}
    asked = {"tls_client_ca": files.pop("tls_client_ca")} if "tls_client_ca" in files else {}
    address = served(**asked).replace("drays://", f"{scheme}://")
    with dray.open(tmp_path / "near", **files) as near:
        there = near.queue(f"{address}/orders")
        there.send(b"waits")
        until(lambda: any(remedy in each.reason for each in there.info().delivery.history))
        assert there.info().message_count == 1


@pytest.fixture
def shown(authority, tmp_path):
    """A certificate and its key, each in a file of its own, by an authority of one's choice."""

    def make(by=None):
        made = (by or authority).issue_cert("program@example")
        files = tmp_path / "own.pem", tmp_path / "own.key"
        made.cert_chain_pems[0].write_to_path(files[0])
        made.private_key_pem.write_to_path(files[1])
        return files

    return make


def test_who_shows_no_certificate_where_one_is_asked_for_is_not_let_in(face, served, ca, shown):
    address = served(tls_client_ca=str(ca))
    with pytest.raises(dray.ConnectionLost, match=r"TLS.*DRAY_CERT=FILE.pem.*--tls-cert"):
        face.connect(address, ca=ca)
    cert, key = shown(trustme.CA())
    with pytest.raises(dray.ConnectionLost, match=r"TLS.*DRAY_CERT=FILE.pem.*--tls-cert"):
        face.connect(address, ca=ca, cert=cert, key=key)
    cert, key = shown()
    with face.connect(address, ca=ca, cert=cert, key=key) as manager:
        assert manager.queues()


def test_a_caller_whose_certificate_has_ended_is_told_that_it_may_have(
    *, face, served, authority, ca, tmp_path
):
    address = served(tls_client_ca=str(ca))
    yesterday = datetime.now(UTC) - timedelta(days=1)
    ended = authority.issue_cert("program@example", not_after=yesterday)
    ended.private_key_and_cert_chain_pem.write_to_path(tmp_path / "ended.pem")
    with pytest.raises(dray.ConnectionLost, match=r"a certificate that has not ended.*DRAY_CERT"):
        face.connect(address, ca=ca, cert=tmp_path / "ended.pem")


def test_the_environment_names_the_certificate_to_show(*, face, served, ca, shown, monkeypatch):
    address = served(tls_client_ca=str(ca))
    cert, key = shown()
    for name, file in (("DRAY_CA", ca), ("DRAY_CERT", cert), ("DRAY_KEY", key)):
        monkeypatch.setenv(name, str(file))
    with face.connect(address) as manager:
        assert manager.queues()


def test_a_manager_shows_its_own_certificate_to_another_that_asks_for_one(
    served, ca, shown, tmp_path
):
    cert, key = shown()
    files = {"tls_ca": str(ca), "tls_cert": str(cert), "tls_key": str(key)}
    address = served(tls_client_ca=str(ca))
    with (
        dray.connect(address, ca=ca, cert=cert, key=key) as far,
        dray.open(tmp_path / "near", **files) as near,
    ):
        queue = far.create_queue("orders")
        ids = [near.queue(f"{address}/orders").send(b"x") for _ in range(3)]
        assert [queue.receive(PATIENCE_S).id for _ in ids] == ids


def test_files_that_make_no_sense_together_are_refused(face, ca, shown, tmp_path):
    cert, key = shown()
    with pytest.raises(dray.InvalidConfiguration, match="needs its certificate"):
        face.connect("drays://localhost:1", key=key)
    with pytest.raises(dray.InvalidConfiguration, match="does not hold a certificate"):
        face.connect("drays://localhost:1", ca=ca, cert=ca)
    with pytest.raises(dray.InvalidConfiguration, match="tls_client_ca"):
        face.open(tmp_path / "data", tls_client_ca=str(ca))
    with pytest.raises(dray.InvalidConfiguration, match="trusted"):
        face.open(
            tmp_path / "data", listen="127.0.0.1:0", tls_cert=str(cert), tls_key=str(key),
            open=True, tls_client_ca=str(tmp_path / "none.pem"),
        )  # fmt: skip


def test_silent_callers_do_not_shut_the_tls_door(face, served, ca, monkeypatch):
    """1,100 of them did for ten seconds each; of too many the oldest goes."""
    monkeypatch.setattr("dray.net.handshakes.HANDSHAKES_PER_HOST_MAX", 8)
    address = served()
    host, port = address.removeprefix("drays://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(12)]
    with face.connect(address, ca=ca) as manager:
        manager.create_queue("orders").send(b"honest")
    for each in silent[:4]:
        each.settimeout(PATIENCE_S)
        assert each.recv(1) == b""
    for each in silent:
        each.close()
