"""Receipts of a destination: their bytes, who can write one, and which copy of a store did."""

from __future__ import annotations

import pytest

from dray.delivery.keys import ManagerKey
from dray.delivery.receipts import (
    Receipt,
    Told,
    judge_receipt,
    later_of,
    read_receipt,
    write_receipt,
    writer_of,
)
from dray.model.ids import Incarnation
from dray.model.limits import RECEIPT_BYTES

KEY, OTHER = ManagerKey(b"a" * 32), ManagerKey(b"b" * 32)
SAID = Receipt(0x0000000200000007, 300, 1_700_000_000_000_000)


def started(ordinal: int, drawn: int = 7) -> int:
    return ordinal << 32 | drawn


OURS = [Incarnation(started(3), 100), Incarnation(started(4), 200), Incarnation(started(5), 300)]
AGE = 350


def test_the_bytes_of_a_receipt_never_change():
    written = write_receipt(KEY, SAID)
    assert len(written) == RECEIPT_BYTES
    assert written[:40].hex() == KEY.id + "0000000200000007000000000000012c00060a24181e4000"
    assert written[40:] == KEY.seal(written[:40])[:16]
    assert writer_of(written) == KEY.id
    assert writer_of(b"") == ""


def test_the_store_that_wrote_one_and_its_copies_read_it_and_nobody_else():
    written = write_receipt(KEY, SAID)
    assert read_receipt(ManagerKey(KEY.private), written) == SAID
    assert read_receipt(OTHER, written) is None
    assert read_receipt(OTHER, write_receipt(OTHER, SAID)) == SAID
    assert read_receipt(KEY, written[:-1]) is None
    assert read_receipt(KEY, b"") is None


@pytest.mark.parametrize("at", range(RECEIPT_BYTES))
def test_a_receipt_in_which_a_byte_was_changed_is_nobodys(at):
    changed = bytearray(write_receipt(KEY, SAID))
    changed[at] ^= 1
    assert read_receipt(KEY, bytes(changed)) is None


def test_no_other_proof_of_the_key_is_a_seal():
    said = write_receipt(KEY, SAID)[:40]
    assert KEY.seal(said) != KEY.copy_proof(said)


@pytest.mark.parametrize(
    ("incarnation", "age", "told"),
    [
        (started(5), 350, Told.BY_THIS_STORE),
        (started(5), 351, Told.BY_ANOTHER_COPY),
        (started(4), 300, Told.BY_THIS_STORE),
        (started(4), 301, Told.BY_ANOTHER_COPY),
        (started(3), 200, Told.BY_THIS_STORE),
        (started(3), 201, Told.BY_ANOTHER_COPY),
        (started(5, drawn=8), 1, Told.BY_ANOTHER_COPY),
        (started(3, drawn=8), 1, Told.BY_ANOTHER_COPY),
        (started(9), 1, Told.BY_ANOTHER_COPY),
        (started(2), 1, Told.UNKNOWN),
        (started(2), 999, Told.UNKNOWN),
    ],
)
def test_a_store_knows_where_it_stood_and_where_another_copy_of_it_went_on(incarnation, age, told):
    assert judge_receipt(Receipt(incarnation, age, 0), OURS, AGE) is told


def test_without_a_receipt_or_before_the_first_incarnation_nothing_is_known():
    assert judge_receipt(None, OURS, AGE) is Told.UNKNOWN
    assert judge_receipt(SAID, [], 0) is Told.UNKNOWN


def test_a_receipt_that_had_to_wait_takes_the_place_of_no_later_one():
    early, late = (write_receipt(KEY, SAID._replace(age=age)) for age in (255, 256))
    assert later_of(early, late) == later_of(late, early) == late
    assert later_of(late, b"") == late
    assert later_of(b"", early) == early


def test_the_word_of_another_copy_or_manager_takes_the_place_of_any():
    mine = write_receipt(KEY, SAID)
    for key, receipt in (
        (OTHER, SAID._replace(age=1)),
        (KEY, SAID._replace(incarnation=started(1), age=1)),
    ):
        other = write_receipt(key, receipt)
        assert later_of(mine, other) == other
        assert later_of(other, mine) == mine
