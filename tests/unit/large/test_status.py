"""Status messages: one for each verdict, and nothing else is read as one."""

from __future__ import annotations

import msgspec
import pytest

from dray.large.join import SequenceKey
from dray.large.status import Status, Verdict, read_status, status_message, sub_queue_name
from dray.model.limits import LABEL_CHARACTERS_MAX

KEY = SequenceKey(bytes(range(16)), 0x1F)
GAPS = ["header", [2, 3]]


@pytest.mark.parametrize(
    ("missing", "verdict", "word"),
    [([], Verdict.COMPLETE, "complete"), (GAPS, Verdict.DELETE, "delete")],
)
def test_a_status_says_which_message_it_is_about_and_what_is_missing(missing, verdict, word):
    message = status_message("orders", KEY, missing)
    assert message.label == f"{word} orders;{sub_queue_name(KEY)}"
    assert message.app_specific == verdict
    assert message.correlation_id == f"{KEY.source.hex()}\\31"
    status = read_status(message.body)
    assert status is not None
    assert (status.key, status.queue, status.verdict, status.missing) == (
        KEY,
        "orders",
        verdict,
        missing,
    )
    assert status.sub_queue == sub_queue_name(KEY)


def test_the_numbers_of_the_verdicts_are_those_of_the_original():
    assert [status_message("q", KEY, gaps).app_specific for gaps in ([], GAPS)] == [0, 3]


def test_the_longest_name_of_a_sub_queue_has_32_characters():
    longest = sub_queue_name(SequenceKey(b"\xff" * 16, (1 << 64) - 1))
    assert longest == f"{'f' * 15}.{'f' * 16}"
    assert len(longest) == 32


def test_a_long_name_of_a_queue_does_not_keep_its_status_from_being_sent():
    label = status_message("q" * LABEL_CHARACTERS_MAX, KEY, []).label
    assert len(label) == LABEL_CHARACTERS_MAX
    assert label.startswith("complete q")


def body(**changes: object) -> bytes:
    said = {
        "version": 1,
        "queue": "orders",
        "sub_queue": "0",
        "verdict": 0,
        "source": KEY.source.hex(),
        "sequence": 31,
        "missing": [],
    }
    return msgspec.msgpack.encode([*(said | changes).values()])


def test_a_body_with_these_values_in_this_order_is_a_status():
    assert read_status(body()) == Status(
        1, "orders", "0", Verdict.COMPLETE, KEY.source.hex(), 31, []
    )


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"text",
        body(version=2),
        body(source=bytes(15).hex()),
        body(source=bytes(17).hex()),
        body(source="no hexadecimal digits"),
        body(verdict=1),
        b"\x97" + b"\x91" * 100_000,
    ],
)
def test_a_body_that_is_no_status_is_not_read_as_one(other):
    assert read_status(other) is None
