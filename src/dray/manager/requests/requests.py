"""Every request of a client: the function that answers it, and what requests leave for later.

A request is answered at once, or it leaves something behind: a receive that
waits, an upload that is not whole, a backup of which pieces are still wanted. `Requests` keeps that
and looks at it again when the time comes and when a session closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from dray.manager.context import Context
from dray.manager.events import Peer
from dray.manager.incoming import ArrivingStreams
from dray.manager.peers import (
    Holes,
    Links,
    Strangers,
    handle_resolve_outgoing,
)
from dray.manager.relay import Relay
from dray.manager.requests import (
    admin,
    backup,
    large_messages,
    moving,
    ranges,
    receiving,
    sending,
    uploads,
)
from dray.manager.requests.waiting import Waiters
from dray.manager.rights import (
    Rights,
    handle_create_token,
    handle_describe_access,
    handle_list_tokens,
    handle_revoke_token,
)
from dray.manager.session import Session
from dray.manager.state import soonest
from dray.manager.transactions import (
    Transactions,
    drop_old_batches,
    handle_commit_batch,
    handle_describe_batch,
    handle_drop_staged,
    handle_list_prepared,
    handle_outcome,
    handle_prepare,
    handle_settle_prepared,
    handle_stage,
    take_up_batches,
)
from dray.manager.works import Steps, Works
from dray.model.limits import ABORTED_A_TURN
from dray.wire import (
    backup_frames,
    batch_frames,
    file_frames,
    frames,
    large_frames,
    message_frames,
    queue_frames,
    range_frames,
    token_frames,
    transfer_frames,
)
from dray.wire.frames import Done
from dray.wire.head import Head

Subject = TypeVar("Subject")
Handler = Callable[["Session", int, Any], None]
BodyHandler = Callable[..., None]
_Table = dict[type[Head], Callable[[Subject, "Session", int, Any], None]]
_BodyTable = dict[type[Head], Callable[..., None]]

_CONTEXT: _Table[Context] = {
    queue_frames.CreateQueue: admin.handle_create,
    queue_frames.OpenQueue: admin.handle_open,
    queue_frames.SetQuota: admin.handle_set_quota,
    token_frames.CreateToken: handle_create_token,
    token_frames.ListTokens: handle_list_tokens,
    large_frames.ReadPart: large_messages.handle_read_part,
    file_frames.CopyPart: large_messages.handle_copy_part,
    range_frames.MeasureRange: ranges.handle_measure,
    range_frames.ReadRange: ranges.handle_read,
    large_frames.LargeList: large_messages.handle_large_list,
    batch_frames.DescribeBatch: handle_describe_batch,
}
_RIGHTS: _Table[Rights] = {
    frames.Lease: admin.handle_lease,
    token_frames.RevokeToken: handle_revoke_token,
    token_frames.DescribeAccess: handle_describe_access,
}
_WORKS: _Table[Works] = {
    queue_frames.PurgeQueue: receiving.handle_purge,
    queue_frames.ResolveOutgoing: handle_resolve_outgoing,
}
_TRANSACTIONS: _Table[Transactions] = {
    queue_frames.DeleteQueue: admin.handle_delete,
    message_frames.Outcome: handle_outcome,
    message_frames.Reserve: sending.handle_reserve,
    message_frames.Prepare: handle_prepare,
    message_frames.ListPrepared: handle_list_prepared,
    message_frames.SettlePrepared: handle_settle_prepared,
    message_frames.Move: moving.handle_move,
    message_frames.MoveMessages: moving.handle_move_messages,
    message_frames.Reject: moving.handle_reject,
    message_frames.ReceiveTransaction: moving.handle_receive_transaction,
    message_frames.Settle: receiving.handle_settle,
    large_frames.PartDamaged: large_messages.handle_part_damaged,
    large_frames.LargeMove: moving.handle_large_move,
    large_frames.ListUploads: uploads.handle_list,
    large_frames.UploadResume: uploads.handle_resume,
    large_frames.UploadMark: uploads.handle_mark,
    large_frames.UploadDrop: uploads.handle_drop,
    large_frames.UploadRead: uploads.handle_read,
    large_frames.UploadBegin: uploads.handle_begin,
    batch_frames.StageForBatch: handle_stage,
    batch_frames.CommitBatch: handle_commit_batch,
    batch_frames.DropStaged: handle_drop_staged,
}
_LINKS: _Table[Links] = {
    queue_frames.DescribeQueue: admin.handle_describe_queue,
    queue_frames.ListQueues: admin.handle_list,
    queue_frames.PauseQueue: admin.handle_pause,
}
_LINKS_AND_STREAMS: _BodyTable = {queue_frames.Describe: admin.handle_describe}
_BODY_TRANSACTIONS: _BodyTable = {
    message_frames.Send: sending.handle_send,
    file_frames.SendFile: sending.handle_send_file,
}


class Requests:
    """The requests of all clients of one manager."""

    def __init__(
        self,
        transactions: Transactions,
        links: Links,
        strangers: Strangers,
        relay: Relay,
        *,
        holes: Holes,
        streams: ArrivingStreams,
    ) -> None:
        """Hand each function the object that it works with."""
        self._context = context = transactions.context
        self._rights = transactions.rights
        self._transactions = transactions
        self._links = links
        self._backups = backup.Backups(transactions.works)
        receives = receiving.Receives(transactions)
        large = large_messages.LargeReceives(transactions, holes)
        self.waiters = Waiters(receives, large)
        """Receives that wait for a message."""
        self.without_body = joined(
            _bound(_CONTEXT, context),
            _bound(_RIGHTS, self._rights),
            _bound(_WORKS, transactions.works),
            _bound(_TRANSACTIONS, transactions),
            _bound(_LINKS, links),
            _bound(_LINKS_AND_STREAMS, links, streams, started=context.now),
            {
                message_frames.Receive: receives.handle,
                large_frames.LargeReceive: large.handle,
                message_frames.Commit: transactions.handle_commit,
                message_frames.Abort: transactions.handle_abort,
                queue_frames.ListPeers: strangers.handle_list,
                queue_frames.AcceptPeer: partial(self._decide, strangers.accept),
                queue_frames.ForgetPeer: partial(self._decide, strangers.forget),
                backup_frames.Backup: self._backups.handle_begin,
                backup_frames.BackupRead: self._backups.handle_read,
                transfer_frames.AttachBox: relay.handle_attach,
                transfer_frames.Credit: relay.handle_credit,
            },
        )
        self.with_body = joined(
            _bound(_BODY_TRANSACTIONS, transactions), {transfer_frames.Post: relay.handle_post}
        )

    def take_up(self) -> None:
        """Go on, after a start, with the batches and uploads that the state knows."""
        take_up_batches(self._transactions)
        uploads.take_up(self._transactions)

    def hello(self, session: Session, request_id: int, head: frames.Hello) -> None:
        """Answer the first frame of a session, also that of another manager."""
        admin.handle_hello(self._rights, session, request_id, head)

    def deadline(self) -> float | None:
        """When to call `tick` if nothing happens before."""
        transactions = self._transactions
        return soonest(
            self.waiters.deadline(),
            transactions.uploads.soonest,
            transactions.staged.soonest,
        )

    def tick(self) -> None:
        """The time has come for something that a request has left."""
        uploads.drop_old(self._transactions)
        drop_old_batches(self._transactions)
        self.waiters.tick()

    def closed(self, session: Session) -> None:
        """Abort everything that a client which went away had begun, and wait for it no longer."""
        self._backups.end(session)
        self._transactions.works.begin(self._abort_all(session))
        self.waiters.forget(session)

    def _decide(
        self, decide: Callable[[Any], Peer | None], session: Session, request_id: int, head: Head
    ) -> None:
        """Have a person decide which queue manager is known at an address: the link begins anew."""
        peer = decide(head)
        if peer is not None:
            self._links.leave(peer)
        self._context.answer(session, request_id, Done())

    def _abort_all(self, session: Session) -> Steps:
        for count, number in enumerate(list(session.transactions), 1):
            # Meanwhile another session may have taken an upload over.
            transaction = self._transactions.opened_by(session, number)
            if transaction is not None and transaction.upload:
                uploads.leave(self._transactions, transaction)
            elif transaction is not None:
                self._transactions.abort(transaction)
            yield count % ABORTED_A_TURN == 0


def joined(*tables: Mapping[type[Head], BodyHandler]) -> Mapping[type[Head], BodyHandler]:
    """One table of several, in which no frame stands twice."""
    whole = {kind: handler for table in tables for kind, handler in table.items()}
    assert len(whole) == sum(map(len, tables)), "one function answers each frame"
    return whole


def _bound(
    table: Mapping[type[Head], Callable[..., None]], *subjects: object, **facts: object
) -> Mapping[type[Head], BodyHandler]:
    return {kind: partial(handler, *subjects, **facts) for kind, handler in table.items()}
