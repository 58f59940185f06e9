"""A test leaves nothing behind: no open file or socket, no thread, no child process.

What stays open adds up over thousands of tests, until a limit is met far from its cause. So what is
open before a test and after it is compared, and the test that left something fails, by name.

Fixtures of a wider scope than one test may keep what they open: what is new while such a fixture
is set up is theirs, and so are files in directories that they made, since a manager that serves
many tests opens its files when it needs them. So may Spark: when Java collects its garbage, in the
middle of any later test, it calls Python, and the gateway keeps that connection and its thread.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

PATIENCE_S = 20.0
"""The other end of a socket is closed by a thread that may have to wait for its turn."""
UNCOLLECTED_S = 0.1
"""A thread that is ending needs less; to collect garbage costs more than to wait for it."""
_PAUSE_S = 0.002


class Open(NamedTuple):
    """What one process has open; each by a name that people can read."""

    descriptors: frozenset[str]
    threads: frozenset[str]
    children: frozenset[str]

    def without(self, others: Open) -> Open:
        return Open(*(mine - theirs for mine, theirs in zip(self, others, strict=True)))

    def with_(self, others: Open) -> Open:
        return Open(*(mine | theirs for mine, theirs in zip(self, others, strict=True)))

    def __str__(self) -> str:
        return ", ".join(sorted(name for names in self for name in names))


NOTHING = Open(frozenset(), frozenset(), frozenset())


def open_now() -> Open:
    """What this process has open at the moment."""
    gateways = {each: of for each in threading.enumerate() if (of := _gateway(each)) is not None}
    return Open(
        frozenset(
            _descriptors({str(each.fileno()) for each in gateways.values()} | set(_to_java()))
        ),
        frozenset(
            f"thread {each.name} ({each.ident})"
            for each in threading.enumerate()
            if each not in gateways
        ),
        frozenset(_children()),
    )


def _gateway(thread: threading.Thread) -> socket.socket | None:
    """The socket of Spark's gateway that the thread serves, or None."""
    of = getattr(getattr(thread, "_target", None), "__self__", None)
    match type(of).__module__, type(of).__name__:
        case "py4j.clientserver", "PythonServer":
            return of.server_socket
        case "py4j.clientserver", "ClientServerConnection":
            return of.socket
    return None


def _to_java() -> Iterator[str]:
    """Descriptors of the connections to Java that Spark keeps: a collected object needs one."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    client = getattr(getattr(context, "_gateway", None), "_gateway_client", None)
    for each in tuple(getattr(client, "deque", ())):
        if getattr(each, "socket", None) is not None:
            yield str(each.socket.fileno())


def _descriptors(gateways: set[str]) -> Iterator[str]:
    # Without objects of pathlib: this runs some times for each of thousands of tests.
    for each in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if each not in gateways:
            try:
                yield f"{os.readlink(f'/proc/self/fd/{each}')} (descriptor {each})"  # noqa: PTH115
            except FileNotFoundError:
                continue  # It was the one that listed the directory, or another thread closed it.


def _children() -> Iterator[str]:
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208
        try:
            with open(f"/proc/self/task/{task}/children", "rb", buffering=0) as told:  # noqa: PTH123
                found = told.read()
        except FileNotFoundError:
            continue
        for child in found.split():
            yield f"process {child.decode()}"


class Leaks:
    """The plugin: one for each run."""

    def __init__(self) -> None:
        self._theirs = NOTHING
        self._directories: set[str] = set()
        self._before = NOTHING

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        """Keep apart what fixtures of a wider scope open."""
        if fixturedef.scope == "function":
            return (yield)
        before, directories = open_now(), self._made(request)
        result = yield
        self._theirs = self._theirs.with_(open_now().without(before))
        self._directories |= self._made(request) - directories
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self):
        self._before = open_now()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        result = yield
        if item.get_closest_marker("spark") is None and (left := self._left_behind()) != NOTHING:
            pytest.fail(f"the test left behind: {left}", pytrace=False)
        return result

    def _left_behind(self) -> Open:
        if self._left_within(min(UNCOLLECTED_S, PATIENCE_S)) == NOTHING:
            return NOTHING
        gc.collect()
        return self._left_within(PATIENCE_S)

    def _left_within(self, patience_s: float) -> Open:
        deadline = time.monotonic() + patience_s
        while (left := self._left()) != NOTHING and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return left

    def _left(self) -> Open:
        left = open_now().without(self._before).without(self._theirs)
        return left._replace(
            descriptors=frozenset(each for each in left.descriptors if not self._in_theirs(each))
        )

    def _in_theirs(self, name: str) -> bool:
        return any(name.startswith(directory) for directory in self._directories)

    @staticmethod
    def _made(request) -> set[str]:
        factory = request.config._tmp_path_factory
        return {f"{each}/" for each in factory.getbasetemp().iterdir()}
