"""A bound on how many of something are under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dray.console.http.refusal import HttpRefusal


class BoundedCount:
    """How many of something are under way, with a bound."""

    def __init__(self, most: int, status: int, code: str, sentence: str) -> None:
        """Begin with none; one above `most` is refused with the rest."""
        self._most = most
        self._refusal = status, code, sentence
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one more; raises `HttpRefusal` if there are too many."""
        if self._count >= self._most:
            raise HttpRefusal(*self._refusal)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
