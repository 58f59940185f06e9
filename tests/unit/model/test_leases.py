"""Leased numbers belong to the caller that they were leased to."""

from __future__ import annotations

from dray.model.leases import Leases
from dray.model.limits import NUMBERS_LEASED


def test_a_leased_number_belongs_to_its_caller_only():
    leases = Leases()
    leases.lease(1, "token:a")
    leases.lease(1 + NUMBERS_LEASED, "token:b")
    for number in (1, NUMBERS_LEASED):
        assert leases.belongs(number, "token:a")
        assert not leases.belongs(number, "token:b")
    assert leases.belongs(1 + NUMBERS_LEASED, "token:b")


def test_a_lease_of_an_earlier_start_is_nobodys():
    assert Leases().belongs(5, "token:a")


def test_the_oldest_leases_are_forgotten(monkeypatch):
    monkeypatch.setattr("dray.model.leases.LEASES_KNOWN_MAX", 2)
    leases = Leases()
    for at in range(3):
        leases.lease(1 + at * NUMBERS_LEASED, "token:a")
    assert leases.belongs(1, "token:b")
    assert not leases.belongs(1 + NUMBERS_LEASED, "token:b")
