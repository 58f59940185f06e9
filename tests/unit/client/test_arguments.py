"""What the arguments of public calls take, by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.client.calls.arguments import checked_message, expected_of
from dray.errors import InvalidArgument, InvalidConfiguration, InvalidQueueName
from dray.model.classes import Acknowledge
from dray.model.message import Message
from tests.contract.wrong_values import HostileNumber, HostileText


def take(name, value, place="Queue.send"):
    return expected_of(name, place, "dray.client.awaited.queue").take(name, value)


PLAIN = [
    ("id", HostileText("x"), "x"),
    ("lookup_id", HostileNumber(7), 7),
    ("timeout", HostileNumber(7), 7),
    ("timeout", float("inf"), float("inf")),
    ("app_specific", True, 1),
    ("extension", bytearray(b"x"), b"x"),
    ("acknowledge", 5, Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL),
    ("quota", "8GiB", 8 << 30),
    ("path", Path("x"), Path("x")),
    ("listen", "::1", "::1"),
]


@pytest.mark.parametrize("at", range(len(PLAIN)))
def test_a_call_gets_plain_values(at):
    name, given, used = PLAIN[at]
    found = take(name, given)
    assert found == used
    assert type(found) is type(used)


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("id", "\ud800", InvalidArgument),
        ("id", "x" * 100_000, InvalidArgument),
        ("name", 5, InvalidQueueName),
        ("quota", "much", InvalidConfiguration),
        ("quota", 1.5, InvalidConfiguration),
        ("lookup_id", True, InvalidArgument),
        ("lookup_id", 1 << 64, InvalidArgument),
        ("timeout", float("nan"), InvalidArgument),
        ("response_timeout", 0, InvalidArgument),
        ("retry_delay", -1, InvalidArgument),
        ("raw", 1, InvalidArgument),
        ("then", "explode", InvalidArgument),
        ("acknowledge", 16, InvalidArgument),
        ("path", "", InvalidArgument),
        ("path", b"x", InvalidArgument),
        ("path", "a\0b", InvalidArgument),
        ("listen", "a b", InvalidArgument),
        ("messages", b"one thing", TypeError),
        ("buffer", b"read only", TypeError),
        ("message", Message(b"", lookup_id="7"), InvalidArgument),
    ],
)
def test_what_makes_no_sense_is_refused(name, given, error):
    with pytest.raises(error, match=f"^{name} is "):
        take(name, given)


def test_a_released_view_is_no_extension():
    view = memoryview(b"gone")
    view.release()
    with pytest.raises(InvalidArgument):
        take("extension", view)


def test_one_more_value_may_be_taken_and_the_sentence_says_so():
    expected = expected_of("timeout", "Queue.receive", "").or_also(None)
    assert expected.take("timeout", None) is None
    with pytest.raises(InvalidArgument, match="from 0 on, or None, not -1"):
        expected.take("timeout", -1)


def test_nothing_is_known_of_a_name_that_the_table_has_not():
    assert expected_of("colour", "Queue.send", "") is None


def test_a_message_of_defaults_is_sent_as_it_is():
    message = Message(b"x")
    assert checked_message(message) is message
    assert checked_message(Message(b"x", label=HostileText("y"))).label == str.__str__("y")
    with pytest.raises(InvalidArgument, match="priority"):
        checked_message(Message(b"x", priority="high"))
