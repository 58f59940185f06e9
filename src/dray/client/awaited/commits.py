"""Commits of several transactions side by side: all are asked for before the first is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from dray.client.awaited.transaction import Transaction


async def commit_all(transactions: Sequence[Transaction]) -> list[Exception | None]:
    """Commit; for each None, or the error that `Transaction.commit` raises."""
    errors = [await _error_of(each.begin_commit()) for each in transactions]
    return [
        error or await _error_of(transaction.end_commit())
        for transaction, error in zip(transactions, errors, strict=True)
    ]


async def _error_of(step: Awaitable[None]) -> Exception | None:
    try:
        await step
    except Exception as error:  # noqa: BLE001 - given to the caller, who has others to end
        return error
    return None
