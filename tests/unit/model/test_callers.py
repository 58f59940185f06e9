"""Callers: their names, and how they stand in a log."""

from __future__ import annotations

import pytest

from dray.model.callers import NOBODY, OWNER, Caller, caller_name


def test_a_caller_is_shown_with_its_address():
    assert str(Caller("cert:alpha", address="10.0.0.1:51000")) == "cert:alpha (10.0.0.1:51000)"
    assert str(OWNER) == "owner"


def test_all_connections_of_a_caller_from_one_machine_have_the_same_place():
    first, second = (Caller("token:t", address=f"[::1]:{port}") for port in (1, 2))
    assert first.place == second.place == "token:t at [::1]"
    assert Caller("user:ada", address="process 7").place == "user:ada"


@pytest.mark.parametrize("name", ["", "two words", "bell\a", "\x1b[2J", "x" * 256, "line\n"])
def test_a_name_that_could_disturb_a_log_is_nobody(name):
    assert caller_name("cert", name) == NOBODY
    assert caller_name("cert", "alpha.example") == "cert:alpha.example"
