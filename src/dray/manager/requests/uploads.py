"""Uploads that can be resumed: a large message is sent piece by piece, each durable by itself.

    state     event                         next       what happens
    (none)    UploadBegin                   open       room reserved, durably; a transaction begins
    open      Send                          open       placed, as in any transaction
    open      UploadMark                    open       what is placed so far becomes durable
    open      session lost, crash           left       what came since the last mark is given up
    open      UploadResume, elsewhere       open       the newest connection has it; the same
    left      UploadResume                  open       says how far it had come
    open      commit                        (none)     one fact: the large message is in its queue
    any       UploadDrop, abort, too old    (none)     one fact: its places are given up

The number of an upload is that of the large message's header and that of its transaction, so who
asks again after a lost answer is told what became of it by the same number: committed once, or not.
"""

from __future__ import annotations

from dray.errors import MessageNotFound, Misuse, ProtocolError, TransactionSequence
from dray.manager.context import MICROSECONDS, Context
from dray.manager.disk import Promise, records_of_answer
from dray.manager.entries import Staged, packed_tails, split_tails
from dray.manager.facts import UploadBegun, UploadMarked
from dray.manager.notices import NoticeKind
from dray.manager.queue import cost_of_staged
from dray.manager.rights import owns
from dray.manager.session import Session
from dray.manager.state import Upload
from dray.manager.transactions import (
    NOTHING_RESERVED,
    OpenTransaction,
    Transactions,
    check_room,
    note_large_send,
    outcome_of,
    promised,
    staged_from,
)
from dray.model.arguments import no_sense
from dray.model.ids import split_id
from dray.model.limits import UPLOAD_AGE_S_MAX, UPLOAD_SOURCE_BYTES_MAX, UPLOADS_MAX, UPLOADS_SHARE
from dray.wire.frames import Done
from dray.wire.large_frames import (
    ListUploads,
    UploadBegin,
    UploadDrop,
    UploadIs,
    UploadList,
    UploadMark,
    UploadPart,
    UploadRead,
    UploadResume,
    UploadState,
)

OPEN = "open"


def handle_begin(
    transactions: Transactions, session: Session, request_id: int, head: UploadBegin
) -> None:
    """Begin an upload: a transaction that keeps what is marked in it."""
    context = transactions.context
    queue = context.state.queues.numbered(head.queue)
    room = promised(context, head.reserve, head.longest)
    if len(head.source) > UPLOAD_SOURCE_BYTES_MAX:
        raise no_sense("source", f"at most {UPLOAD_SOURCE_BYTES_MAX} bytes", bytes(head.source))
    if head.number in transactions.open or context.state.has_committed(head.number):
        raise TransactionSequence(
            "the upload was begun before; resume it",
            transaction_id=context.state.transaction_id(head.number),
        )
    if len(context.state.uploads) >= UPLOADS_MAX:
        raise Misuse(
            f"{UPLOADS_MAX} uploads are unfinished here; resume or drop some of them first"
        )
    _check_share(context, session)
    check_room(context, queue, room)
    transaction = transactions.find_or_begin(session, head.number)
    transactions.reservations.reserve(transaction, queue, room)
    transaction.upload = True
    note_large_send(queue, transaction)
    source = bytes(head.source)
    when_us, caller = context.now_us, session.caller.name
    context.record(UploadBegun(head.number, queue.number, source, head.reserve, when_us, caller))
    transactions.uploads.note(head.number, context.now + UPLOAD_AGE_S_MAX)
    context.answer(session, request_id, _state(context, context.state.uploads.get(head.number)))


def _check_share(context: Context, session: Session) -> None:
    caller, share = session.caller, UPLOADS_MAX // UPLOADS_SHARE
    if not caller.owner and context.state.uploads.count_of(caller.name) >= share:
        raise Misuse(
            f"{caller.name} has {share} unfinished uploads here; resume or drop some of them first"
        )


def handle_mark(
    transactions: Transactions, session: Session, request_id: int, head: UploadMark
) -> None:
    """Make what was placed so far durable. Like a send, answered only if it fails."""
    context = transactions.context
    transaction = transactions.find_or_begin(session, head.number)
    upload = context.state.uploads.get(head.number)
    if upload is None:
        raise no_sense("number", "that of an upload", head.number)
    if transaction.doomed is not None:
        return
    staged = transaction.sends.get(upload.queue, [])
    known = transaction.marked
    if len(staged) != head.parts or head.size < upload.size:
        transaction.doomed = ProtocolError("the mark of an upload does not fit what was sent")
        context.refuse(session, request_id, transaction.doomed)
        return
    tails = packed_tails(staged[known:], head.number, context.now_us)
    transaction.marked = head.parts
    context.record(UploadMarked(head.number, tails, head.size, bytes(head.digest), context.now_us))


def handle_resume(
    transactions: Transactions, session: Session, request_id: int, head: UploadResume
) -> None:
    """Take an upload over, or say what became of it."""
    context = transactions.context
    manager, number = split_id(head.sequence_id)
    upload = context.state.uploads.get(number)
    transaction = transactions.open.get(number)
    if upload is None or transaction is None or manager != context.state.manager_id:
        status = str(outcome_of(transactions, head.sequence_id))
        context.answer(session, request_id, UploadState(status))
        return
    if not owns(transactions.rights, session, upload.caller):
        raise _no_upload(head.sequence_id)
    leave(transactions, transaction)
    transactions.shares.hold(transaction, session.caller)
    transaction.session = session
    session.transactions[number] = None
    _reserve_again(transactions, transaction, upload)
    context.answer(session, request_id, _state(context, upload))


