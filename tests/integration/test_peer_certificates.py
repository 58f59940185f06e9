"""The certificate of a destination: renewed, and replaced by one for another name."""

from __future__ import annotations

import re
import signal
import ssl
from contextlib import ExitStack

import pytest
import trustme

import dray
from tests.integration.commands import started, until

pytestmark = pytest.mark.slow

AUTHORITY = trustme.CA()


@pytest.fixture
def files(tmp_path, monkeypatch):
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("DRAY_CA", str(tmp_path / "ca.pem"))
    (tmp_path / "dray.toml").write_text(
        f'data = "{tmp_path}/there"\nlisten = "127.0.0.1:0"\nopen = true\n'
        f'socket = "{tmp_path}/dray.sock"\ntls_cert = "{tmp_path}/shown.pem"\n'
    )
    return tmp_path


def show(files, name, process=None):
    """Have the destination show a new certificate for a name; gives it as text."""
    issued = AUTHORITY.issue_cert(name, "localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(files / "shown.pem")
    if process is not None:
        process.send_signal(signal.SIGHUP)
    return issued.cert_chain_pems[0].bytes().decode().strip()


def shown_at(port):
    return ssl.get_server_certificate(("127.0.0.1", port)).strip()


def test_a_renewed_certificate_goes_on_and_one_for_another_name_waits_until_it_is_accepted(files):
    show(files, "depot")
    with ExitStack() as stack:
        process = stack.enter_context(started("serve", "--config", files / "dray.toml"))
        port = int(re.search(rb"drays://127.0.0.1:(\d+)", process.stdout.readline())[1])
        address = f"drays://localhost:{port}"
        there = stack.enter_context(dray.connect(f"dray+unix://{files}/dray.sock"))
        orders = there.create_queue("orders")

        def deliver(body):
            here.queue(f"{address}/orders").send(body)
            return orders.receive(timeout=60).body

        with dray.open(files / "here") as here:
            assert deliver(b"1") == b"1"
            (peer,) = here.peers()
            assert (peer.caller, peer.state) == ("cert:depot", "known")

        renewed = show(files, "depot", process)
        until(lambda: shown_at(port) == renewed)
        with dray.open(files / "here") as here:
            assert deliver(b"2") == b"2"
            assert [each.state for each in here.peers()] == ["known"]

        other = show(files, "other", process)
        until(lambda: shown_at(port) == other)
        with dray.open(files / "here") as here:
            outgoing = here.queue(f"{address}/orders")
            outgoing.send(b"3")
            until(lambda: outgoing.info().state == "need-validation")
            (peer,) = here.peers()
            assert (peer.caller, peer.found_caller) == ("cert:depot", "cert:other")
            assert peer.found == peer.manager_id
            reasons = [each.reason for each in outgoing.info().delivery.history]
            assert any("cert:other and not for cert:depot as before" in each for each in reasons)
            assert orders.info().message_count == 0
            here.accept_peer(address)
            assert orders.receive(timeout=60).body == b"3"
            assert [each.caller for each in here.peers()] == ["cert:other"]
