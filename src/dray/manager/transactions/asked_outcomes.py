"""The outcome of a transaction, for a client that asks; one that is unknown never commits later."""

from __future__ import annotations

from dray.manager.rights import owns
from dray.manager.session import Session
from dray.manager.transactions.transactions import Transactions
from dray.model.classes import TransactionStatus
from dray.model.ids import EXPRESS_OUTCOME, split_id
from dray.wire.message_frames import Outcome, OutcomeIs


def handle_outcome(
    transactions: Transactions, session: Session, request_id: int, head: Outcome
) -> None:
    """Tell what became of a transaction (S2-3); a claim that is open is given up first."""
    context = transactions.context
    if head.claim:
        manager, number = split_id(head.transaction_id)
        claim = transactions.open.get(number)
        holder = claim.session if claim is not None else None
        is_own = holder is None or owns(transactions.rights, session, holder.caller.name)
        if manager == context.state.manager_id and is_own:
            transactions.give_up_claim(number)
    context.answer(
        session, request_id, OutcomeIs(str(outcome_of(transactions, head.transaction_id)))
    )


def outcome_of(transactions: Transactions, transaction_id: str) -> TransactionStatus:
    """The outcome of a transaction; one that is called aborted here will never happen."""
    context = transactions.context
    manager, number = split_id(transaction_id)
    number, express = number & ~EXPRESS_OUTCOME, number & EXPRESS_OUTCOME
    state = context.state
    if manager != state.manager_id or number >= state.next_number:
        return TransactionStatus.UNKNOWN
    if state.has_committed(number) or number in transactions.express_outcomes:
        return TransactionStatus.COMMITTED
    if number in state.prepared:
        return TransactionStatus.PREPARED
    if number in transactions.open:
        return TransactionStatus.PENDING
    if state.outcomes.may_have_forgotten(number) or (
        express and transactions.express_outcomes.may_have_forgotten(number)
    ):
        return TransactionStatus.UNKNOWN
    # A transaction that is neither committed nor open was aborted, at the latest by a crash (R3).
    transactions.aborted_transactions.add(number)
    return TransactionStatus.ABORTED
