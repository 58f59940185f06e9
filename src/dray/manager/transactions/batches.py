"""Batches of a query: many tasks stage their rows, one commit makes all of them visible.

    open      stage                    staged   one fact: the rows and the name of their batch
    open      stage, batch committed   (none)   aborted; the answer says that it is committed
    staged    crash, session lost      staged   taken up like what is prepared
    staged    commit of the batch      (none)   one group of facts: rows join, outcome noted
    staged    another task's commit    (none)   dropped with all that its query staged up to there
    staged    dropped, too old         (none)   dropped

docs/explanation/batches.md tells what each crash leaves behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dray.errors import BatchMismatch, DrayError, TransactionAborted, TransactionUsage
from dray.manager.change import CommitFact
from dray.manager.context import MICROSECONDS, Context
from dray.manager.entries import TAIL_BYTES, Staged
from dray.manager.facts import BatchCommitted, BatchStaged
from dray.manager.notices import NoticeKind
from dray.manager.queue import cost_of_staged
from dray.manager.rights import owns
from dray.manager.session import Session
from dray.manager.state import BatchOutcome
from dray.manager.transactions.ahead import given_up_ahead
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.manager.transactions.prepared import fact_of, passed
from dray.manager.transactions.reservations import give_up_reservations
from dray.manager.transactions.transactions import Transactions
from dray.model.arguments import no_sense
from dray.model.ids import split_id
from dray.model.limits import (
    BATCH_DIGEST_BYTES_MAX,
    MESSAGE_NUMBER_MAX,
    QUERY_ID_CHARACTERS_MAX,
    STAGED_AGE_S_MAX,
    TRANSACTION_OPERATIONS_MAX,
)
from dray.model.words import counted
from dray.wire.batch_frames import BatchIs, CommitBatch, DescribeBatch, DropStaged, StageForBatch
from dray.wire.frames import Done

_STAGED_ID_BYTES = 9
"""Bytes of a fact for the number of a staged transaction."""


def handle_stage(
    transactions: Transactions, session: Session, request_id: int, head: StageForBatch
) -> None:
    """Keep what a task has sent until its batch is committed, or say that the batch is."""
    context = transactions.context
    transaction = passed(transactions, session, request_id, head)
    if transaction is None:
        return
    try:
        _check_name(head.query, head.batch)
        _check_not_past(context, head.query, head.batch)
        _check_may_stage(transaction)
    except DrayError:
        transactions.abort(transaction)
        raise
    outcome = _outcome(context, head.query, head.batch)
    if outcome is not None:
        transactions.abort(transaction)
    else:
        give_up_reservations(context, transaction)
        prepared = fact_of(context, transaction)
        context.record(
            BatchStaged(
                prepared.transaction,
                prepared.sends,
                [],
                caller=prepared.caller,
                query=head.query,
                batch=head.batch,
                when_us=context.now_us,
            )
        )
        del session.transactions[transaction.number]
        transaction.session = None
        transactions.shares.release(transaction)
        transactions.staged.note(transaction.number, context.now + STAGED_AGE_S_MAX)
    context.answer(session, request_id, _batch_is(context, head.query, outcome))


def handle_commit_batch(
    transactions: Transactions, session: Session, request_id: int, head: CommitBatch
) -> None:
    """Make the rows of the named transactions visible, as one transaction; or say that they are."""
    context = transactions.context
    _check_name(head.query, head.batch)
    if len(head.digest) > BATCH_DIGEST_BYTES_MAX:
        raise no_sense("digest", f"at most {BATCH_DIGEST_BYTES_MAX} bytes", head.digest)
    outcome = _outcome(context, head.query, head.batch)
    if outcome is None:
        _check_not_past(context, head.query, head.batch)
        outcome = _commit(transactions, session, head)
    elif outcome.digest != head.digest:
        raise BatchMismatch(
            f"batch {head.batch} of query {head.query!r} was committed here with other rows"
            f" ({counted(outcome.messages)}); nothing was sent. Give each sink a query_id of its"
            " own, and make the query give the same rows when a batch is run again; if the"
            " checkpoint was damaged, start with a new one",
            query=head.query,
            batch=head.batch,
        )
    for number in list(_staged_up_to(transactions, session, head)):
        transactions.abort(transactions.open[number])
    context.answer(session, request_id, _batch_is(context, head.query, outcome))


def handle_describe_batch(
    context: Context, session: Session, request_id: int, head: DescribeBatch
) -> None:
    """Say whether a batch is committed."""
    outcome = _outcome(context, head.query, head.batch)
    context.answer(session, request_id, _batch_is(context, head.query, outcome))


def handle_drop_staged(
    transactions: Transactions, session: Session, request_id: int, head: DropStaged
) -> None:
    """Drop what the tasks of a failed job have staged."""
    context = transactions.context
    dropped = 0
    for name in head.staged:
        number = _staged_number(context, name, head.query, head.batch)
        if number is not None:
            transactions.abort(transactions.open[number])
            dropped += 1
    context.answer(session, request_id, Done(dropped))


def drop_old_batches(transactions: Transactions) -> None:
    """Drop the staged work of batches for which no task has staged anything for too long."""
    context = transactions.context
    for number in transactions.staged.due(context.now):
        fact = context.state.prepared[number]
        assert isinstance(fact, BatchStaged), "nothing else is too old"
        count = sum(len(tails) for _, tails in fact.sends) // TAIL_BYTES
        for queue_number, tails in fact.sends:
            queue = context.state.queues.get(queue_number)
            if queue is not None:
                queue.staged_dropped += len(tails) // TAIL_BYTES
        transactions.abort(transactions.open[number])
        sentence = (
            f"dropped {counted(count)} that a task staged for batch {fact.batch} of query"
            f" {fact.query!r}, because nothing was staged for it in {STAGED_AGE_S_MAX / 3600:.0f}"
            " hours; if the query is still wanted, start it again from its checkpoint"
        )
        context.notices.add(NoticeKind.STAGED_DROPPED, "batches", sentence)


def take_up_batches(transactions: Transactions) -> None:
    """After a start: see to it that staged work is looked at when it may be too old."""
    for number, fact in transactions.context.state.prepared.items():
        if isinstance(fact, BatchStaged):
            transactions.staged.note(number, fact.when_us / MICROSECONDS + STAGED_AGE_S_MAX)


def staged_counts(context: Context) -> Counter[int]:
    """The number of messages staged for each queue, by its number."""
    counts: Counter[int] = Counter()
    for fact in context.state.prepared.values():
        if isinstance(fact, BatchStaged):
            for queue_number, tails in fact.sends:
                counts[queue_number] += len(tails) // TAIL_BYTES
    return counts


def drop_staged_for(transactions: Transactions, queues: set[int]) -> None:
    """Drop what is staged for queues that are to be deleted: its commit is refused then."""
    for fact in list(transactions.context.state.prepared.values()):
        if isinstance(fact, BatchStaged) and not queues.isdisjoint(dict(fact.sends)):
            transactions.abort(transactions.open[fact.transaction])


def _commit(transactions: Transactions, session: Session, head: CommitBatch) -> BatchOutcome:
    context = transactions.context
    number = head.transaction
    if not 0 < number <= MESSAGE_NUMBER_MAX or number in transactions.open:
        raise no_sense("transaction", f"an unused number from 1 to {MESSAGE_NUMBER_MAX}", number)
    numbers: list[int] = []
    for name in head.staged:
        at = _staged_number(context, name, head.query, head.batch)
        if at is None:
            raise TransactionAborted(
                f"work of batch {head.batch} of query {head.query!r} is no longer staged here: it"
                " was dropped by age, by another run of the query or with its queue; nothing of"
                " the batch is kept, run it again",
                transaction_id=name,
            )
        numbers.append(at)
    if len(set(numbers)) != len(numbers):
        raise no_sense("staged", "transactions that are named once", head.staged)
    joined: dict[int, list[Staged]] = {}
    for at in numbers:
        for queue_number, staged in transactions.open[at].sends.items():
            joined.setdefault(queue_number, []).extend(staged)
    _check_fits(context, number, joined, len(numbers))
    for at in numbers:
        # Pieces that are there bear the number of their task, and the messages another one.
        transaction = transactions.open[at]
        given_up_ahead(context, transaction)
        transactions.forget(transaction)
    messages = sum(map(len, joined.values()))
    owner = context.state.batch_outcomes.owner(head.query)
    # The records are those of the commit from here on, and both facts are of one group.
    context.record(
        BatchCommitted(
            head.query,
            head.batch,
            head.digest,
            messages,
            number,
            numbers,
            context.now_us,
            session.caller.name if owner is None else owner,
        )
    )
    fact = CommitFact(context, number)
    for queue_number, staged in joined.items():
        fact.join(context.state.queues.numbered(queue_number), staged)
    fact.record()
    outcome = _outcome(context, head.query, head.batch)
    assert outcome is not None
    return outcome


def _check_fits(context: Context, number: int, joined: dict[int, list[Staged]], tasks: int) -> None:
    """Raise `TransactionAborted` if one commit cannot hold all of it."""
    count = sum(map(len, joined.values()))
    cost = sum(cost_of_staged(each) for staged in joined.values() for each in staged)
    most = context.room.fact_bytes_max - tasks * _STAGED_ID_BYTES - QUERY_ID_CHARACTERS_MAX
    if count > TRANSACTION_OPERATIONS_MAX or cost > most:
        raise TransactionAborted(
            f"the batch has {counted(count)}, and the log would need {cost}"
            f" bytes; one commit may have {TRANSACTION_OPERATIONS_MAX} messages and {max(0, most)}"
            " bytes here. Make the batches of the query smaller (maxOffsetsPerTrigger)",
            transaction_id=context.state.transaction_id(number),
            retryable=False,
        )


def _check_name(query: str, batch: int) -> None:
    if not 0 < len(query) <= QUERY_ID_CHARACTERS_MAX:
        raise no_sense("query", f"a text of 1 to {QUERY_ID_CHARACTERS_MAX} characters", query)
    if not 0 <= batch <= MESSAGE_NUMBER_MAX:
        raise no_sense("batch", f"a number from 0 to {MESSAGE_NUMBER_MAX}", batch)


def _check_not_past(context: Context, query: str, batch: int) -> None:
    known = context.state.batch_outcomes.of(query)
    if known and batch < known[-1].batch and _outcome(context, query, batch) is None:
        raise BatchMismatch(
            f"query {query!r} has already committed batch {known[-1].batch} here, and batch {batch}"
            " is older than what its checkpoint can replay; nothing was sent. If the query was"
            " begun anew without its checkpoint, give it another query_id",
            query=query,
            batch=batch,
        )


def _check_may_stage(transaction: OpenTransaction) -> None:
    if transaction.receives or transaction.moves:
        raise TransactionUsage("a transaction that has received messages cannot be staged")


def _outcome(context: Context, query: str, batch: int) -> BatchOutcome | None:
    known = context.state.batch_outcomes.of(query)
    return next((each for each in known if each.batch == batch), None)


def _batch_is(context: Context, query: str, outcome: BatchOutcome | None) -> BatchIs:
    known = context.state.batch_outcomes.of(query)
    last = known[-1].batch if known else -1
    if outcome is None:
        return BatchIs(committed=False, last=last)
    name = context.state.transaction_id(outcome.transaction)
    return BatchIs(True, last, outcome.digest, outcome.messages, name)


def _staged_up_to(transactions: Transactions, session: Session, head: CommitBatch) -> Iterator[int]:
    """Find the work staged for a query up to a batch, but no work of another caller."""
    for number, fact in transactions.context.state.prepared.items():
        if (
            isinstance(fact, BatchStaged)
            and (fact.query, fact.batch <= head.batch) == (head.query, True)
            and owns(transactions.rights, session, fact.caller)
        ):
            yield number


def _staged_number(context: Context, name: str, query: str, batch: int) -> int | None:
    """The number of a transaction that is staged here for a batch; None if there is none."""
    manager, number = split_id(name)
    fact = context.state.prepared.get(number) if manager == context.state.manager_id else None
    is_staged = isinstance(fact, BatchStaged) and (fact.query, fact.batch) == (query, batch)
    return number if is_staged else None
