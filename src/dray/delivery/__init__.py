"""Exactly once and in order between two queue managers, as cores that only decide."""
