"""Names of queues, taken apart: the same each time, and nothing is kept of long ones."""

from __future__ import annotations

import pytest

from dray.errors import InvalidQueueName
from dray.model import names
from dray.model.limits import NAME_CHARACTERS_REMEMBERED_MAX
from dray.model.names import (
    DEFAULT_PORT,
    QueueAddress,
    parse_manager_address,
    parse_queue_address,
)


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
    host = "h" * NAME_CHARACTERS_REMEMBERED_MAX
    kept = names._remembered.cache_info().currsize
    assert parse_queue_address(f"dray://{host}/orders").host == host
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
