"""Steps of a program after which it may be killed, by name; `watch` is how tests get there."""

from __future__ import annotations

from collections.abc import Callable

watch: Callable[[str], object] | None = None


def reached(step: str) -> None:
    """A step has just been done."""
    if watch is not None:
        watch(step)
