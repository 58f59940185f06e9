"""Transactions of several requests, and the outcome of a transaction of any kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from dray.console.http.refusal import HttpRefusal
from dray.console.v1.calls import Call, HeldTransaction, answered, nothing
from dray.console.v1.held import Ended
from dray.console.v1.limits import LEASE_S, TRANSACTIONS_MAX
from dray.model.ids import split_id


async def begin(call: Call) -> Response:
    """Begin a transaction."""
    held = call.caller.transactions
    if len(held.open) >= TRANSACTIONS_MAX:
        raise HttpRefusal(
            429, "too-many-transactions", f"this caller has {TRANSACTIONS_MAX} open transactions;"
            " commit or abort some of them",
        )  # fmt: skip
    transaction = await call.caller.manager.transaction()
    begun = HeldTransaction(transaction, call.caller.leases)
    held.add(begun)
    said = {"id": begun.id, "transaction_id": transaction.id, "seconds": LEASE_S}
    return answered(said, 201, {"Location": f"/v1/transactions/{begun.id}"})


async def renew(call: Call) -> Response:
    """Let the time of a transaction begin anew, unless it ended with its connection."""
    held, found = call.caller.transactions, _transaction(call)
    if not found.transaction.under_way:
        found.release(Ended.ABORTED)
        held.forget(found, Ended.ABORTED)
    held.renew(_transaction(call))
    return nothing()


async def commit(call: Call) -> Response:
    """Commit a transaction. Repeating it changes nothing."""
    return await _end(call, Ended.COMMITTED)


async def abort(call: Call) -> Response:
    """Abort a transaction. Repeating it changes nothing."""
    return await _end(call, Ended.ABORTED)


async def outcome(call: Call) -> Response:
    """The end of a transaction, also of a receive or of a send whose answer was lost."""
    name = call.request.query_params.get("id", "")
    split_id(name)
    return answered({"id": name, "outcome": str(await call.caller.manager.outcome(name))})


async def _end(call: Call, end: Ended) -> Response:
    held = call.caller.transactions
    if await held.end_of(call.named("transaction")) is end:
        return nothing()
    ended = _transaction(call)
    await held.unused(ended)
    if await held.end_of(ended.id) is end:
        return nothing()
    held.find(ended.id)
    by: Callable[[], Awaitable[None]] | None = None
    if end is Ended.COMMITTED:
        by = ended.transaction.commit
    try:
        await held.end(ended, end, by)
    finally:
        ended.release(await held.end_of(ended.id) or end)
    return nothing()


def _transaction(call: Call) -> HeldTransaction:
    found = call.caller.transactions.find(call.named("transaction"))
    assert isinstance(found, HeldTransaction)
    return found
