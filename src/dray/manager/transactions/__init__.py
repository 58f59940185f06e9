"""What a transaction has gathered, and how it ends: in one phase or in two, or aborted.

Requests gather here. The commit itself is one fact, made in `dray.manager.change`.
"""
