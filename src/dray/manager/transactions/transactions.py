"""Transactions: what they gather, how they commit and how they abort.

    open        bound to the session that began it by its first operation
    doomed      a send was refused: nothing more is placed, and its commit is answered with why
    prepared    of two phases, see `prepared.py`

Every step is in `tables.py`, drawn in docs/explanation/transactions.md. A commit is one fact:
messages join, then messages leave. An abort gives up places and puts back what was held.

Positions are given at commit, so groups stand in commit order (S4-1). A crash aborts: nothing of an
open transaction is durable (R3).
"""

from __future__ import annotations

from dray.errors import DrayError, TransactionAborted, TransactionSequence
from dray.manager.change import CommitFact, entries_at, forget_parts, leave_all
from dray.manager.context import MICROSECONDS, Context
from dray.manager.entries import Staged, expiries_in, is_express_entry
from dray.manager.facts import BatchStaged, PreparedAborted, PutBack, UploadDropped, pack_lookups
from dray.manager.queue import StoredQueue, hold_parts
from dray.manager.rights import Rights
from dray.manager.session import Session
from dray.manager.state import Deadlines, Outcomes
from dray.manager.transactions.aborted_transactions import AbortedTransactions
from dray.manager.transactions.ahead import committed_ahead, given_up_ahead
from dray.manager.transactions.mixing import forget_sends, mixed_at_commit
from dray.manager.transactions.open_transaction import OpenTransaction, TransactionShares
from dray.manager.transactions.reservations import Reservations, give_up_reservations
from dray.manager.works import Works
from dray.model.arguments import no_sense
from dray.model.classes import MessageClass
from dray.model.limits import (
    ABORTED_A_TURN,
    MESSAGE_NUMBER_MAX,
    STAGED_AGE_S_MAX,
    UPLOAD_AGE_S_MAX,
)
from dray.wire.batch_frames import StageForBatch
from dray.wire.frames import Done
from dray.wire.message_frames import Abort, Commit, Prepare