def handle_read(
    transactions: Transactions, session: Session, request_id: int, head: UploadRead
) -> None:
    """Give a marked record back to the caller that sends on."""
    context = transactions.context
    upload = context.state.uploads.get(head.number)
    transaction = transactions.open.get(head.number)
    if upload is None or transaction is None or transaction.session is not session:
        raise no_sense("number", "that of an upload on this connection", head.number)
    staged = transaction.sends.get(upload.queue, [])
    if not 0 <= head.part < min(transaction.marked, len(staged)):
        raise no_sense("part", "the place of a marked record", head.part)
    record = staged[head.part]
    body = (records_of_answer(context.store, record.extent),)
    context.answer(session, request_id, UploadPart(record.crc), body)


def handle_drop(
    transactions: Transactions, session: Session, request_id: int, head: UploadDrop
) -> None:
    """Give an unfinished upload up for good."""
    context = transactions.context
    manager, number = split_id(head.sequence_id)
    transaction = transactions.open.get(number)
    upload = context.state.uploads.get(number)
    if manager != context.state.manager_id or upload is None or transaction is None:
        raise _no_upload(head.sequence_id)
    if not owns(transactions.rights, session, upload.caller):
        raise _no_upload(head.sequence_id)
    transactions.abort(transaction)
    context.answer(session, request_id, Done())


def _no_upload(sequence_id: str) -> MessageNotFound:
    return MessageNotFound(
        f"there is no unfinished upload {sequence_id!r}; `dray upload list` shows those of a queue"
    )


def handle_list(
    transactions: Transactions, session: Session, request_id: int, head: ListUploads
) -> None:
    """List what is unfinished in a queue, or in all of them."""
    context = transactions.context
    found = [
        UploadIs(
            str(context.state.transaction_id(each.number)),
            each.size,
            each.begun_us,
            each.used_us,
            each.source,
            context.state.queues.numbered(each.queue).name,
        )
        for each in context.state.uploads
        if head.queue in (0, each.queue) and owns(transactions.rights, session, each.caller)
    ]
    context.answer(session, request_id, UploadList(found))


def leave(transactions: Transactions, transaction: OpenTransaction) -> None:
    """Its session has ended, or another takes it over: keep what was marked and nothing else."""
    context = transactions.context
    transactions.shares.release(transaction)
    if transaction.session is not None:
        transaction.session.transactions.pop(transaction.number, None)
        transaction.session = None
    transactions.give_back(transaction)
    upload = context.state.uploads.get(transaction.number)
    assert upload is not None, "only uploads are left open"
    for number, staged in transaction.sends.items():
        kept = transaction.marked if number == upload.queue else 0
        queue = context.state.queues.get(number)
        for each in staged[kept:]:
            context.store.discard(each.extent)
            if queue is not None:
                context.state.ledger.stage(queue, -each.extent.length)
        del staged[kept:]
    transaction.send_frames = 0
    transaction.doomed = None
    _count_marked(transaction, transaction.sends.get(upload.queue, []))


def _count_marked(transaction: OpenTransaction, staged: list[Staged]) -> None:
    """Let a transaction be of what was marked in it, and of nothing else."""
    transaction.operations = len(staged)
    transaction.fact_bytes = sum(map(cost_of_staged, staged))


def take_up(transactions: Transactions) -> None:
    """After a start: count again what uploads have placed and reserved."""
    context = transactions.context
    for upload in context.state.uploads:
        transaction = OpenTransaction(upload.number, None)
        transaction.upload = True
        transactions.open[upload.number] = transaction
        queue = context.state.queues.get(upload.queue)
        if queue is not None:
            note_large_send(queue, transaction)
            staged = [
                staged_from(context, queue, tail)
                for run in upload.tails
                for tail in split_tails(run)
            ]
            transaction.sends[upload.queue] = staged
            transaction.marked = len(staged)
            _count_marked(transaction, staged)
            context.state.ledger.stage(queue, sum(each.extent.length for each in staged))
        too_old_at = upload.used_us / MICROSECONDS + UPLOAD_AGE_S_MAX
        transactions.uploads.note(upload.number, too_old_at)


def drop_old(transactions: Transactions) -> None:
    """Give up uploads that nobody has gone on with for too long."""
    context = transactions.context
    for number in transactions.uploads.due(context.now):
        transactions.abort(transactions.open[number])
        name = context.state.transaction_id(number)
        sentence = (
            f"the unfinished upload {name} was dropped, because nobody resumed it for"
            f" {UPLOAD_AGE_S_MAX / 86400:.0f} days; send the file again if it is still wanted"
        )
        context.notices.add(NoticeKind.UPLOAD_DROPPED, "uploads", sentence)


def _reserve_again(
    transactions: Transactions, transaction: OpenTransaction, upload: Upload
) -> None:
    """Set aside what the marked parts do not take of the room that was asked for, if it is free."""
    queue = transactions.context.state.queues.get(upload.queue)
    if queue is None:
        return
    before = transaction.reserved.get(upload.queue, NOTHING_RESERVED)
    placed = transaction.sends.get(upload.queue, [])
    # After a start only what was placed tells how long its records are.
    longest = max([before.longest, *(each.extent.length for each in placed)])
    wanted = Promise(max(0, upload.reserved - upload.bytes_placed), longest)
    transactions.reservations.reserve_again(transaction, queue, wanted)


def _state(context: Context, upload: Upload | None) -> UploadState:
    assert upload is not None, "it was begun or found just now"
    name = str(context.state.transaction_id(upload.number))
    return UploadState(OPEN, name, upload.parts, upload.size, upload.digest, upload.source)
