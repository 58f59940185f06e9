"""No argument of `dray.folders`, of any type, gives an error that is not ours."""

from __future__ import annotations

import inspect
import threading
from contextlib import chdir

import pytest

import dray
import dray.folders
from dray.client.calls.public_calls import is_checked
from tests.contract.wrong_values import VALUES, is_ours

CALLS = {
    name: inspect.signature(getattr(dray.folders, name)).parameters
    for name in dray.folders.__all__
    if inspect.isfunction(getattr(dray.folders, name))
}


def test_every_call_checks_its_arguments():
    assert all(is_checked(getattr(dray.folders, name)) for name in CALLS)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Arguments with which each call ends at once; a relative path is one of the tests' own."""
    place = tmp_path_factory.mktemp("folders")
    for name in ("here", "folder"):
        (place / name).mkdir()
    (place / "manifest.jsonl").touch()
    stop = threading.Event()
    stop.set()
    with chdir(place / "here"), dray.open(place / "data") as manager:
        yield {
            "directory": place / "folder",
            "target": place / "into",
            "state": place / "state",
            "queue": manager.create_queue("files"),
            "manifest": place / "manifest.jsonl",
            "stop": stop,
        }


ENDLESS = {("watch", "stop"), ("receive", "stop")}
"""These go on until they are told to stop, and None tells nothing."""


def errors_of(call, name, needed):
    """The errors for each wrong value; a function that is called may raise what it likes."""
    for told, value in VALUES.items():
        if (value is None and (call, name) in ENDLESS) or (name == "tell" and callable(value)):
            continue
        try:
            getattr(dray.folders, call)(**(needed | {name: value}))
        except Exception as error:  # noqa: BLE001 - all of them are judged
            yield told, error


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, taken in CALLS.items() for name in taken]
)
def test_a_wrong_value_is_refused_in_a_sentence(good, call, name):
    needed = {each: good[each] for each in CALLS[call] if each in good}
    if call == "send":
        # There it is a flag.
        del needed["manifest"]
    found = list(errors_of(call, name, needed))
    assert found
    assert [(told, error) for told, error in found if not is_ours(error)] == []
