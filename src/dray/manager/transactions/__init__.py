"""Open transactions, and how they end: in one phase or in two, or aborted.

Requests gather here. The commit itself is one fact, made in `dray.manager.change`.
"""
