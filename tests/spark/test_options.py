"""Options and offsets: read once, checked, refused in one sentence."""

from __future__ import annotations

import pytest

from dray.cli.spark import land as land_command
from dray.errors import InvalidConfiguration
from dray.spark import BYTES_PER_BATCH
from dray.spark.offsets import (
    Span,
    check_offsets,
    lost,
    position_in,
    spans,
    went_back,
    with_position,
)
from dray.spark.options import read_options

LEAST = {"url": "dray://127.0.0.1", "queue": "orders"}


def test_keys_are_taken_in_any_case_and_lists_apart():
    options = read_options(
        {
            "URL": "dray://a, dray://b",
            "queue": "orders, parcels*",
            "MAXOFFSETSPERTRIGGER": "7",
            "maxbytespertrigger": "8MiB",
            "Content": "LARGE",
            "startingoffsets": '{"m": {"orders": 5}}',
            "failOnDataLoss": "False",
        }
    )

    assert options.urls == ("dray://a", "dray://b")
    assert options.queues == ("orders", "parcels*")
    assert (options.rows_max, options.bytes_max) == (7, 8 << 20)
    assert options.content == "large"
    assert options.starting == {"m": {"orders": 5}}
    assert options.fail_on_data_loss is False


def test_the_defaults_are_those_of_the_documentation():
    options = read_options(LEAST)

    assert (options.content, options.inline, options.starting) == ("messages", True, "earliest")
    assert (options.rows_max, options.bytes_max) == (None, None)
    assert options.fail_on_data_loss is True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queue": "orders"}, "needs the option 'url'"),
        ({"url": "dray://a", "queue": " , "}, "needs the option 'queue'"),
        (LEAST | {"queu": "x"}, "no option 'queu'"),
        (LEAST | {"content": "files"}, "content is 'files'; it can be messages or large"),
        (LEAST | {"maxOffsetsPerTrigger": "0"}, "must be a whole number above zero"),
        (LEAST | {"maxOffsetsPerTrigger": "ten"}, "must be a whole number above zero"),
        (LEAST | {"maxBytesPerTrigger": "much"}, "is not a size"),
        (LEAST | {"maxBytesPerTrigger": "0"}, "must be above zero"),
        (LEAST | {"startingOffsets": "first"}, "startingOffsets is 'first'"),
        (LEAST | {"startingOffsets": '{"m": 3}'}, "startingOffsets is"),
        (LEAST | {"startingOffsets": '{"m": {"q": -3}}'}, "startingOffsets is"),
        (LEAST | {"startingOffsets": "[]"}, "startingOffsets is"),
        (LEAST | {"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(InvalidConfiguration) as caught:
        read_options(given)

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_offsets_know_their_positions():
    offsets = with_position(with_position({}, "m", "a", 3), "n", "b", 4)

    assert offsets == {"m": {"a": 3}, "n": {"b": 4}}
    assert (position_in(offsets, "m", "a"), position_in(offsets, "m", "b")) == (3, 0)
    assert check_offsets(offsets) is offsets


def test_spans_are_what_lies_between_two_offsets():
    start = {"m": {"a": 3, "b": 5}}
    end = {"m": {"a": 9, "b": 5, "c": 2}}

    assert list(spans(start, end)) == [Span("m", "a", 3, 9), Span("m", "c", 0, 2)]


def test_offsets_that_go_back_are_noticed():
    assert went_back({"m": {"a": 3}}, {"m": {"a": 4}}) == []
    assert went_back({"m": {"a": 3}}, {"m": {}}) == ["queue 'a' of manager m from 3 to 0"]


def test_queues_that_are_gone_are_named():
    assert lost({"m": {"a": 3, "b": 1}}, {("m", "a")}) == ["queue 'b' of manager m"]


def test_the_command_has_the_same_size_of_a_batch_as_the_call():
    (batch,) = (each for each in land_command.params if each.name == "batch")
    assert f"[default: {BYTES_PER_BATCH}]" in batch.help
