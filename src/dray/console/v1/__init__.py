"""HTTP for programs: send, receive, transactions, queues and resumable uploads under `/v1`.

Each caller shows a token and gets a connection of its own to the queue manager, which decides what
the caller may do. `docs/reference/http.md` is the page about it.
"""

from __future__ import annotations

from dray.console.v1.holders import TokenHolders
from dray.console.v1.operators import operator_routes
from dray.console.v1.routes import routes

__all__ = ["TokenHolders", "operator_routes", "routes"]
