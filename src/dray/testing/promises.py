"""What a simulation or a torture raises when something that Dray promises did not hold."""

from __future__ import annotations


class BrokenPromiseError(AssertionError):
    """A promise was broken in a world."""
