"""Signal handlers of the program wait until a block is over."""

from __future__ import annotations

import _signal
import signal
import sys
import threading
from contextlib import contextmanager

import pytest

from dray.daemon.direct.held_signals import HELD, HeldSignals
from tests.children import in_child


class StoppedHereError(Exception):
    """What a handler of the program raises."""


def interrupt(_number, _frame):
    raise StoppedHereError


@contextmanager
def handled(*numbers):
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_runs_when_the_block_is_over():
    held = HeldSignals()
    with handled(signal.SIGUSR1):
        held.hold()
        signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(StoppedHereError):
            held.let_go()
        assert signal.getsignal(signal.SIGUSR1) is interrupt


@pytest.mark.parametrize("number", HELD)
def test_each_signal_that_programs_handle_is_held(number):
    held = HeldSignals()
    with handled(number):
        held.hold()
        signal.raise_signal(number)
        with pytest.raises(StoppedHereError):
            held.let_go()


def test_ctrl_c_is_held_with_its_usual_handler():
    held = HeldSignals()
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        held.hold()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            held.let_go()
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_handlers_of_all_signals_are_back_also_when_one_raises():
    held = HeldSignals()
    with handled(signal.SIGUSR1, signal.SIGUSR2):
        held.hold()
        signal.raise_signal(signal.SIGUSR2)
        signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(StoppedHereError):
            held.let_go()
        assert signal.getsignal(signal.SIGUSR1) is signal.getsignal(signal.SIGUSR2) is interrupt
        held.hold()
        held.let_go()


def test_the_handlers_of_all_signals_run_also_when_one_raises():
    held, came = HeldSignals(), []

    def note(number, _frame):
        came.append(number)
        raise StoppedHereError

    before = {number: signal.signal(number, note) for number in (signal.SIGUSR1, signal.SIGTERM)}
    try:
        held.hold()
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StoppedHereError):
            held.let_go()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert came == [signal.SIGUSR1, signal.SIGTERM]


def test_a_handler_may_begin_a_block_of_its_own_while_the_handlers_come_back():
    held, came = HeldSignals(), []

    def nested(number, _frame):
        held.hold()
        came.append(number)
        held.let_go()

    def interrupt_restoring(_frame, event, argument):
        if event == "c_return" and argument is _signal.signal and not came:
            signal.raise_signal(signal.SIGUSR2)

    both = (signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.signal(number, nested) for number in both}
    try:
        held.hold()
        sys.setprofile(interrupt_restoring)
        try:
            held.let_go()
        finally:
            sys.setprofile(None)
        assert came == [signal.SIGUSR2]
        assert [signal.getsignal(number) for number in both] == [nested, nested]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_without_a_handler_does_what_it_did():
    held = HeldSignals()
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        held.hold()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        held.let_go()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_hold_nothing():
    held = HeldSignals()
    with handled(signal.SIGUSR1):
        thread = threading.Thread(target=held.hold)
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGUSR1) is interrupt
        other = threading.Thread(target=held.let_go)
        other.start()
        other.join()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_thread_beside_the_block_has_the_programs_handlers():
    held = HeldSignals()
    with handled(signal.SIGUSR1):
        held.hold()
        found = []

        def fork():
            found.append(in_child(lambda: signal.getsignal(signal.SIGUSR1).__name__))

        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        held.let_go()
    assert found == ["interrupt"]
