"""Audits: whether each message arrived once, in order and whole; and how fast."""
