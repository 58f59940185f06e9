"""Names of message files, and the numbers by which extents know them."""

from __future__ import annotations

import pytest

from dray.store.kinds import (
    NUMBER_MAX,
    Kind,
    express_files,
    file_name,
    heap_file_number,
    is_message_file,
    kind_of,
    numbers_of,
)


@pytest.mark.parametrize(("kind", "letter"), list(zip(Kind, "pjr", strict=True)))
@pytest.mark.parametrize("number", [1, 9_999_999, 10_000_000, NUMBER_MAX])
def test_a_number_and_its_name_lead_to_each_other(kind, letter, number):
    file = heap_file_number(kind, number)
    assert file < 1 << 32
    assert kind_of(file) is kind
    name = file_name(file)
    assert name.startswith(letter)
    found = express_files([name]) if kind is Kind.EXPRESS else numbers_of([name])
    assert found == [file]


def test_recoverable_files_have_the_numbers_in_their_names():
    assert heap_file_number(Kind.RECOVERABLE, 7) == 7
    assert file_name(7) == "p0000007.mq"


def test_only_names_of_heap_files_count():
    names = ["p0000002.mq", "j0000001.mq", "l0000001.mq", "r0000009.mq", "p1.mq", "QMLog"]
    assert numbers_of(names) == [2, heap_file_number(Kind.JOURNAL, 1)]
    assert express_files(names) == [heap_file_number(Kind.EXPRESS, 9)]


def test_maps_are_message_files_too_and_nothing_else_is():
    names = ["p0000002.mq", "j0000001.mq", "l0000001.mq", "r0000009.mq"]
    assert all(map(is_message_file, names))
    assert not any(map(is_message_file, ["p1.mq", "QMLog", "MQTrans.lg1", "x0000001.mq", "lqs"]))


def test_a_number_that_does_not_fit_is_our_mistake():
    for number in (0, NUMBER_MAX + 1):
        with pytest.raises(AssertionError):
            heap_file_number(Kind.JOURNAL, number)
