"""A short slice of the processor, asked for by threads that mostly wait."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dray.daemon.limits import SLICE_S
from dray.daemon.pacing import time_slice
from dray.daemon.pacing.time_slice import Attributes, read_attributes, request_short_time_slice

OURS = {"dray-daemon", "dray-sync-1", "dray-sync-2", "dray-checkpoint"}


def in_a_thread(what):
    """In one of its own, so that the rest of the tests go on as they were."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(what).result(20)


def asked() -> Attributes:
    """What a thread has after it asked; skips where the system has no slices to choose."""
    if not request_short_time_slice():
        pytest.skip("this system does not take the call")
    found = read_attributes()
    assert found is not None
    if found.runtime == 0:
        pytest.skip("this kernel takes no notice")
    return found


def test_the_thread_gets_its_slice_and_keeps_all_else():
    def before_and_after() -> tuple[Attributes | None, Attributes]:
        return read_attributes(), asked()

    before, after = in_a_thread(before_and_after)
    assert before is not None
    assert after == before._replace(runtime=int(SLICE_S * 1e9))


def test_threads_that_it_starts_have_the_same():
    def child() -> Attributes | None:
        asked()
        return in_a_thread(read_attributes)

    found = in_a_thread(child)
    assert found is not None
    assert found.runtime == int(SLICE_S * 1e9)


def test_another_policy_is_left_alone():
    def ask_in_batch() -> tuple[bool, Attributes | None]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return request_short_time_slice(), read_attributes()

    agreed, found = in_a_thread(ask_in_batch)
    assert not agreed
    assert found is None or found.policy == os.SCHED_BATCH


def test_a_machine_whose_calls_are_not_known_is_left_alone(monkeypatch):
    monkeypatch.setattr(time_slice.platform, "machine", lambda: "abacus")
    assert read_attributes() is None
    assert not request_short_time_slice()


@pytest.mark.parametrize("broken", [0, 1])
def test_a_refusal_is_noted_and_no_reason_to_stop(monkeypatch, caplog, broken):
    calls = list(time_slice._CALLS.get(time_slice.platform.machine(), (0, 0)))
    calls[broken] = 100_000
    monkeypatch.setattr(time_slice, "_CALLS", {time_slice.platform.machine(): tuple(calls)})
    with caplog.at_level("DEBUG"):
        assert not in_a_thread(request_short_time_slice)
    assert "no short slices" in caplog.text


def test_the_loop_of_a_daemon_and_its_workers_ask(echo):
    in_a_thread(asked)
    found = {
        thread.name: read_attributes(thread.native_id or 0)
        for thread in threading.enumerate()
        if thread.name in OURS
    }
    assert set(found) == OURS
    for attributes in found.values():
        assert attributes is not None
        assert attributes.runtime == int(SLICE_S * 1e9)
