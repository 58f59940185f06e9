"""One table: the right that each frame needs. A frame without a row here does not start.

`check_frame` runs before any handler. A row is a function that raises `AccessDenied` or
`QueueNotFound`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from dray.errors import AccessDenied, QueueNotFound, TransactionSequence
from dray.manager.change import seen_from_here
from dray.manager.facts import BatchStaged
from dray.manager.rights import acts
from dray.manager.rights.numbers import check_records, own_number, own_outcome, own_sequence
from dray.manager.rights.queues import (
    denied,
    is_missing,
    not_found,
    owns,
    require_at,
    require_destination,
    require_host,
    require_named,
    require_seen,
    require_status_queue,
    require_whole,
)
from dray.model.access import Verb
from dray.model.callers import NOBODY
from dray.model.ids import split_id
from dray.model.limits import QUEUES_MAX
from dray.model.names import STATUS_QUEUE, parse_queue_address
from dray.wire import backup_frames, file_frames, frames

if TYPE_CHECKING:
    from dray.manager.rights.rights import Rights
    from dray.manager.session import Session


Row = Callable[["Rights", "Session", Any, memoryview], None]
_OfQuery = frames.StageForBatch | frames.CommitBatch | frames.DescribeBatch | frames.DropStaged


class _AtQueue(Protocol):
    @property
    def queue(self) -> int: ...


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _InTransaction(Protocol):
    @property
    def transaction(self) -> int: ...


class _Taking(_AtQueue, _InTransaction, Protocol):
    pass


def check_frame(rights: Rights, session: Session, head: frames.Head, body: memoryview) -> None:
    """Refuse a frame that the caller of a session may not have decided."""
    if session.caller.owner:
        return
    row = (RIGHTS_OF_CLIENTS if session.role == "client" else RIGHTS_OF_MANAGERS).get(type(head))
    if row is None:
        return
    try:
        row(rights, session, head, body)
    except (QueueNotFound, TransactionSequence):
        # Refusals in the words of things that are not there; `AccessDenied` is noted by the turn.
        if not is_missing(rights, head):
            acts.note_refusal(rights, session, head)
        raise


def check_hello(rights: Rights, session: Session, role: str) -> None:
    """Refuse a caller that nothing is allowed to."""
    caller, access = session.caller, rights.access
    if caller.name == NOBODY:
        raise AccessDenied(
            "this caller has not named itself, so it may do nothing here; show a token"
            " (DRAY_TOKEN, token= in Python, [[peers]] of a queue manager) or a certificate"
        )
    verbs = (Verb.DELIVER, Verb.FORWARD) if role == "manager" else tuple(Verb)
    if not access.may_somewhere(caller, *verbs):
        raise denied(caller, "be a queue manager here" if role == "manager" else "do anything here")


def _anyone(rights: Rights, session: Session, head: frames.Head, body: memoryview) -> None:
    """Every caller that was let in; the answer shows only what it may see, or what is its own."""


def _owner(rights: Rights, session: Session, head: frames.Head, body: memoryview) -> None:
    """No rule gives this right: the maker of a token can be any caller."""
    del rights, head, body
    raise AccessDenied(
        f"{session.caller.name} may not use tokens: only the account that runs the queue manager"
        " can, on its Unix socket or with --data"
    )


def _at(verb: Verb) -> Row:
    """A right at the queue of a number."""

    def row(rights: Rights, session: Session, head: _AtQueue, body: memoryview) -> None:
        del body
        require_at(rights, session, verb, head.queue)

    return row


def _named(verb: Verb) -> Row:
    """A right at the queue of a name."""

    def row(rights: Rights, session: Session, head: _Named, body: memoryview) -> None:
        del body
        require_named(rights, session, verb, head.name)

    return row


def _whole(verb: Verb) -> Row:
    """A right at the whole queue manager."""

    def row(rights: Rights, session: Session, head: frames.Head, body: memoryview) -> None:
        del head, body
        require_whole(rights, session, verb)

    return row


def _create(rights: Rights, session: Session, head: frames.CreateQueue, body: memoryview) -> None:
    del body
    may, caller = rights.access.may, session.caller
    name = parse_queue_address(head.name).local_name
    known = rights.context.state.queues.find(name)
    if head.exist_ok and known is not None and may(caller, Verb.SEE, known.name):
        return
    if not may(caller, Verb.MANAGE, name):
        raise denied(caller, f"create the queue {name!r}")


def _open(rights: Rights, session: Session, head: frames.OpenQueue, body: memoryview) -> None:
    """Seeing a queue is enough to open it; a name of which a queue is made needs more."""
    del body
    may, caller = rights.access.may, session.caller
    address = seen_from_here(rights.context, head.name)
    queue = rights.context.state.queues.find(str(address))
    if head.for_status and str(address) == STATUS_QUEUE:
        if not rights.access.may_somewhere(caller, Verb.RECEIVE):
            raise denied(caller, "receive anything, and so use the status queue")
    elif queue is not None and not address.remote:
        require_named(rights, session, Verb.SEE, head.name)
    elif address.remote:
        if queue is None or not may(caller, Verb.SEE, queue.name):
            require_host(rights, session, address)
    elif not any(
        may(caller, verb, address.local_name) for verb in (Verb.SEND, Verb.RECEIVE, Verb.KEEP)
    ):
        raise not_found(address.local_name)
    if head.for_status and str(address) != STATUS_QUEUE:
        require_destination(rights, session, head.name)


def _quota(rights: Rights, session: Session, head: frames.SetQuota, body: memoryview) -> None:
    del body
    if head.name:
        require_named(rights, session, Verb.MANAGE, head.name)
    else:
        require_whole(rights, session, Verb.MANAGE)


def _send(rights: Rights, session: Session, head: frames.Send, body: memoryview) -> None:
    require_at(rights, session, Verb.SEND, head.queue)
    if head.transaction:
        own_number(rights, session, head.transaction)
    check_records(rights, session, head.sizes, body)


def _send_file(
    rights: Rights, session: Session, head: file_frames.SendFile, body: memoryview
) -> None:
    require_at(rights, session, Verb.SEND, head.queue)
    own_number(rights, session, head.transaction)
    check_records(rights, session, (len(body),), body)


def _own_transaction(
    rights: Rights, session: Session, head: _InTransaction, body: memoryview
) -> None:
    del body
    own_number(rights, session, head.transaction)


def _reserve(rights: Rights, session: Session, head: frames.Reserve, body: memoryview) -> None:
    del body
    require_at(rights, session, Verb.SEND, head.queue)
    own_number(rights, session, head.transaction)


def _receive(
    rights: Rights,
    session: Session,
    head: frames.Receive | frames.LargeReceive,
    body: memoryview,
) -> None:
    del body
    looks = head.peek and not (isinstance(head, frames.LargeReceive) and head.reject)
    require_at(rights, session, Verb.PEEK if looks else Verb.RECEIVE, head.queue)
    if head.transaction and not head.peek:
        own_number(rights, session, head.transaction)
    if isinstance(head, frames.LargeReceive):
        require_status_queue(rights, session, head.status_queue)


def _move_large(rights: Rights, session: Session, head: frames.LargeMove, body: memoryview) -> None:
    del body
    require_at(rights, session, Verb.RECEIVE, head.queue)
    if not head.unreadable:
        require_at(rights, session, Verb.SEND, head.target)
    require_status_queue(rights, session, head.status_queue)


def _move(rights: Rights, session: Session, head: frames.Move, body: memoryview) -> None:
    del body
    require_at(rights, session, Verb.RECEIVE, head.queue)
    require_at(rights, session, Verb.SEND, head.target)
    if head.transaction:
        own_number(rights, session, head.transaction)


def _move_messages(
    rights: Rights, session: Session, head: frames.MoveMessages, body: memoryview
) -> None:
    del body
    require_at(rights, session, Verb.RECEIVE, head.queue)
    require_at(rights, session, Verb.SEND, head.target)
    own_number(rights, session, head.number)


def _taking(rights: Rights, session: Session, head: _Taking, body: memoryview) -> None:
    del body
    require_at(rights, session, Verb.RECEIVE, head.queue)
    if head.transaction:
        own_number(rights, session, head.transaction)


def _upload(rights: Rights, session: Session, head: frames.UploadBegin, body: memoryview) -> None:
    del body
    require_at(rights, session, Verb.SEND, head.queue)
    own_number(rights, session, head.number)


def _mark(
    rights: Rights,
    session: Session,
    head: frames.UploadMark | frames.UploadRead,
    body: memoryview,
) -> None:
    del body
    own_number(rights, session, head.number)


def _outcome(rights: Rights, session: Session, head: frames.Outcome, body: memoryview) -> None:
    """Asking ends a transaction that has not begun, so nobody asks about one of another caller."""
    del body
    own_outcome(rights, session, head.transaction_id)


def _sequence(
    rights: Rights,
    session: Session,
    head: frames.UploadResume | frames.UploadDrop,
    body: memoryview,
) -> None:
    del body
    own_sequence(rights, session, head.sequence_id)


def _batch(
    rights: Rights,
    session: Session,
    head: frames.CommitBatch | frames.DropStaged,
    body: memoryview,
) -> None:
    """Rows belong to the caller whose tasks staged them, and a query to one caller."""
    _query(rights, session, head, body)
    prepared = rights.context.state.prepared
    if rights.context.state.batch_outcomes.owner(head.query) is None:
        # Until its first commit a query belongs to the caller that staged rows for it first.
        staged = (
            each.caller
            for each in prepared.values()
            if isinstance(each, BatchStaged) and each.query == head.query
        )
        _require_own_query(rights, session, head.query, next(staged, None))
    for name in head.staged:
        manager, number = split_id(name)
        fact = prepared.get(number) if manager == rights.context.state.manager_id else None
        if isinstance(fact, BatchStaged):
            _require_own_query(rights, session, head.query, fact.caller)
    if isinstance(head, frames.CommitBatch):
        own_number(rights, session, head.transaction)


def _stage(rights: Rights, session: Session, head: frames.StageForBatch, body: memoryview) -> None:
    own_number(rights, session, head.transaction)
    _query(rights, session, head, body)


def _query(rights: Rights, session: Session, head: _OfQuery, body: memoryview) -> None:
    """A query belongs to the caller that committed its first batch."""
    del body
    owner = rights.context.state.batch_outcomes.owner(head.query)
    _require_own_query(rights, session, head.query, owner)


def _require_own_query(rights: Rights, session: Session, query: str, owner: str | None) -> None:
    if owner is not None and not owns(rights, session, owner):
        raise AccessDenied(
            f"{session.caller.name} may not use the query {query!r}, which belongs to another"
            " caller; choose another query_id, or let it `manage` the whole queue manager"
        )


def _box(rights: Rights, session: Session, head: frames.AttachBox, body: memoryview) -> None:
    """A box is attached on the way to a queue that the caller sees, or may forward to.

    A session detaches only its own boxes.
    """
    del body
    address = seen_from_here(rights.context, head.queue)
    if head.attached and address.remote:
        require_host(rights, session, address)
    elif head.attached and session.role == "client" and address.local_name:
        require_seen(rights, session, address.local_name)


def _post(rights: Rights, session: Session, head: frames.Post, body: memoryview) -> None:
    """The name of a box is a secret of the two programs; reaching its queue needs `forward`."""
    del body
    if head.queue and head.queue not in session.posts_to:
        address = seen_from_here(rights.context, head.queue)
        if address.remote:
            require_host(rights, session, address)
        if len(session.posts_to) >= QUEUES_MAX:
            session.posts_to.clear()
        session.posts_to.add(head.queue)


RIGHTS_OF_CLIENTS: Final[dict[type[frames.Head], Row]] = {
    frames.Lease: _anyone,
    frames.CreateQueue: _create,
    frames.OpenQueue: _open,
    frames.DescribeQueue: _named(Verb.SEE),
    frames.ListQueues: _anyone,
    frames.Describe: _anyone,
    frames.DeleteQueue: _named(Verb.MANAGE),
    frames.PurgeQueue: _at(Verb.MANAGE),
    frames.PauseQueue: _named(Verb.MANAGE),
    frames.SetQuota: _quota,
    frames.ListPeers: _whole(Verb.MANAGE),
    frames.DescribeAccess: _whole(Verb.MANAGE),
    frames.AcceptPeer: _whole(Verb.MANAGE),
    frames.ForgetPeer: _whole(Verb.MANAGE),
    frames.CreateToken: _owner,
    frames.ListTokens: _owner,
    frames.RevokeToken: _owner,
    frames.ResolveOutgoing: _named(Verb.MANAGE),
    backup_frames.Backup: _whole(Verb.KEEP),
    backup_frames.BackupRead: _whole(Verb.KEEP),
    frames.Send: _send,
    file_frames.SendFile: _send_file,
    frames.Reserve: _reserve,
    frames.Commit: _own_transaction,
    frames.Abort: _own_transaction,
    frames.Prepare: _own_transaction,
    frames.SettlePrepared: _anyone,
    frames.StageForBatch: _stage,
    frames.CommitBatch: _batch,
    frames.DropStaged: _batch,
    frames.DescribeBatch: _query,
    frames.ListPrepared: _anyone,
    frames.Outcome: _outcome,
    frames.Receive: _receive,
    frames.ReceiveTransaction: _taking,
    frames.Settle: _taking,
    frames.Move: _move,
    frames.MoveMessages: _move_messages,
    frames.Reject: _taking,
    frames.ReadPart: _at(Verb.PEEK),
    file_frames.CopyPart: _at(Verb.PEEK),
    frames.MeasureRange: _at(Verb.PEEK),
    frames.ReadRange: _at(Verb.PEEK),
    frames.LargeList: _at(Verb.PEEK),
    frames.LargeReceive: _receive,
    frames.PartDamaged: _at(Verb.RECEIVE),
    frames.LargeMove: _move_large,
    frames.UploadBegin: _upload,
    frames.UploadMark: _mark,
    frames.UploadResume: _sequence,
    frames.UploadDrop: _sequence,
    frames.UploadRead: _mark,
    frames.ListUploads: _at(Verb.SEND),
    frames.AttachBox: _box,
    frames.Post: _post,
    frames.Credit: _anyone,
}
"""By request of a client. Handlers of `_anyone` limit the answer to what is the caller's own."""

RIGHTS_OF_MANAGERS: Final[dict[type[frames.Head], Row]] = {
    frames.OpenStream: _anyone,
    frames.Data: _anyone,
    frames.Ahead: _anyone,
    frames.AheadDropped: _anyone,
    frames.Passed: _anyone,
    frames.EndStream: _anyone,
    frames.ConfirmationsAcked: _anyone,
    frames.RepairAnswer: _anyone,
    frames.AttachBox: _box,
    frames.Post: _post,
    frames.Credit: _anyone,
}
"""By frame of a manager. Its handler refuses a stream (`arrivals.py`), for the source must be told;
the other frames count only for streams that are open."""
