"""Frames for batches of a query, which are staged by many tasks and committed as one (120 to 124).

docs/explanation/batches.md tells what each crash leaves behind.
"""

from __future__ import annotations

from dray.wire.head import Head


class StageForBatch(Head, frozen=True):
    """First phase of a transaction that only the commit of its batch can commit.

    `sends` is how many Send frames must have come. Answered by BatchIs: if the batch is committed
    already, the transaction is aborted.
    """

    code = 120
    transaction: int
    sends: int
    query: str
    batch: int


class CommitBatch(Head, frozen=True):
    """Commit staged transactions as one, of the number `transaction`. Answered by BatchIs.

    Repeating it changes nothing. The manager drops everything else that is staged for the query, up
    to this batch. The messages of the batch join in the order of `staged`.
    """

    code = 121
    query: str
    batch: int
    digest: bytes
    transaction: int
    staged: list[str]


class DescribeBatch(Head, frozen=True):
    """Answered by BatchIs."""

    code = 122
    query: str
    batch: int


class BatchIs(Head, frozen=True):
    """Whether a batch is committed and remembered, and what it held.

    `last` is the last batch of the query that is remembered, -1 if there is none.
    """

    code = 123
    committed: bool
    last: int = -1
    digest: bytes = b""
    messages: int = 0
    transaction_id: str = ""


class DropStaged(Head, frozen=True):
    """Drop staged transactions of a batch that are still there. Answered by Done."""

    code = 124
    query: str
    batch: int
    staged: list[str]
