"""Addresses of queue managers."""

from __future__ import annotations

import pytest

from dray.client.address import Address, parse_address


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
