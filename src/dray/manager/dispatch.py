"""Which room decides about a frame, and what it is handed for that.

The state that belongs to one subject (transactions, uploads, links, ...) lives in an object of its
own. They are made here, once for each manager, and each handler gets the one that it works with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dray.manager import relay
from dray.manager.incoming import arrivals, end_of_stream
from dray.manager.peers import confirmations, links, peers, repairs
from dray.manager.relay import Relay
from dray.manager.requests import (
    admin,
    backup,
    large_messages,
    large_moving,
    moving,
    ranges,
    receiving,
    sending,
    uploads,
)
from dray.manager.rights import overview, table, tokens
from dray.manager.transactions import batches, prepared, transactions
from dray.wire import backup_frames, file_frames, frames

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.session import Session

Subject = TypeVar("Subject")
Handler = Callable[["Session", int, Any], None]
BodyHandler = Callable[..., None]
_Table = dict[type[frames.Head], Callable[[Subject, "Session", int, Any], None]]

_CONTEXT: _Table[Context] = {
    frames.Lease: admin.handle_lease,
    frames.CreateQueue: admin.handle_create,
    frames.OpenQueue: admin.handle_open,
    frames.SetQuota: admin.handle_set_quota,
    frames.ResolveOutgoing: peers.handle_resolve_outgoing,
    frames.CreateToken: tokens.handle_create,
    frames.ListTokens: tokens.handle_list,
    frames.RevokeToken: tokens.handle_revoke,
    frames.DescribeAccess: overview.handle_describe,
    frames.PurgeQueue: receiving.handle_purge,
    frames.ReadPart: large_messages.handle_read_part,
    file_frames.CopyPart: large_messages.handle_copy_part,
    frames.MeasureRange: ranges.handle_measure,
    frames.ReadRange: ranges.handle_read,
    frames.LargeList: large_messages.handle_large_list,
    frames.ListUploads: uploads.handle_list,
    frames.DescribeBatch: batches.handle_describe_batch,
}
_TRANSACTIONS: _Table[transactions.Transactions] = {
    frames.DeleteQueue: admin.handle_delete,
    frames.Outcome: admin.handle_outcome,
    frames.Reserve: sending.handle_reserve,
    frames.Commit: transactions.handle_commit,
    frames.Abort: transactions.handle_abort,
    frames.Prepare: prepared.handle_prepare,
    frames.ListPrepared: prepared.handle_list_prepared,
    frames.SettlePrepared: prepared.handle_settle_prepared,
    frames.Move: moving.handle_move,
    frames.MoveMessages: moving.handle_move_messages,
    frames.Reject: moving.handle_reject,
    frames.ReceiveTransaction: moving.handle_receive_transaction,
    frames.Receive: receiving.handle_receive,
    frames.Settle: receiving.handle_settle,
    frames.PartDamaged: large_messages.handle_part_damaged,
    frames.LargeMove: large_moving.handle_large_move,
    frames.UploadResume: uploads.handle_resume,
    frames.UploadMark: uploads.handle_mark,
    frames.UploadDrop: uploads.handle_drop,
    frames.UploadRead: uploads.handle_read,
}
_UPLOADS: _Table[uploads.UploadAges] = {frames.UploadBegin: uploads.handle_begin}
_BATCHES: _Table[batches.BatchAges] = {
    frames.StageForBatch: batches.handle_stage,
    frames.CommitBatch: batches.handle_commit_batch,
    frames.DropStaged: batches.handle_drop_staged,
}
_RECEIVES: _Table[large_messages.LargeReceives] = {
    frames.LargeReceive: large_messages.handle_large_receive,
}
_LINKS: _Table[links.Links] = {
    frames.DescribeQueue: admin.handle_describe_queue,
    frames.ListQueues: admin.handle_list,
    frames.Describe: admin.handle_describe,
    frames.PauseQueue: admin.handle_pause,
}
_STRANGERS: _Table[peers.Strangers] = {
    frames.ListPeers: peers.handle_list_peers,
    frames.AcceptPeer: peers.handle_accept_peer,
    frames.ForgetPeer: peers.handle_forget_peer,
}
_BACKUPS: _Table[backup.Backups] = {
    backup_frames.Backup: backup.handle_backup,
    backup_frames.BackupRead: backup.handle_backup_read,
}
_RELAY: _Table[Relay] = {
    frames.AttachBox: relay.handle_attach,
    frames.Credit: relay.handle_credit,
}
FOR_CLIENTS: frozenset[type[frames.Head]] = frozenset().union(
    _CONTEXT, _TRANSACTIONS, _UPLOADS, _BATCHES, _RECEIVES, _LINKS, _STRANGERS, _BACKUPS, _RELAY
)
"""Requests of clients without a body."""
WITH_BODY: frozenset[tuple[str, type[frames.Head]]] = frozenset(
    {
        ("client", frames.Send),
        ("client", frames.Post),
        ("client", file_frames.SendFile),
        ("manager", frames.Ahead),
        ("manager", frames.Data),
        ("manager", frames.Post),
    }
)
"""Requests of clients and managers with a body."""
FOR_MANAGERS: frozenset[type[frames.Head]] = frozenset(
    {
        frames.OpenStream,
        frames.Passed,
        frames.EndStream,
        frames.AheadDropped,
        frames.ConfirmationsAcked,
        frames.RepairAnswer,
        *_RELAY,
    }
)
"""Requests of other managers without a body."""
_FIRST_AND_CUT: frozenset[type[frames.Head]] = frozenset(
    {frames.Hello, frames.Cut, frames.Continuation}
)
FROM_CALLERS = frozenset(
    kind.code
    for kind in FOR_CLIENTS | FOR_MANAGERS | _FIRST_AND_CUT | {kind for _, kind in WITH_BODY}
)
"""Codes of all frames that a caller may say. The head of any other is not even read."""


class Subjects:
    """Objects of the manager, one for each subject, besides its state."""

    def __init__(self, context: Context) -> None:
        """Make them all; those that need others are handed these."""
        self.context = context
        self.transactions = transactions.Transactions(context)
        self.uploads = uploads.UploadAges(self.transactions)
        self.batches = batches.BatchAges(self.transactions)
        self.holes = repairs.Holes(context)
        self.receives = large_messages.LargeReceives(self.transactions, self.holes)
        self.sources = confirmations.Sources(context)
        self.kept_ahead = arrivals.KeptAhead(context)
        self.strangers = peers.Strangers(context)
        self.relay = Relay(context)
        self.links = links.Links(context, self.strangers, self.relay)
        self.backups = backup.Backups(context)
        self.for_clients = {
            **_bound(_CONTEXT, context),
            **_bound(_TRANSACTIONS, self.transactions),
            **_bound(_UPLOADS, self.uploads),
            **_bound(_BATCHES, self.batches),
            **_bound(_RECEIVES, self.receives),
            **_bound(_LINKS, self.links),
            **_bound(_STRANGERS, self.strangers),
            **_bound(_BACKUPS, self.backups),
            **_bound(_RELAY, self.relay),
        }
        self.for_managers: dict[type[frames.Head], Handler] = {
            frames.OpenStream: partial(arrivals.handle_open_stream, self.sources, self.strangers),
            frames.Passed: partial(arrivals.handle_passed, context),
            frames.EndStream: partial(
                end_of_stream.handle_end_stream,
                self.sources,
                self.holes,
                self.kept_ahead,
                self.strangers,
            ),
            frames.AheadDropped: partial(arrivals.handle_ahead_dropped, self.kept_ahead),
            frames.ConfirmationsAcked: partial(confirmations.handle_taken, self.sources),
            frames.RepairAnswer: partial(repairs.handle_answer, self.holes),
            **_bound(_RELAY, self.relay),
        }
        self.with_body: dict[tuple[str, type[frames.Head]], BodyHandler] = {
            ("client", frames.Send): partial(sending.handle_send, self.transactions),
            ("client", frames.Post): partial(relay.handle_post, self.relay),
            ("client", file_frames.SendFile): partial(sending.handle_send_file, self.transactions),
            ("manager", frames.Ahead): partial(arrivals.handle_ahead, self.kept_ahead),
            ("manager", frames.Data): partial(arrivals.handle_data, self.sources, self.kept_ahead),
            ("manager", frames.Post): partial(relay.handle_post, self.relay),
        }
        self._check_rights()

    def _check_rights(self) -> None:
        """A frame without a row in the table of rights does not start."""
        for role, handlers, rows in (
            ("client", self.for_clients, table.FOR_CLIENTS),
            ("manager", self.for_managers, table.FOR_MANAGERS),
        ):
            with_body = {kind for whose, kind in self.with_body if whose == role}
            lacking = (handlers.keys() | with_body) - rows.keys()
            assert not lacking, f"frames of a {role} without a row in rights/table.py: {lacking}"


def _bound(table: _Table[Subject], subject: Subject) -> Mapping[type[frames.Head], Handler]:
    return {kind: partial(handler, subject) for kind, handler in table.items()}