class Transactions:
    """All that are open, and what is remembered of those that are not."""

    def __init__(self, works: Works, rights: Rights) -> None:
        """Begin with none open; what takes many facts goes to `works`."""
        self.context = context = works.context
        self.works = works
        self.rights = rights
        self.open: dict[int, OpenTransaction] = {}
        self.used: dict[int, OpenTransaction] = {}
        """Transactions by their last use, the longest ago first."""
        self.aborted_transactions = AbortedTransactions(rights.leases)
        self.express_outcomes = Outcomes(certain_from=context.state.next_number)
        """Sends and receives of express messages since the start; earlier ones are forgotten."""
        self.shares = TransactionShares()
        self.reservations = Reservations(context, self.open)
        self.staged = Deadlines(self._staged_too_old_at)
        """When to look whether staged work of batches is too old."""
        self.uploads = Deadlines(self._upload_too_old_at)
        """When to look whether an upload is too old."""

    def find_or_begin(
        self, session: Session, number: int, *, claim: bool = False
    ) -> OpenTransaction:
        """Find the session's transaction, or begin it; `TransactionSequence` if another's."""
        context = self.context
        transaction = self.open.get(number)
        if transaction is None:
            if not 0 < number <= MESSAGE_NUMBER_MAX:
                raise no_sense("transaction", f"a number from 1 to {MESSAGE_NUMBER_MAX}", number)
            if context.state.has_committed(number):
                raise TransactionSequence(
                    "the transaction is already committed; begin another",
                    transaction_id=context.state.transaction_id(number),
                )
            self.check_not_aborted(number)
            transaction = OpenTransaction(number, session)
            self.shares.hold(transaction, session.caller)
            self.open[number] = transaction
            session.transactions[number] = None
            transaction.claim = claim
        if transaction.session is not session:
            raise TransactionSequence(
                "the transaction belongs to another connection",
                transaction_id=context.state.transaction_id(number),
            )
        self._use(transaction)
        return transaction

    def opened_by(self, session: Session, number: int) -> OpenTransaction | None:
        """The transaction of that number, if it is open on the session."""
        return self.open[number] if number in session.transactions else None

    def check_not_aborted(self, number: int) -> None:
        """Raise `TransactionAborted` if that is what was said of the transaction."""
        why = self.aborted_transactions.reason(number)
        if why is not None:
            state = self.context.state
            raise TransactionAborted(why, transaction_id=state.transaction_id(number))

    def idle_at(self) -> float | None:
        """When to look whether the transaction that was used the longest ago is idle."""
        patience = self.context.config.idle_transaction_s
        if patience is None or not self.used:
            return None
        return next(iter(self.used.values())).used_at + patience

    def abort_idle(self) -> None:
        """Abort what nobody has used for too long; a receive that waits in it uses it."""
        context = self.context
        for _ in range(ABORTED_A_TURN):
            idle_at = self.idle_at()
            if idle_at is None or idle_at > context.now or context.room.has_said_enough:
                return
            oldest = next(iter(self.used.values()))
            if oldest.session is None or oldest.upload:
                # A prepared transaction and an upload outlive their sessions.
                del self.used[oldest.number]
            elif _awaits_something(context, oldest):
                self._use(oldest)
            else:
                self.abort(oldest)
                self.aborted_transactions.add(
                    oldest.number,
                    "the transaction was aborted because nothing happened in it for"
                    f" {context.config.idle_transaction_s:g} s (idle_transaction_s); nothing of it"
                    " is kept, do it again",
                )

    def _use(self, transaction: OpenTransaction) -> None:
        transaction.used_at = self.context.now
        self.used.pop(transaction.number, None)
        self.used[transaction.number] = transaction

    def _staged_too_old_at(self, number: int) -> float | None:
        """After so long in which no task has staged anything for the batch."""
        prepared = self.context.state.prepared
        fact = prepared.get(number)
        if not isinstance(fact, BatchStaged):
            return None
        newest = max(
            each.when_us
            for each in prepared.values()
            if isinstance(each, BatchStaged)
            and (each.query, each.batch) == (fact.query, fact.batch)
        )
        return newest / MICROSECONDS + STAGED_AGE_S_MAX

    def _upload_too_old_at(self, number: int) -> float | None:
        upload = self.context.state.uploads.get(number)
        return None if upload is None else upload.used_us / MICROSECONDS + UPLOAD_AGE_S_MAX

    def give_up_claim(self, number: int) -> None:
        """Put back what was claimed and not confirmed; its receiver says that it has it not."""
        claim = self.open.get(number)
        if claim is not None and claim.claim:
            self.abort(claim)
            self.aborted_transactions.add(number)

    def handle_commit(self, session: Session, request_id: int, head: Commit) -> None:
        """Commit, or answer why not."""
        context = self.context
        transaction = self.opened_by(session, head.transaction)
        if transaction is None:
            self.check_not_aborted(head.transaction)
        if transaction is None and head.sends == 0:
            # Nothing was done in it, so nothing is to be done.
            context.answer(session, request_id, Done())
            return
        error = reason_to_abort(context, transaction, head)
        if transaction is None or error is not None:
            if transaction is not None:
                self.abort(transaction)
            context.refuse(session, request_id, error or _incomplete(context, head.transaction))
            return
        self.commit_open(transaction)
        context.answer(session, request_id, Done(transaction.operations))

    def handle_abort(self, session: Session, request_id: int, head: Abort) -> None:
        """Abort; a transaction that did nothing is none, but may have a receive that waits."""
        context = self.context
        _end_waiting(context, session, head.transaction)
        transaction = self.opened_by(session, head.transaction)
        if transaction is not None:
            self.abort(transaction)
        context.answer(session, request_id, Done())

    def abort(self, transaction: OpenTransaction) -> None:
        """Give up what was placed, put back what was held (R2)."""
        context = self.context
        self.forget(transaction)
        _give_up_sends(context, transaction)
        give_up_reservations(context, transaction)
        self.give_back(transaction)

    def give_back(self, transaction: OpenTransaction) -> None:
        """Put everything back that it holds, and give up what was sent ahead."""
        context, works = self.context, self.works
        given_up_ahead(context, transaction)
        for number, keys in transaction.large.items():
            queue = context.state.queues.get(number)
            for key in keys:
                assembly = queue.parts.get(key) if queue is not None else None
                if assembly is not None:
                    assembly.held = 0
        for number, lookup_ids in transaction.receives.items():
            queue = context.state.queues.get(number)
            if queue is not None:
                _put_back(works, queue, lookup_ids, transaction.singles.get(number, []))
                if not transaction.claim:
                    # No program has seen a message that was only claimed, so none has failed at it.
                    context.record(PutBack(queue.number, pack_lookups(lookup_ids)))
        for (source, _), lookup_ids in transaction.moves.items():
            queue = context.state.queues.get(source)
            if queue is not None:
                _put_back(works, queue, lookup_ids, lookup_ids)
        # Nobody else may have a use for those that it would have put something into.
        targets = (target for _, target in transaction.moves)
        needed = (*transaction.sends, *transaction.large_to, *targets)
        context.follow_up.perhaps_unused.update(dict.fromkeys(needed))
        for held in (
            transaction.large,
            transaction.receives,
            transaction.singles,
            transaction.moves,
        ):
            held.clear()
        transaction.rejected.clear()

    def commit_open(self, transaction: OpenTransaction) -> None:
        """Make everything happen that an open or prepared transaction has gathered."""
        context = self.context
        committed_ahead(context, transaction)
        self.forget(transaction)
        number = transaction.number
        if transaction.claim and _is_all_express(context, transaction):
            # Messages that a crash takes anyway need no fact.
            self.express_outcomes.add(number)
            number = 0
        commit(context, number, transaction.sends, transaction)

    def forget(self, transaction: OpenTransaction) -> None:
        """Let a transaction be none any more; what becomes of its work is for the caller."""
        context = self.context
        del self.open[transaction.number]
        self.used.pop(transaction.number, None)
        forget_sends(context, transaction)
        self.shares.release(transaction)
        if transaction.session is not None:
            del transaction.session.transactions[transaction.number]


