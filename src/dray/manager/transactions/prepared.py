"""Two phases: a prepared transaction survives everything until whoever knows its id settles it.

open      prepare   prepared   what it sent is named by a fact, what it received stays held
prepared  crash     prepared   counted and held again at the next start
prepared  commit    (none)     the same fact as any commit; from any connection, after any crash
prepared  abort     (none)     places given up, held entries back in place
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dray.errors import Misuse, TransactionSequence, TransactionUsage
from dray.manager.change import arrival_wish, entries_at, record_of
from dray.manager.context import Context
from dray.manager.entries import Staged, packed_tails, split_tails, unpack, with_key
from dray.manager.facts import BatchStaged, Prepared, pack_lookups, unpack_lookups
from dray.manager.queue import StoredQueue, hold_parts, part_seen
from dray.manager.rights import manages_all, owns
from dray.manager.session import Session
from dray.manager.transactions.mixing import note_sent
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.manager.transactions.reservations import give_up_reservations
from dray.manager.transactions.transactions import Transactions, reason_to_abort
from dray.model.classes import Part
from dray.model.ids import split_id
from dray.model.limits import OPEN_TRANSACTIONS_TOLD_MAX, PREPARED_SHARE, STAGED_MAX
from dray.model.queue import OpenTransactionInfo
from dray.wire.batch_frames import StageForBatch
from dray.wire.frames import Done
from dray.wire.message_frames import ListPrepared, Prepare, PreparedList, SettlePrepared
from dray.wire.record import WANTS_ACKNOWLEDGMENTS


def handle_prepare(
    transactions: Transactions, session: Session, request_id: int, head: Prepare
) -> None:
    """Pass the first phase, or abort and answer why."""
    transaction = passed(transactions, session, request_id, head)
    if transaction is None:
        return
    context = transactions.context
    give_up_reservations(context, transaction)
    context.record(fact_of(context, transaction))
    del session.transactions[transaction.number]
    transaction.session = None
    transactions.shares.release(transaction)
    context.answer(session, request_id, Done(transaction.operations))


def passed(
    transactions: Transactions,
    session: Session,
    request_id: int,
    head: Prepare | StageForBatch,
) -> OpenTransaction | None:
    """The transaction that passes its first phase; if it cannot, refuse, abort and give None."""
    context, number = transactions.context, head.transaction
    transaction = transactions.opened_by(session, number)
    if transaction is None:
        transactions.check_not_aborted(number)
    if transaction is None and head.sends == 0:
        transaction = OpenTransaction(number, session)
        transactions.open[number] = transaction
        session.transactions[number] = None
    if transaction is not None and transaction.upload:
        raise TransactionUsage("a resumable upload is committed in one phase")
    if transaction is not None and transaction.claim:
        raise TransactionUsage("messages that a receive has claimed are committed in one phase")
    error = reason_to_abort(context, transaction, head) or _beyond_share(context, session)
    if transaction is None or error is not None:
        if transaction is not None:
            transactions.abort(transaction)
        context.refuse(session, request_id, error or _unknown(context.state.transaction_id(number)))
        return None
    return transaction


def _beyond_share(context: Context, session: Session) -> Misuse | None:
    """Why no other transaction of a caller may be kept until somebody settles it."""
    prepared, caller = context.state.prepared, session.caller
    if len(prepared) >= STAGED_MAX:
        return Misuse(
            f"{STAGED_MAX} transactions are prepared here, or staged for batches; settle them, or"
            " start the queries again that staged them"
        )
    share = STAGED_MAX // PREPARED_SHARE
    # They are counted only where one caller can have so many.
    if caller.owner or len(prepared) < share:
        return None
    if sum(each.caller == caller.name for each in prepared.values()) < share:
        return None
    return Misuse(
        f"{caller.name} has {share} transactions prepared here, or staged for batches; settle them"
        " first"
    )


def handle_settle_prepared(
    transactions: Transactions, session: Session, request_id: int, head: SettlePrepared
) -> None:
    """Pass the second phase. A transaction that is already settled that way stays so."""
    context = transactions.context
    manager, number = split_id(head.transaction_id)
    transaction = transactions.open.get(number)
    staged, outcomes = context.state.prepared.get(number), context.state.outcomes
    foreign = staged is not None and not owns(transactions.rights, session, staged.caller)
    if manager != context.state.manager_id or foreign:
        raise _unknown(head.transaction_id)
    if head.commit and isinstance(staged, BatchStaged):
        raise TransactionUsage(
            f"the transaction is staged for batch {staged.batch} of query {staged.query!r}, and"
            " only the query can commit it; run the query"
        )
    if staged is None:
        committed = number in outcomes
        if head.commit != committed or (not committed and outcomes.may_have_forgotten(number)):
            raise _unknown(head.transaction_id)
    elif transaction is not None and head.commit:
        transactions.commit_open(transaction)
    elif transaction is not None:
        transactions.abort(transaction)
    context.answer(session, request_id, Done())


def handle_list_prepared(
    transactions: Transactions, session: Session, request_id: int, _head: ListPrepared
) -> None:
    """List what is prepared and not settled; what is staged is for the commit of its batch.

    And the open transactions of those whom the caller may see.
    """
    context = transactions.context
    ids = [
        str(context.state.transaction_id(number))
        for number, prepared in context.state.prepared.items()
        if not isinstance(prepared, BatchStaged)
        and owns(transactions.rights, session, prepared.caller)
    ]
    told = [
        _open_info(context, each, name)
        for each, name in islice(_open_of(transactions, session), OPEN_TRANSACTIONS_TOLD_MAX)
    ]
    context.answer(session, request_id, PreparedList(ids, told))


def _open_of(transactions: Transactions, session: Session) -> Iterator[tuple[OpenTransaction, str]]:
    """The open transactions that a caller may see, each with the name of its own caller."""
    all_of_them = manages_all(transactions.rights, session)
    for each in transactions.open.values():
        if each.session is not None:
            name = each.session.caller.name
            if all_of_them or name == session.caller.name:
                yield each, name


def _open_info(context: Context, transaction: OpenTransaction, caller: str) -> OpenTransactionInfo:
    held: dict[str, int] = {}
    taken = [*transaction.receives.items()]
    taken += [(source, moved) for (source, _), moved in transaction.moves.items()]
    for number, lookup_ids in taken:
        queue = context.state.queues.get(number)
        if queue is not None and lookup_ids:
            held[queue.name] = held.get(queue.name, 0) + len(lookup_ids)
    return OpenTransactionInfo(
        id=context.state.transaction_id(transaction.number),
        caller=caller,
        idle=max(0.0, context.now - transaction.used_at),
        held=held,
        sent=sum(map(len, transaction.sends.values())),
    )


def take_up_all_prepared(transactions: Transactions) -> None:
    """After a start: take up every transaction that was prepared before."""
    for prepared in transactions.context.state.prepared.values():
        take_up_prepared(transactions, prepared)


def take_up_prepared(transactions: Transactions, prepared: Prepared) -> None:
    """Hold again what a prepared transaction holds, and count what it has sent."""
    context = transactions.context
    transaction = OpenTransaction(prepared.transaction, None)
    transactions.open[prepared.transaction] = transaction
    for number, tails in prepared.sends:
        queue = context.state.queues.get(number)
        if queue is not None:
            staged = [staged_from(context, queue, tail) for tail in split_tails(tails)]
            transaction.sends[number] = staged
            note_sent(queue, transaction, staged, guarded=False)
            context.state.ledger.stage(queue, sum(each.extent.length for each in staged))
    for number, lookups in prepared.receives:
        queue = context.state.queues.get(number)
        if queue is not None:
            lookup_ids = _hold_again(context, queue, transaction, lookups)
            transaction.receives[number] = lookup_ids
            transaction.singles[number] = list(lookup_ids)
    for source, target, lookups in prepared.moves:
        queue = context.state.queues.get(source)
        if queue is not None:
            lookup_ids = _hold_again(context, queue, transaction, lookups)
            transaction.moves[source, target] = lookup_ids
    transaction.rejected.update(prepared.rejected)


def _hold_again(
    context: Context, queue: StoredQueue, transaction: OpenTransaction, lookups: bytes
) -> list[int]:
    lookup_ids = unpack_lookups(lookups)
    entries = entries_at(queue, lookup_ids)
    hold_parts(context.store, queue, entries, 1)
    for packed in entries:
        queue.index.hold(packed, transaction.number)
    return lookup_ids


def staged_from(context: Context, queue: StoredQueue, tail: bytes) -> Staged:
    """Staged records that a fact has named and no queue holds yet."""
    entry = unpack(with_key(tail, 0))
    wish = None
    if entry.copies & WANTS_ACKNOWLEDGMENTS and not queue.outgoing:
        wish = arrival_wish(*record_of(context.store, entry))
    return Staged(
        entry.extent,
        entry.crc,
        entry.number,
        entry.part,
        entry.priority,
        entry.sent_us,
        entry.expires_us,
        entry.copies,
        seen=part_seen(context.store, entry) if entry.part != Part.PLAIN else None,
        wish=wish,
    )


def fact_of(context: Context, transaction: OpenTransaction) -> Prepared:
    """Name in a fact what a transaction has sent and received."""
    return Prepared(
        transaction.number,
        [
            (number, packed_tails(staged, transaction.number, context.now_us))
            for number, staged in transaction.sends.items()
        ],
        [(number, pack_lookups(each)) for number, each in transaction.receives.items()],
        [(*queues, pack_lookups(each)) for queues, each in transaction.moves.items()],
        sorted(transaction.rejected),
        transaction.session.caller.name if transaction.session is not None else "",
    )


def _unknown(transaction_id: str) -> TransactionSequence:
    return TransactionSequence(
        "there is no such prepared transaction: it was settled the other way or long ago, or never"
        " prepared here",
        transaction_id=transaction_id,
    )
