"""Requests of clients: each module answers a few kinds; only the turn calls it."""