def _awaits_something(context: Context, transaction: OpenTransaction) -> bool:
    session = transaction.session
    for number in session.waiting_at if session is not None else ():
        queue = context.state.queues.get(number)
        if queue is not None and any(
            waiter.session is session and waiter.head.transaction == transaction.number
            for waiter in queue.waiters
        ):
            return True
    return False


def _end_waiting(context: Context, session: Session, number: int) -> None:
    """Let no receive of an aborted transaction wait on: it would take what nobody wants.

    It looks only where a receive of the session waited since the last abort found none there.
    """
    for at in list(session.waiting_at) if number else ():
        queue = context.state.queues.get(at)
        own = [each for each in queue.waiters if each.session is session] if queue else []
        ended = [each for each in own if each.head.transaction == number]
        if len(ended) == len(own):
            del session.waiting_at[at]
        for waiter in ended:
            assert queue is not None
            queue.waiters.remove(waiter)
            error = TransactionAborted(
                f"the transaction was aborted while a receive in it waited at {queue.name!r}",
                transaction_id=context.state.transaction_id(number),
            )
            context.refuse(session, waiter.request_id, error)


def _give_up_sends(context: Context, transaction: OpenTransaction) -> None:
    prepared = transaction.number in context.state.prepared
    if prepared:
        # Its places are in a fact, so another fact gives them up.
        context.record(PreparedAborted(transaction.number))
    upload = context.state.uploads.get(transaction.number)
    if upload is not None:
        # So are those that were marked.
        context.record(UploadDropped(transaction.number))
    for number, staged in transaction.sends.items():
        queue = context.state.queues.get(number)
        marked = transaction.marked if upload is not None and number == upload.queue else 0
        for at, each in enumerate(staged):
            if not prepared and at >= marked:
                context.store.discard(each.extent)
            context.state.ledger.give_back(number, queue, each.extent.length)


def _is_all_express(context: Context, transaction: OpenTransaction) -> bool:
    for number, lookup_ids in transaction.receives.items():
        queue = context.state.queues.numbered(number)
        if not queue.index.express_count:
            return False
        if not all(map(is_express_entry, entries_at(queue, lookup_ids))):
            return False
    return True


def commit(
    context: Context,
    number: int,
    sends: dict[int, list[Staged]],
    transaction: OpenTransaction | None = None,
    *,
    marks: int = 0,
) -> None:
    """Make a transaction happen, whose queues are all there; number 0 for a send outside any."""
    fact = CommitFact(context, number)
    for queue_number, staged in sends.items():
        queue = context.state.queues.get(queue_number)
        if queue is not None:
            fact.join(queue, staged, marks)
    if transaction is not None:
        give_up_reservations(context, transaction)
        _gather_receives(context, fact, transaction)
        _gather_moves(context, fact, transaction)
    fact.record()


