"""Addresses of queue managers."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from dray.client.connections.address import Address, parse_address
from dray.errors import ConnectionLost, InvalidConfiguration


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("dray://host:1234", Address("host", 1234)),
        ("dray://host", Address("host", 7340)),
        ("dray://[::1]:9/", Address("::1", 9)),
        ("dray+unix:///run/dray.sock", Address(path="/run/dray.sock")),
        ("dray+unix:///with%20space%3f", Address(path="/with space?")),
    ],
)
def test_an_address_is_read_and_written_alike(url, address):
    assert parse_address(url) == address
    assert parse_address(str(address)) == address


def test_the_path_of_a_socket_has_no_zero_bytes():
    with pytest.raises(InvalidConfiguration, match="a path has no zero bytes"):
        parse_address("dray+unix:///run/a%00b")


def test_a_socket_that_this_user_may_not_use_is_not_called_silent(monkeypatch):
    def refused(_socket, _address):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "connect", refused)
    with pytest.raises(ConnectionLost, match=r"this user may not connect to .*: Permission denied"):
        Address(path="/run/dray.sock").dial()
