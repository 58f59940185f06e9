"""Who may join an offer, and until when."""

from __future__ import annotations

from dray.model.limits import TRANSFER_CONSUMERS_MAX
from dray.transfer.discovery import Discovery


def test_to_one_the_first_closes_it():
    discovery = Discovery(many=False, until=10.0)
    assert discovery.ask(1.0) == ""
    assert not discovery.open
    assert "one consumer" in discovery.ask(1.1)


def test_to_many_it_is_open_for_all_of_the_time_and_not_longer():
    discovery = Discovery(many=True, until=10.0)
    assert [discovery.ask(now) for now in (1.0, 5.0, 9.9)] == ["", "", ""]
    assert discovery.deadline() == 10.0
    assert "over" in discovery.ask(10.0)
    assert not discovery.open


def test_nobody_in_time_closes_it():
    discovery = Discovery(many=False, until=10.0)
    discovery.tick(9.9)
    assert discovery.open
    discovery.tick(10.0)
    assert not discovery.open
    assert discovery.deadline() is None
    assert discovery.ask(11.0)


def test_without_an_end_it_is_open_until_it_is_closed():
    discovery = Discovery(many=True, until=None)
    discovery.tick(1e12)
    assert discovery.open
    assert discovery.deadline() is None
    assert discovery.ask(1e12) == ""
    discovery.close()
    assert discovery.ask(1e12)


def test_who_has_joined_in_an_earlier_run_counts():
    discovery = Discovery(many=False, until=10.0)
    discovery.rejoined()
    assert not discovery.open
    assert discovery.ask(1.0)
    discovery = Discovery(many=True, until=10.0)
    for _ in range(TRANSFER_CONSUMERS_MAX - 1):
        discovery.rejoined()
    assert discovery.ask(1.0) == ""
    assert "most" in discovery.ask(1.0)


def test_the_number_of_consumers_is_bounded():
    discovery = Discovery(many=True, until=10.0)
    for _ in range(TRANSFER_CONSUMERS_MAX):
        assert discovery.ask(1.0) == ""
    assert "most" in discovery.ask(1.0)


def test_a_closed_one_admits_nobody():
    discovery = Discovery(many=True, until=10.0)
    discovery.close()
    assert discovery.ask(1.0)
