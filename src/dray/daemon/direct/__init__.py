"""Calls of this program to its own queue manager, in the caller's thread."""
