"""The error that a simulation or a torture raises when Dray broke a promise."""

from __future__ import annotations


class BrokenPromiseError(AssertionError):
    """A promise was broken in a world."""
