"""Leased numbers belong to the caller that they were leased to."""

from __future__ import annotations

from dray.model.leases import Leases
from dray.model.limits import LEASES_KNOWN_MAX, NUMBERS_LEASED, TRANSACTIONS_REMEMBERED


def first_of(lease: int) -> int:
    return 1 + lease * NUMBERS_LEASED


def test_a_leased_number_belongs_to_its_caller_only():
    leases = Leases()
    leases.lease(1, "token:a")
    leases.lease(first_of(1), "token:b")
    for number in (1, NUMBERS_LEASED):
        assert leases.belongs(number, "token:a")
        assert not leases.belongs(number, "token:b")
    assert leases.belongs(first_of(1), "token:b")


def test_a_lease_of_an_earlier_start_is_nobodys():
    leases = Leases(first_of(3))
    leases.lease(first_of(3), "token:a")
    for number in (1, 5, first_of(3) - 1):
        assert leases.is_earlier(number), number
        assert not leases.belongs(number, "token:a")
        assert not leases.is_forgotten(number)
    for number in (0, first_of(3), first_of(9)):
        assert not leases.is_earlier(number), number


def test_numbers_that_were_leased_to_nobody_are_for_nobody():
    leases = Leases(first_of(3))
    leases.lease(first_of(4), "token:a")
    for number in (first_of(3), first_of(5), 1 << 40):
        assert not leases.belongs(number, "token:a"), number


def test_the_caller_with_the_most_leases_loses_its_oldest_and_no_other_caller_any(monkeypatch):
    monkeypatch.setattr("dray.model.leases.LEASES_KNOWN_MAX", 3)
    leases = Leases()
    leases.lease(first_of(0), "token:honest")
    for at in range(1, 100):
        leases.lease(first_of(at), "token:greedy")
    assert leases.belongs(1, "token:honest")
    assert not leases.belongs(1, "token:greedy")
    assert [at for at in range(100) if leases.belongs(first_of(at), "token:greedy")] == [98, 99]
    assert [at for at in range(101) if leases.is_forgotten(first_of(at))] == [*range(1, 98)]
    assert leases.without_forgotten(dict.fromkeys(range(100), 7)) == {0: 7, 98: 7, 99: 7}


def test_what_is_noted_of_each_known_lease_finds_its_place():
    assert LEASES_KNOWN_MAX < TRANSACTIONS_REMEMBERED
