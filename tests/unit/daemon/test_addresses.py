"""A daemon knows under which addresses it is reached."""

from __future__ import annotations

import socket

import pytest

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.sockets.addresses import own_addresses
from dray.daemon.sockets.listener import listen_tcp
from dray.manager.events import Peer


def own(host, *others):
    sock, _ = listen_tcp(host, 0)
    with sock:
        return own_addresses(host, sock, others), sock.getsockname()[1]


def test_on_loopback_it_is_localhost_in_every_spelling():
    found, port = own("127.0.0.1", "dray://Depot:7340")
    expected = {Peer(host, port) for host in ("localhost", "127.0.0.1", "::1")}
    assert found == expected | {Peer("depot", 7340)}


def test_on_every_address_it_is_the_name_of_the_machine_too():
    found, port = own("0.0.0.0")  # noqa: S104 - closed again at once
    assert {Peer(socket.gethostname().lower(), port), Peer("127.0.0.1", port)} <= found


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_sent_to_its_own_address_is_in_its_queue_at_once(tmp_path, host):
    daemon = EmbeddedDaemon(tmp_path, read_options(data="", listen="127.0.0.1:0", open=True))
    daemon.start()
    try:
        (address,) = daemon.addresses
        with dray.connect(address) as manager:
            manager.create_queue("orders")
            queue = manager.queue(f"{address.replace('127.0.0.1', host)}/orders")
            queue.send(b"here")
            assert queue.receive(0).body == b"here"
            assert manager.info().outgoing_queues == []
    finally:
        daemon.stop()


def test_an_address_that_is_none_is_refused(tmp_path):
    with pytest.raises(dray.InvalidConfiguration, match="addresses: 'depot:x' is not HOST:PORT"):
        dray.open(tmp_path / "data", addresses=["depot:x"])
