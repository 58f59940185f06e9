"""Counted cost: how many lines of Python run in one event, whatever else the machine does.

A line takes 20 to 200 nanoseconds, so an event of fewer lines than `LINES_MAX` holds the loop for
less than 50 ms on a slow machine. Work in C, such as the reading of a frame's head, is not counted;
the bounds of sizes keep it short (`model/limits.py`).
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from asyncio import events
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

LINES_MAX = 250_000
_ONE_CALLBACK = events.Handle._run.__code__


@contextmanager
def uncollected() -> Iterator[None]:
    """Let no collection of garbage run: it runs the finalizers of what other tests have left."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Costs:
    """The lines of each event; one that takes too many fails at once, with its name."""

    def __init__(self, lines_max: int = LINES_MAX) -> None:
        self.lines_max = lines_max
        self.events = 0
        self.most = 0
        """Lines of the event that took most."""
        self.costliest = ""

    def of(self, name: str, act: Callable[[], Any]) -> Any:
        """Do one event and count it; its result or error is passed on."""
        lines = 0

        def line(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal lines
            lines += 1
            return line

        before = sys.gettrace()
        with uncollected():
            sys.settrace(line)
            try:
                return act()
            finally:
                sys.settrace(before)
                self._took(name, lines)

    def _took(self, name: str, lines: int) -> None:
        self.events += 1
        if lines > self.most:
            self.most, self.costliest = lines, name

    def check(self) -> None:
        """No event took too many lines."""
        assert self.events
        assert self.most <= self.lines_max, f"{self.costliest} took {self.most} lines"

    @contextmanager
    def in_loops(self) -> Iterator[None]:
        """Count each callback of the loops whose threads start meanwhile, until they end."""
        local = threading.local()

        def line(_frame: FrameType, event: str, _arg: object) -> Any:
            local.lines += 1
            return line

        def callback(frame: FrameType, event: str, _arg: object) -> Any:
            if event == "return":
                self._took(repr(frame.f_locals["self"]), local.lines)
                local.counting = False
            return callback

        def called(frame: FrameType, _event: str, _arg: object) -> Any:
            if frame.f_code is _ONE_CALLBACK:
                local.lines, local.counting = 0, True
                return callback
            return line if getattr(local, "counting", False) else None

        threading.settrace(called)
        try:
            yield
        finally:
            threading.settrace(None)  # type: ignore[arg-type]


def descriptors() -> Counter[str]:
    """The open descriptors of this process by what they lead to, sockets without their numbers."""
    found: Counter[str] = Counter()
    for each in Path("/proc/self/fd").iterdir():
        try:
            found[str(each.readlink()).partition(":[")[0]] += 1
        except FileNotFoundError:
            continue
    return found


def alive(*kinds: type) -> Counter[str]:
    """How many objects of these classes are in memory."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in kinds)


def calls_in_loop(
    loop: asyncio.AbstractEventLoop, act: Callable[[], object], kinds: str = "call c_call"
) -> int:
    """How many functions the thread of a running loop calls while `act` runs in this thread.

    Of `kinds`: those of Python are `call`, the built-in ones `c_call`.
    """
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in kinds.split()

    _act_watched(loop, act, sys.setprofile, called)
    return count


def instructions_in_loop(
    loop: asyncio.AbstractEventLoop, act: Callable[[], object]
) -> Counter[str]:
    """How many bytecode instructions the thread of a loop runs meanwhile, by source file."""
    counts: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _argument: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts[frame.f_code.co_filename] += event == "opcode"
        return watch

    _act_watched(loop, act, sys.settrace, watch)
    return counts


def _act_watched(
    loop: asyncio.AbstractEventLoop,
    act: Callable[[], object],
    install: Callable[[Any], None],
    watch: Callable[[FrameType, str, object], Any],
) -> None:
    """Do something while the thread of a loop is watched."""
    with uncollected():
        _in_loop(loop, lambda: install(watch))
        try:
            act()
        finally:
            _in_loop(loop, lambda: install(None))


def _in_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    done = threading.Event()
    loop.call_soon_threadsafe(lambda: (act(), done.set()))
    assert done.wait(60)


def calls_of(act: Callable[[], object]) -> int:
    """How many functions of Python are called meanwhile."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    with uncollected():
        sys.setprofile(called)
        try:
            act()
        finally:
            sys.setprofile(before)
    return count


class Lines:
    """Counts the lines that run in the files of a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def of(self, act: Callable[[], object]) -> int:
        """How many lines run there while something is done."""
        count = 0

        def line(_frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal count
            count += event == "line"
            return line

        def called(frame: FrameType, _event: str, _arg: object) -> Any:
            return line if self._folder in frame.f_code.co_filename else None

        before = sys.gettrace()
        sys.settrace(called)
        try:
            act()
        finally:
            sys.settrace(before)
        return count


def p99(taken: Sequence[float]) -> float:
    """What 99 of 100 stay within."""
    return sorted(taken)[int(0.99 * (len(taken) - 1))]
