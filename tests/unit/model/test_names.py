"""Names of queues, taken apart: the same each time, and nothing is kept of long ones."""

from __future__ import annotations

import pytest

from dray.client.connections.address import parse_address
from dray.errors import InvalidConfiguration, InvalidQueueName
from dray.model import names
from dray.model.limits import NAME_CHARACTERS_REMEMBERED_MAX
from dray.model.names import (
    DEFAULT_PORT,
    QueueAddress,
    is_host,
    parse_manager_address,
    parse_queue_address,
)
from dray.net.listening import listen_address

IMPOSSIBLE_HOSTS = ("..", "a..b", "x" * 64, ".".join(["x" * 60] * 5), "a\0b", "\ud800", "a b")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("orders", QueueAddress("orders")),
        ("orders;retry", QueueAddress("orders", "retry")),
        (r".\private$\orders", QueueAddress("orders")),
        ("dray://Host/orders", QueueAddress("orders", "", "host", DEFAULT_PORT)),
        ("drays://host:7/orders", QueueAddress("orders", "", "host", 7, secure=True)),
        (r"DIRECT=TCP:Host\private$\orders", QueueAddress("orders", "", "host", DEFAULT_PORT)),
        (r"DIRECT=TCP:host:7\private$\orders", QueueAddress("orders", "", "host", 7)),
        (r"direct=tcp:host\orders;retry", QueueAddress("orders", "retry", "host", DEFAULT_PORT)),
        (r"DIRECT=TCP:[::1]:7\private$\orders", QueueAddress("orders", "", "::1", 7)),
        (
            r"DIRECT=TCP:fe80::1\private$\orders",
            QueueAddress("orders", "", "fe80::1", DEFAULT_PORT),
        ),
        (r"DIRECT=OS:.\private$\orders", QueueAddress("orders")),
        (r"DIRECT=OS:host\SYSTEM$;DEADXACT", QueueAddress("SYSTEM$", "DEADXACT", "host")),
        (r".\private$\orders\Journal$", QueueAddress("orders", "journal")),
        (r".\Journal$", QueueAddress("system$", "journal")),
        (r".\DeadLetter$", QueueAddress("system$", "deadletter")),
        (r".\XactDeadLetter$", QueueAddress("system$", "deadxact")),
    ],
)
def test_a_name_is_the_same_each_time(text, address):
    assert parse_queue_address(text) == address
    assert parse_queue_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b",
        "dray:///orders",
        7,
        ["orders"],
        r".\\",
        r".\private$\\a\b",
        r"DIRECT=TCP:host:port\orders",
        r"DIRECT=TCP:a@b\orders",
        r"DIRECT=TCP:host\\",
        r"DIRECT=TCP:\orders",
    ],
)
def test_what_is_no_name_is_refused_each_time(text):
    for _ in range(2):
        with pytest.raises(InvalidQueueName):
            parse_queue_address(text)


def test_a_very_long_address_is_understood_and_not_kept():
    port = f"{7341:0{NAME_CHARACTERS_REMEMBERED_MAX}}"
    kept = names._remembered.cache_info().currsize
    assert parse_queue_address(f"dray://host:{port}/orders").port == 7341
    assert names._remembered.cache_info().currsize == kept


@pytest.mark.parametrize("text", ["nowhere at all", "", "a b:7340", "dray://", "h:99999", "h/q"])
def test_a_text_that_is_no_address_of_a_manager_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InvalidQueueName, match="is not the address of a queue manager: write HOST"):
        parse_manager_address(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", ("host", DEFAULT_PORT, False)),
        ("drays://Host:7/", ("host", 7, True)),
        ("[fe80::1%eth0]:7", ("fe80::1%eth0", 7, False)),
        ("münchen.example", ("münchen.example", DEFAULT_PORT, False)),
        ("my_host-1", ("my_host-1", DEFAULT_PORT, False)),
    ],
)
def test_the_address_of_a_manager_is_a_host_a_port_and_whether_through_tls(
    text: str, address: tuple[str, int, bool]
) -> None:
    assert parse_manager_address(text) == address


@pytest.mark.parametrize("host", IMPOSSIBLE_HOSTS)
def test_an_impossible_host_name_is_refused_before_any_look_up(host: str) -> None:
    with pytest.raises(InvalidQueueName, match="is not a queue address: write dray://host"):
        parse_queue_address(f"dray://{host}/orders")
    with pytest.raises(InvalidQueueName, match="is not a"):
        parse_queue_address(rf"DIRECT=TCP:{host}\orders")
    with pytest.raises(InvalidQueueName, match="is not the address of a queue manager"):
        parse_manager_address(f"{host}:7340")
    with pytest.raises(InvalidConfiguration, match="cannot be the name of a host"):
        parse_address(f"dray://{host}:7340")
    with pytest.raises(InvalidConfiguration, match="is not an address to listen on"):
        listen_address(f"{host}:7340")


@pytest.mark.parametrize(
    "host", ["host.", "1.2.3.4", "::1", "fe80::1%eth0", "my_host-1", "münchen.example", "x" * 63]
)
def test_every_name_that_a_look_up_can_find_is_a_host(host: str) -> None:
    assert is_host(host)
