"""One table: the right that each frame needs. A frame without a row here does not start.

`check_frame` runs before any handler. A row is a function that raises `AccessDenied` or
`QueueNotFound`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

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
from dray.manager.rights.rights import Rights
from dray.manager.session import Session
from dray.model.access import Verb
from dray.model.callers import NOBODY
from dray.model.ids import split_id
from dray.model.limits import QUEUES_MAX
from dray.model.names import STATUS_QUEUE, parse_queue_address
from dray.wire import (
    backup_frames,
    batch_frames,
    file_frames,
    frames,
    large_frames,
    message_frames,
    peer_frames,
    queue_frames,
    range_frames,
    token_frames,
    transfer_frames,
)
from dray.wire.head import Head

Row = Callable[[Rights, Session, Any], None]
_OfQuery = (
    batch_frames.StageForBatch
    | batch_frames.CommitBatch
    | batch_frames.DescribeBatch
    | batch_frames.DropStaged
)


class _AtQueue(Protocol):
    @property
    def queue(self) -> int: ...


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _InTransaction(Protocol):
    @property
    def transaction(self) -> int: ...


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


class _ToTarget(Protocol):
    @property
    def target(self) -> int: ...


def check_frame(rights: Rights, session: Session, head: Head, body: memoryview) -> None:
    """Refuse a frame that the caller of a session may not have decided."""
    if session.caller.owner:
        return
    row = (RIGHTS_OF_CLIENTS if session.role == "client" else RIGHTS_OF_MANAGERS).get(type(head))
    if row is None:
        return
    try:
        row(rights, session, head)
        if isinstance(head, message_frames.Send):
            check_records(rights, session, head.sizes, body)
        elif isinstance(head, file_frames.SendFile):
            check_records(rights, session, (len(body),), body)
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


def _anyone(rights: Rights, session: Session, head: Head) -> None:
    """Every caller that was let in; the answer shows only what it may see, or what is its own."""


def _owner(rights: Rights, session: Session, head: Head) -> None:
    """No rule gives this right: the maker of a token can be any caller."""
    del rights, head
    raise AccessDenied(
        f"{session.caller.name} may not use tokens: only the account that runs the queue manager"
        " can, on its Unix socket or with --data"
    )


def _at(verb: Verb) -> Row:
    """A right at the queue of a number."""

    def row(rights: Rights, session: Session, head: _AtQueue) -> None:
        require_at(rights, session, verb, head.queue)

    return row


def _named(verb: Verb) -> Row:
    """A right at the queue of a name."""

    def row(rights: Rights, session: Session, head: _Named) -> None:
        require_named(rights, session, verb, head.name)

    return row


def _whole(verb: Verb) -> Row:
    """A right at the whole queue manager."""

    def row(rights: Rights, session: Session, head: Head) -> None:
        del head
        require_whole(rights, session, verb)

    return row


def _each(*rows: Row) -> Row:
    """All of these rights."""

    def row(rights: Rights, session: Session, head: Head) -> None:
        for each in rows:
            each(rights, session, head)

    return row


def _create(rights: Rights, session: Session, head: queue_frames.CreateQueue) -> None:
    may, caller = rights.access.may, session.caller
    name = parse_queue_address(head.name).local_name
    known = rights.context.state.queues.find(name)
    if head.exist_ok and known is not None and may(caller, Verb.SEE, known.name):
        return
    if not may(caller, Verb.MANAGE, name):
        raise denied(caller, f"create the queue {name!r}")


def _open(rights: Rights, session: Session, head: queue_frames.OpenQueue) -> None:
    """Seeing a queue is enough to open it; a name of which a queue is made needs more."""
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


def _quota(rights: Rights, session: Session, head: queue_frames.SetQuota) -> None:
    if head.name:
        require_named(rights, session, Verb.MANAGE, head.name)
    else:
        require_whole(rights, session, Verb.MANAGE)


def _send(rights: Rights, session: Session, head: message_frames.Send) -> None:
    require_at(rights, session, Verb.SEND, head.queue)
    if head.transaction:
        own_number(rights, session, head.transaction)


def _own_transaction(rights: Rights, session: Session, head: _InTransaction) -> None:
    own_number(rights, session, head.transaction)


def _own_transaction_or_none(rights: Rights, session: Session, head: _InTransaction) -> None:
    if head.transaction:
        own_number(rights, session, head.transaction)


def _own_number(rights: Rights, session: Session, head: _Numbered) -> None:
    own_number(rights, session, head.number)


def _at_target(rights: Rights, session: Session, head: _ToTarget) -> None:
    require_at(rights, session, Verb.SEND, head.target)


def _receive(
    rights: Rights,
    session: Session,
    head: message_frames.Receive | large_frames.LargeReceive,
) -> None:
    looks = head.peek and not (isinstance(head, large_frames.LargeReceive) and head.reject)
    require_at(rights, session, Verb.PEEK if looks else Verb.RECEIVE, head.queue)
    if head.transaction and not head.peek:
        own_number(rights, session, head.transaction)
    if isinstance(head, large_frames.LargeReceive):
        require_status_queue(rights, session, head.status_queue)


def _move_large(rights: Rights, session: Session, head: large_frames.LargeMove) -> None:
    require_at(rights, session, Verb.RECEIVE, head.queue)
    if not head.unreadable:
        require_at(rights, session, Verb.SEND, head.target)
    require_status_queue(rights, session, head.status_queue)


def _outcome(rights: Rights, session: Session, head: message_frames.Outcome) -> None:
    """Asking ends a transaction that has not begun, so nobody asks about one of another caller."""
    own_outcome(rights, session, head.transaction_id)


def _sequence(
    rights: Rights,
    session: Session,
    head: large_frames.UploadResume | large_frames.UploadDrop,
) -> None:
    own_sequence(rights, session, head.sequence_id)


def _batch(
    rights: Rights,
    session: Session,
    head: batch_frames.CommitBatch | batch_frames.DropStaged,
) -> None:
    """Rows belong to the caller whose tasks staged them, and a query to one caller."""
    _query(rights, session, head)
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
    if isinstance(head, batch_frames.CommitBatch):
        own_number(rights, session, head.transaction)


def _query(rights: Rights, session: Session, head: _OfQuery) -> None:
    """A query belongs to the caller that committed its first batch."""
    owner = rights.context.state.batch_outcomes.owner(head.query)
    _require_own_query(rights, session, head.query, owner)


def _require_own_query(rights: Rights, session: Session, query: str, owner: str | None) -> None:
    if owner is not None and not owns(rights, session, owner):
        raise AccessDenied(
            f"{session.caller.name} may not use the query {query!r}, which belongs to another"
            " caller; choose another query_id, or let it `manage` the whole queue manager"
        )


def _box(rights: Rights, session: Session, head: transfer_frames.AttachBox) -> None:
    """A box is attached on the way to a queue that the caller sees, or may forward to.

    A session detaches only its own boxes.
    """
    address = seen_from_here(rights.context, head.queue)
    if head.attached and address.remote:
        require_host(rights, session, address)
    elif head.attached and session.role == "client" and address.local_name:
        require_seen(rights, session, address.local_name)


def _post(rights: Rights, session: Session, head: transfer_frames.Post) -> None:
    """The name of a box is a secret of the two programs; reaching its queue needs `forward`."""
    if head.queue and head.queue not in session.posts_to:
        address = seen_from_here(rights.context, head.queue)
        if address.remote:
            require_host(rights, session, address)
        if len(session.posts_to) >= QUEUES_MAX:
            session.posts_to.clear()
        session.posts_to.add(head.queue)


_TAKING: Final = _each(_at(Verb.RECEIVE), _own_transaction_or_none)
_SENDING_IN_TRANSACTION: Final = _each(_at(Verb.SEND), _own_transaction)

RIGHTS_OF_CLIENTS: Final[dict[type[Head], Row]] = {
    frames.Lease: _anyone,
    queue_frames.CreateQueue: _create,
    queue_frames.OpenQueue: _open,
    queue_frames.DescribeQueue: _named(Verb.SEE),
    queue_frames.ListQueues: _anyone,
    queue_frames.Describe: _anyone,
    queue_frames.DeleteQueue: _named(Verb.MANAGE),
    queue_frames.PurgeQueue: _at(Verb.MANAGE),
    queue_frames.PauseQueue: _named(Verb.MANAGE),
    queue_frames.SetQuota: _quota,
    queue_frames.ListPeers: _whole(Verb.MANAGE),
    token_frames.DescribeAccess: _whole(Verb.MANAGE),
    queue_frames.AcceptPeer: _whole(Verb.MANAGE),
    queue_frames.ForgetPeer: _whole(Verb.MANAGE),
    token_frames.CreateToken: _owner,
    token_frames.ListTokens: _owner,
    token_frames.RevokeToken: _owner,
    queue_frames.ResolveOutgoing: _named(Verb.MANAGE),
    backup_frames.Backup: _whole(Verb.KEEP),
    backup_frames.BackupRead: _whole(Verb.KEEP),
    message_frames.Send: _send,
    file_frames.SendFile: _SENDING_IN_TRANSACTION,
    message_frames.Reserve: _SENDING_IN_TRANSACTION,
    message_frames.Commit: _own_transaction,
    message_frames.Abort: _own_transaction,
    message_frames.Prepare: _own_transaction,
    message_frames.SettlePrepared: _anyone,
    batch_frames.StageForBatch: _each(_own_transaction, _query),
    batch_frames.CommitBatch: _batch,
    batch_frames.DropStaged: _batch,
    batch_frames.DescribeBatch: _query,
    message_frames.ListPrepared: _anyone,
    message_frames.Outcome: _outcome,
    message_frames.Receive: _receive,
    message_frames.ReceiveTransaction: _TAKING,
    message_frames.Settle: _TAKING,
    message_frames.Move: _each(_at(Verb.RECEIVE), _at_target, _own_transaction_or_none),
    message_frames.MoveMessages: _each(_at(Verb.RECEIVE), _at_target, _own_number),
    message_frames.Reject: _TAKING,
    large_frames.ReadPart: _at(Verb.PEEK),
    file_frames.CopyPart: _at(Verb.PEEK),
    range_frames.MeasureRange: _at(Verb.PEEK),
    range_frames.ReadRange: _at(Verb.PEEK),
    large_frames.LargeList: _at(Verb.PEEK),
    large_frames.LargeReceive: _receive,
    large_frames.PartDamaged: _at(Verb.RECEIVE),
    large_frames.LargeMove: _move_large,
    large_frames.UploadBegin: _each(_at(Verb.SEND), _own_number),
    large_frames.UploadMark: _own_number,
    large_frames.UploadResume: _sequence,
    large_frames.UploadDrop: _sequence,
    large_frames.UploadRead: _own_number,
    large_frames.ListUploads: _at(Verb.SEND),
    transfer_frames.AttachBox: _box,
    transfer_frames.Post: _post,
    transfer_frames.Credit: _anyone,
}
"""By request of a client. Handlers of `_anyone` limit the answer to what is the caller's own."""

RIGHTS_OF_MANAGERS: Final[dict[type[Head], Row]] = {
    peer_frames.OpenStream: _anyone,
    peer_frames.Data: _anyone,
    peer_frames.Ahead: _anyone,
    peer_frames.AheadDropped: _anyone,
    peer_frames.Passed: _anyone,
    peer_frames.EndStream: _anyone,
    peer_frames.ConfirmationsAcked: _anyone,
    peer_frames.RepairAnswer: _anyone,
    transfer_frames.AttachBox: _box,
    transfer_frames.Post: _post,
    transfer_frames.Credit: _anyone,
}
"""By frame of a manager. Its handler refuses a stream (`streams.py`), for the source must be told;
the other frames count only for streams that are open."""