def take(
    works: Works, queue: StoredQueue, lookup_ids: list[int], why: int = MessageClass.ACK_RECEIVE
) -> None:
    """Remove entries at once, in facts of their own. Their parts must be noted before.

    Very many are removed with the next ticks (`purging.py`).
    """
    works.carry_on(leave_all(works.context, queue, lookup_ids, why))


def _gather_receives(context: Context, fact: CommitFact, transaction: OpenTransaction) -> None:
    for number, lookup_ids in transaction.receives.items():
        queue = context.state.queues.numbered(number)
        rejected, received = [], lookup_ids
        if transaction.rejected:
            rejected = [each for each in lookup_ids if (number, each) in transaction.rejected]
            received = [each for each in lookup_ids if (number, each) not in transaction.rejected]
        for key in transaction.large.get(number, ()):
            queue.parts.dropped(key)
        forget_parts(context, queue, transaction.singles.get(number, []), held=1)
        fact.leave(queue, received)
        if rejected:
            fact.leave(queue, rejected, MessageClass.NACK_RECEIVE_REJECTED)


def _gather_moves(context: Context, fact: CommitFact, transaction: OpenTransaction) -> None:
    for (source, target), lookup_ids in transaction.moves.items():
        queue = context.state.queues.numbered(source)
        forget_parts(context, queue, lookup_ids, held=1)
        fact.move(queue, lookup_ids, context.state.queues.numbered(target))


def _put_back(works: Works, queue: StoredQueue, lookup_ids: list[int], singles: list[int]) -> None:
    context = works.context
    if queue.index.part_count:
        hold_parts(context.store, queue, entries_at(queue, singles), -1)
    purged, kept = [], lookup_ids
    if queue.purge_pending:
        purged = [each for each in lookup_ids if each in queue.purge_pending]
        kept = [each for each in lookup_ids if each not in queue.purge_pending]
    for expires_us, lookup_id in expiries_in(queue.index.put_back(kept)):
        context.state.expiries.add(expires_us, queue.number, lookup_id)
    if purged:
        _end_purge(works, queue, purged)
    context.follow_up.touch(queue)


def _end_purge(works: Works, queue: StoredQueue, purged: list[int]) -> None:
    """Remove messages that were purged while held; they stay held for the ticks that this takes."""
    context = works.context
    forget_parts(context, queue, purged)
    works.carry_on(leave_all(context, queue, purged, MessageClass.NACK_Q_PURGED, held=True))


def end_purges(works: Works) -> None:
    """After a start: what was purged while a transaction held it that has ended by the crash."""
    for queue in works.context.state.queues:
        # Messages that a prepared transaction holds are not free to leave.
        purged = [each for each in sorted(queue.purge_pending) if queue.index.find(each)]
        for packed in entries_at(queue, purged):
            queue.index.hold(packed, 0)
        if purged:
            _end_purge(works, queue, purged)


def reason_to_abort(
    context: Context, transaction: OpenTransaction | None, head: Commit | Prepare | StageForBatch
) -> DrayError | None:
    """Why a transaction cannot commit, if it cannot."""
    if transaction is None or transaction.send_frames != head.sends:
        return (transaction and transaction.doomed) or _incomplete(context, head.transaction)
    if transaction.doomed is not None:
        return transaction.doomed
    used = {number for route in transaction.moves for number in route}
    for number in (*transaction.sends, *transaction.receives, *used):
        if context.state.queues.get(number) is None:
            name = context.state.queues.deleted_name(number)
            queue = f"the queue {name!r}" if name else "a queue"
            return TransactionAborted(
                f"{queue} that the transaction sent to or received from has been deleted; nothing"
                " of it is kept",
                transaction_id=context.state.transaction_id(head.transaction),
            )
    return mixed_at_commit(context, transaction)


def _incomplete(context: Context, number: int) -> TransactionAborted:
    return TransactionAborted(
        "some messages of the transaction did not arrive; nothing of it was kept, do it again",
        transaction_id=context.state.transaction_id(number),
    )
