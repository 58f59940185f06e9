"""The numbers of messages that the manager itself sends."""

from __future__ import annotations

import pytest

from dray.manager.facts import NumbersLeased
from dray.manager.own_messages import OwnMessages
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver


def test_a_number_is_given_once_and_never_before_its_lease_is_recorded(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.manager.own_messages.NUMBERS_LEASED", 4)
    state, leases = look_into(driver.manager).state, []
    driver.leave_unchecked()

    def record(fact: NumbersLeased) -> None:
        leases.append(fact)
        state.apply(fact)

    own, found = OwnMessages(state, driver.store, record), []
    for count in range(1, 10):
        found.append(own.number())
        assert max(found) < state.next_number
        assert len(leases) == -(-count // 4), "a lease is used up before the next"
    assert len(set(found)) == len(found)
