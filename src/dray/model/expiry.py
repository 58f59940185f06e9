"""Times at which something ends, in microseconds since 1970; 0 for things that never end."""

from __future__ import annotations


def end_us(now_us: int, left_us: int) -> int:
    """When something ends that has so much time left now."""
    # In the first microsecond of 1970 this would be 0.
    return max(1, now_us + left_us)


def is_over(end: int, now_us: int) -> bool:
    """Whether something has ended."""
    return 0 < end <= now_us
