"""The clock of a process, and the ids it draws."""

from __future__ import annotations

import time

from dray.daemon.timekeeper import Timekeeper, new_manager_key


def test_time_goes_on_and_never_back_while_the_clock_is_behind(monkeypatch):
    keeper = Timekeeper()
    present = keeper.now()
    started = time.monotonic()
    monkeypatch.setattr(time, "time", lambda: present - 3600)
    monkeypatch.setattr(time, "monotonic", lambda: started + 2)
    assert present + 1 < keeper.now() < present + 3
    monkeypatch.setattr(time, "time", lambda: present + 10)
    assert keeper.now() == present + 10


def test_keys_of_managers_have_32_bytes_and_differ():
    first, second = new_manager_key(), new_manager_key()
    assert first != second
    assert len(first) == 32
