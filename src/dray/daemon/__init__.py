"""Sockets, threads, signals and the real clock: the only place that waits."""
