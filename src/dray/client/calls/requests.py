"""The time that the answers to requests may take."""

from __future__ import annotations

ANSWER_GRACE_S = 30.0
"""A queue manager counts a timeout itself and tells; silence so much later means it is gone."""
_FOR_EVER_S = 1e9
"""Thirty years, and less than the longest wait that every clock of Python can count."""


def wait_for(timeout: float | None) -> float | None:
    """The time to wait for the answer to a request with that timeout; None for ever."""
    return None if timeout is None or timeout >= _FOR_EVER_S else timeout + ANSWER_GRACE_S
