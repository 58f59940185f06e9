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


def test_links_take_the_files_that_the_configuration_names_at_sighup(files):
    """The old files are gone: nothing is read again from where they were."""
    show(files, "depot")
    there = (files / "dray.toml").read_text()
    (files / "dray.toml").write_text(
        there.replace("open = true", f'tls_client_ca = "{files}/ca.pem"')
        + '[[access]]\nwho = ["cert:till"]\nqueues = ["orders"]\nmay = ["deliver"]\n'
    )
    AUTHORITY.issue_cert("till").private_key_and_cert_chain_pem.write_to_path(files / "old.pem")
    here = files / "here.toml"
    here.write_text(
        f'data = "{files}/here"\nsocket = "{files}/here.sock"\n'
        f'tls_cert = "{files}/old.pem"\ntls_ca = "{files}/ca.pem"\n'
    )
    with ExitStack() as stack:
        process = stack.enter_context(started("serve", "--config", files / "dray.toml"))
        address = re.search(rb"drays://127.0.0.1:(\d+)", process.stdout.readline())
        source = stack.enter_context(started("serve", "--config", here))
        source.stdout.readline()
        there = stack.enter_context(dray.connect(f"dray+unix://{files}/dray.sock"))
        sender = stack.enter_context(dray.connect(f"dray+unix://{files}/here.sock"))
        orders = there.create_queue("orders")
        for old, new in (("old.pem", "new.pem"), ("ca.pem", "roots.pem")):
            (files / new).write_bytes((files / old).read_bytes())
            here.write_text(here.read_text().replace(old, new))
        (files / "old.pem").unlink()
        _follow(source)
        sender.queue(f"drays://localhost:{address[1].decode()}/orders").send(b"1")
        assert orders.receive(timeout=60).body == b"1"


def test_authorities_that_cannot_be_read_keep_the_old_configuration_at_sighup(files):
    here = files / "here.toml"
    here.write_text(f'data = "{files}/here"\nsocket = "{files}/here.sock"\n')
    with started("serve", "--config", here) as source:
        source.stdout.readline()
        here.write_text(f'{here.read_text()}tls_ca = "{files}/none.pem"\n')
        source.send_signal(signal.SIGHUP)
        line = next(line for line in source.stderr if b"read again" in line)
    assert b"the old one holds" in line
    assert b"none.pem holds no certificates that could be trusted" in line


def _follow(process):
    process.send_signal(signal.SIGHUP)
    line = next(line for line in process.stderr if b"read again" in line)
    assert b"access and certificates follow it" in line, line
