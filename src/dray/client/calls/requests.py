"""How long the answers to requests may take."""

from __future__ import annotations

from typing import cast

from dray.errors import Misuse
from dray.model.limits import TIME_TO_LIVE_S_MAX

ANSWER_GRACE_S = 30.0
"""A queue manager counts a timeout itself and tells; silence so much later means it is gone."""
_FOR_EVER_S = 1e9
"""Thirty years, and less than the longest wait that every clock of Python can count."""


def check_count(name: str, value: object) -> None:
    """Raise `Misuse` unless an argument is a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misuse(f"{name} must be a whole number, not {value!r}")


def check_seconds(name: str, value: object) -> None:
    """Raise `Misuse` unless an argument is a number of seconds that can pass."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < cast("float", value) <= TIME_TO_LIVE_S_MAX:
        raise Misuse(f"{name} must be a number of seconds above 0, not {value!r}")


def check_timeout(timeout: object) -> None:
    """Raise `Misuse` unless it is None or a number of seconds from 0 on."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise Misuse(
            "a timeout must be a number of seconds, 0 or more, or None for no limit; not"
            f" {timeout!r}"
        )


def wait_for(timeout: float | None) -> float | None:
    """How long to wait for the answer to a request with that timeout; raises `Misuse`."""
    check_timeout(timeout)
    if timeout is None:
        return None
    return None if timeout >= _FOR_EVER_S else timeout + ANSWER_GRACE_S
