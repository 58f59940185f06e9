"""The clock of a process, and the ids it draws."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dray.daemon import timekeeper
from dray.daemon.timekeeper import RunDelay, Timekeeper, new_manager_key


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


def test_a_delay_is_that_of_the_thread_that_asks(tmp_path, monkeypatch):
    account = tmp_path / "schedstat"
    account.write_text("700 2500000000 9\n")
    monkeypatch.setattr(timekeeper, "_DELAYS", str(account))
    delay = RunDelay()
    assert delay.seconds() == pytest.approx(2.5)
    account.rename(tmp_path / "of this thread")
    account.write_text("700 4000000000 9\n")
    with ThreadPoolExecutor(1) as other:
        assert other.submit(delay.seconds).result() == pytest.approx(4.0)
    delay.close()
    assert delay.fileno() < 0


def test_the_kernel_counts_the_delay_of_this_thread():
    delay = RunDelay()
    begun, since = delay.seconds(), time.monotonic()
    assert 0.0 <= delay.seconds() - begun <= time.monotonic() - since
    assert Path(f"/proc/self/fd/{delay.fileno()}").readlink().name == "schedstat"
    delay.close()


def test_without_an_account_of_the_kernel_there_is_no_delay(tmp_path, monkeypatch):
    monkeypatch.setattr(timekeeper, "_DELAYS", str(tmp_path / "missing"))
    delay = RunDelay()
    assert delay.seconds() == delay.seconds() == 0.0
    delay.close()
