"""Answers the tools of operators over HTTP: metrics for Prometheus, and health.

It speaks to the queue manager over a connection, like any other client, in threads of its own.
"""
