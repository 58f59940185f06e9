"""The clock of a process, and the ids it draws."""

from __future__ import annotations

import time

from dray.daemon.timekeeper import Timekeeper, new_manager_id


def test_time_goes_on_and_never_back_while_the_clock_is_behind(monkeypatch):
    keeper = Timekeeper()
    present = keeper.now()
    started = time.monotonic()
    monkeypatch.setattr(time, "time", lambda: present - 3600)
    monkeypatch.setattr(time, "monotonic", lambda: started + 2)
    assert present + 1 < keeper.now() < present + 3
    monkeypatch.setattr(time, "time", lambda: present + 10)
    assert keeper.now() == present + 10


def test_manager_ids_are_32_hexadecimal_digits_and_differ():
    first, second = new_manager_id(), new_manager_id()
    assert first != second
    assert len(bytes.fromhex(first)) == 16
