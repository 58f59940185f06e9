"""What a transaction has gathered, and how it ends: in one phase or in two, or aborted.

Requests and links gather here. The commit itself is one fact, made in `dray.manager.change`.
"""
