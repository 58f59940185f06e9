"""The queue manager's front: events in, effects out (see ARCHITECTURE.md, The turn).

`handle` finds who is to decide; afterwards receivers that wait are served, and outgoing streams of
queues that have grown go on. Nothing here waits, reads a clock or knows a socket. What is refused
is answered; what breaks the protocol ends that one session; a poisoned store ends everything.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, assert_never

import msgspec

from dray.delivery.events import DeliverySettings, Paused
from dray.delivery.incoming import StreamKey
from dray.delivery.lineage import next_life
from dray.errors import DrayError, InvalidArgument, ProtocolError, StorePoisoned
from dray.manager.change import sub_queues
from dray.manager.change.expiry import expire
from dray.manager.change.lqs import FileKeeper, FilesReport
from dray.manager.change.purging import go_on
from dray.manager.change.quarantine import damaged_messages, set_aside
from dray.manager.change.tidying import Tidier
from dray.manager.context import MICROSECONDS, Context, window_of
from dray.manager.events import (
    CloseSession,
    Effect,
    Event,
    LinkDown,
    LinkFrame,
    LinkUp,
    ManagerConfig,
    Reachable,
    Request,
    SessionClosed,
    SessionOpened,
    Tick,
)
from dray.manager.facts import AnyFact, LifeBegan, ManagerNamed, encode_fact
from dray.manager.notices import Notice, NoticeKind
from dray.manager.peers import arrivals, ended_streams, links, peers, repairs, telling
from dray.manager.queue.accounts import Account
from dray.manager.queue.parts import find_parts
from dray.manager.queue.queues import Queue
from dray.manager.queue.system import created_at_birth
from dray.manager.queue.waiter import Waiter
from dray.manager.requests import (
    admin,
    backup,
    large_messages,
    moving,
    receiving,
    relay,
    sending,
    unreadable,
    uploads,
)
from dray.manager.session import Session
from dray.manager.state.snapshots import replay, take_snapshots
from dray.manager.state.state import State
from dray.manager.transactions import prepared, transactions
from dray.model.ids import ManagerId
from dray.store.heap.heap import Extent
from dray.store.log.checkpoint import Snapshots
from dray.store.lqs import QueueFiles
from dray.store.recovery.recovery import History, RecoveryReport
from dray.store.store import Store
from dray.wire import backup_frames, file_frames, frames

Waiting = frames.Receive | frames.LargeReceive | frames.ReceiveTransaction
_WAITING = (frames.Receive, frames.LargeReceive, frames.ReceiveTransaction)
_Handler = Callable[[Context, Session, int, Any], None]
_BodyHandler = Callable[..., None]

FOR_CLIENTS: dict[type[frames.Head], _Handler] = {
    frames.Lease: admin.handle_lease,
    frames.CreateQueue: admin.handle_create,
    frames.OpenQueue: admin.handle_open,
    frames.DescribeQueue: admin.handle_describe_queue,
    frames.ListQueues: admin.handle_list,
    frames.DeleteQueue: admin.handle_delete,
    frames.Describe: admin.handle_describe,
    frames.PauseQueue: admin.handle_pause,
    frames.SetQuota: admin.handle_set_quota,
    frames.ListPeers: peers.handle_list_peers,
    frames.AcceptPeer: peers.handle_accept_peer,
    frames.ForgetPeer: peers.handle_forget_peer,
    frames.ResolveOutgoing: peers.handle_resolve_outgoing,
    backup_frames.Backup: backup.handle_backup,
    backup_frames.BackupRead: backup.handle_backup_read,
    frames.Reserve: sending.handle_reserve,
    frames.Outcome: admin.handle_outcome,
    frames.Commit: transactions.handle_commit,
    frames.Abort: transactions.handle_abort,
    frames.Prepare: prepared.handle_prepare,
    frames.SettlePrepared: prepared.handle_settle_prepared,
    frames.ListPrepared: prepared.handle_list_prepared,
    frames.Move: moving.handle_move,
    frames.Reject: moving.handle_reject,
    frames.ReceiveTransaction: moving.handle_receive_transaction,
    frames.Receive: receiving.handle_receive,
    frames.Settle: receiving.handle_settle,
    frames.PurgeQueue: receiving.handle_purge,
    frames.ReadPart: receiving.handle_read_part,
    file_frames.CopyPart: receiving.handle_copy_part,
    frames.LargeReceive: large_messages.handle_large_receive,
    frames.LargeList: large_messages.handle_large_list,
    frames.AttachBox: relay.handle_attach,
    frames.Credit: relay.handle_credit,
    frames.UploadBegin: uploads.handle_begin,
    frames.UploadResume: uploads.handle_resume,
    frames.UploadMark: uploads.handle_mark,
    frames.UploadDrop: uploads.handle_drop,
    frames.ListUploads: uploads.handle_list,
    frames.PartDamaged: large_messages.handle_part_damaged,
    frames.LargeUnreadable: unreadable.handle_unreadable,
}
_FOR_MANAGERS: dict[type[frames.Head], _Handler] = {
    frames.OpenStream: arrivals.handle_open_stream,
    frames.Passed: arrivals.handle_passed,
    frames.EndStream: ended_streams.handle_end_stream,
    frames.ConfirmationsTaken: telling.handle_taken,
    frames.RepairAnswer: repairs.handle_answer,
    frames.AttachBox: relay.handle_attach,
    frames.Credit: relay.handle_credit,
}
WITH_BODY: dict[tuple[str, type[frames.Head]], _BodyHandler] = {
    ("client", frames.Send): sending.handle_send,
    ("client", frames.Post): relay.handle_post,
    ("client", file_frames.SendFile): sending.handle_send_file,
    ("manager", frames.Data): arrivals.handle_data,
    ("manager", frames.Post): relay.handle_post,
}


class Manager:
    """One queue manager over one store."""

    def __init__(self, state: State, store: Store, config: ManagerConfig, now: float) -> None:
        """Use `load`, which recovers the state first."""
        self._context = Context(state, store, config, now)
        self._context.relay = relay.Relay()
        self._links = links.Links(self._context)
        self._context.steer = self._links.steer
        self._context.delivery_of = self._links.delivery_of
        self._context.resolve = partial(admin.resolve, self._context)
        self._context.known = partial(admin.known, self._context)
        prepared.take_up(self._context)
        uploads.take_up(self._context)
        transactions.end_purges(self._context)
        self._tidier = Tidier(self._context)
        self._timeouts: list[tuple[float, int]] = []
        self._noted: dict[int, float] = {}
        """By queue, the earliest of its entries among the timeouts: one is enough."""
        self._started = False
        self.files_report = FilesReport()
        """What the start did about queues' files."""

    @classmethod
    def load(cls, store: Store, config: ManagerConfig, now: float) -> Manager:
        """Recover from the store, or name a new one. The caller syncs before it says anything."""
        recovered: list[State] = []

        def rebuild(history: History) -> Iterable[tuple[Extent, int]]:
            settings = DeliverySettings(
                window_bytes=config.window_bytes,
                window_messages=min(config.window_messages, window_of(store.log_capacity)),
                resend_schedule_s=config.resend_schedule_s,
            )
            state = replay(State(settings), history)
            recovered[:] = [state]
            return state.live()

        report = store.recover(rebuild)
        state = recovered[0]
        state.put_aside(frozenset(report.quarantined))
        if not state.manager_id:
            _name(state, store, config, now)
        if config.life:
            _begin_life(state, store, config.life, now)
        state.released = store.release
        if state.quotas_set is None:
            state.ledger.limits[Account.COMPUTER] = config.quota
            state.ledger.limits[Account.JOURNAL] = config.journal_quota
        damaged: list[tuple[Queue, list[bytes]]] = []
        for queue in state.queues:
            if queue.stream is None:
                damaged.append((queue, find_parts(store, queue, state.ways)))
                continue
            queue.stream.began_anew()
            if queue.paused:
                queue.stream.handle(Paused(), now)
        manager = cls(state, store, config, now)
        manager._tell_of_recovery(report)
        for queue, found in damaged:
            if found:
                set_aside(manager._context, queue, found)
        if store.queue_files is not None:
            manager._keep_files(store.queue_files)
        store.serve()
        return manager

    def _tell_of_recovery(self, report: RecoveryReport) -> None:
        notices = self._context.notices
        for sentence in report.notices():
            notices.add(NoticeKind.AT_START, "storage", sentence)
        for queue_name, sentence in damaged_messages(self._context.state, report.spoiled):
            notices.add(NoticeKind.AT_START, queue_name, sentence)

    def _keep_files(self, files: QueueFiles) -> None:
        keeper = FileKeeper(self._context, files, partial(admin.journal_of, self._context))
        self.files_report = keeper.report
        keeper.begin(rebuild_internal=self._context.config.rebuild_internal_files)

    @property
    def id(self) -> ManagerId:
        """The manager's id, for ever."""
        return ManagerId(self._context.state.manager_id)

    @property
    def name(self) -> str:
        """What people call it."""
        return self._context.state.name

    def hello(self) -> frames.Hello:
        """How this manager begins a conversation with another one."""
        lives = list(self._context.state.identity.lives)
        return frames.Hello("manager", self.id, self.name, lives)

    def snapshot(self) -> Snapshots:
        """The durable state, for a checkpoint."""
        return take_snapshots(self._context.state)

    def notices(self) -> list[Notice]:
        """What an operator should know since the last call."""
        return self._context.notices.take()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Decide about one event."""
        context = self._context
        context.now = max(context.now, now)
        context.effects = []
        if not isinstance(event, Tick):
            self._tidier.disturbed()
        match event:
            case Request():
                self._request(event)
            case SessionOpened(session):
                context.sessions[session] = Session(session)
            case SessionClosed(session):
                self._close(context.sessions.pop(session, None))
            case LinkUp(peer):
                self._links.up(peer)
            case LinkDown(peer, reason, jitter):
                self._links.down(peer, reason, jitter)
            case LinkFrame(peer, frame):
                self._links.frame(peer, frame)
            case Reachable(addresses):
                context.own_addresses = addresses
            case Tick():
                self._tick()
            case _:
                assert_never(event)
        for_others = context.touched or context.to_tell or context.repairs
        if (
            for_others
            or context.disk_room.was_refused
            or context.state.endings.news
            or context.perhaps_unused
            or context.waiting_for_room
            or context.missing_queues
            or context.untold_ends.is_due(context.now)
        ):
            self._follow_up()
        return context.effects

    def _follow_up(self) -> None:
        """Do what other sessions, sources and the disk have of this event."""
        context = self._context
        self._serve()
        if context.disk_room.was_refused:
            context.disk_room.was_refused = False
            self._tidier.room_was_refused()
        for key in context.to_tell:
            telling.tell_source(context, key)
        context.to_tell.clear()
        telling.tell_of_ends(context)
        arrivals.tell_of_room(context)
        arrivals.tell_of_new_queues(context)
        self._links.say_ends()
        sub_queues.drop_unused(context)
        repairs.ask(context)

    def deadline(self) -> float | None:
        """When to send Tick if nothing happens before."""
        context = self._context
        under_way = context.works or context.preparing is not None or context.perhaps_unused
        if not self._started or under_way:
            return context.now
        soonest = self._links.deadline()
        expires_us = context.state.expiries.next_us()
        for at in (
            self._tidier.deadline(),
            context.waiting_for_room.deadline(),
            context.untold_ends.deadline(),
            None if expires_us is None else expires_us / MICROSECONDS,
            self._timeouts[0][0] if self._timeouts else None,
            context.idle[0][0] if context.idle else None,
            transactions.oldest_claim_ends(context),
            context.aging[0][0] if context.aging else None,
        ):
            if at is not None and (soonest is None or at < soonest):
                soonest = at
        return soonest

    def _request(self, event: Request) -> None:
        context = self._context
        number, (head, request_id, body) = event
        session = context.sessions.get(number)
        if session is None:
            return
        try:
            self._dispatch(session, request_id, head, body)
        except StorePoisoned:
            raise
        except ProtocolError as error:
            context.refuse(session, request_id, error)
            context.effects.append(CloseSession(session.number))
        except DrayError as error:
            context.refuse(session, request_id, error)
        if isinstance(head, _WAITING):
            queue = context.state.queues.get(head.queue)
            if queue is not None and queue.waiters:
                self._note_timeout(queue, queue.waiters[-1])

    def _dispatch(
        self, session: Session, request_id: int, head: frames.Head, body: memoryview
    ) -> None:
        kind = type(head)
        if not session.role:
            if not isinstance(head, frames.Hello):
                raise ProtocolError(f"the conversation began with {kind.__name__}, not with Hello")
            admin.handle_hello(self._context, session, request_id, head)
            return
        if isinstance(head, frames.Unfit):
            if session.role != "client" or not request_id:
                raise ProtocolError(head.sentence)
            raise InvalidArgument(head.sentence, **head.fields)
        with_body = WITH_BODY.get((session.role, kind))
        if with_body is not None:
            with_body(self._context, session, request_id, head, body=body)
            return
        handlers = FOR_CLIENTS if session.role == "client" else _FOR_MANAGERS
        handler = handlers.get(kind)
        if handler is None or len(body):
            raise ProtocolError(f"a {session.role} may not send {kind.__name__} here")
        handler(self._context, session, request_id, head)

    def _close(self, session: Session | None) -> None:
        """Abort what a client that went away had begun, and wait for it no longer."""
        if session is None:
            return
        backup.end_backup(self._context, session)
        self._context.relay.closed(self._context, session)
        for number in list(session.transactions):
            transaction = self._context.transactions[number]
            if transaction.upload:
                uploads.leave(self._context, transaction)
            else:
                transactions.abort(self._context, transaction)
        sub_queues.closed(self._context, session)
        self._context.waiting_for_room.forget(session)
        self._context.missing_queues.forget(session)
        for stream in session.told:
            key = StreamKey(session.peer_id, stream)
            if self._context.confirmed.get(key) is session:
                del self._context.confirmed[key]
        for number in session.waiting_at:
            queue = self._context.state.queues.get(number)
            if queue is not None and queue.waiters:
                kept = [waiter for waiter in queue.waiters if waiter.session is not session]
                queue.waiters.clear()
                queue.waiters.extend(kept)

    def _tick(self) -> None:
        self._started = True
        go_on(self._context)
        backup.prepare_on(self._context)
        expire(self._context)
        transactions.abort_idle(self._context)
        uploads.drop_old(self._context)
        self._links.tick()
        self._tidier.tick()
        while self._timeouts and self._timeouts[0][0] <= self._context.now:
            at, number = heapq.heappop(self._timeouts)
            if self._noted.get(number) == at:
                del self._noted[number]
            queue = self._context.state.queues.get(number)
            if queue is not None:
                self._expire(queue)
                self._note_timeout(queue)

    def _expire(self, queue: Queue) -> None:
        for waiter in list(queue.waiters):
            if waiter.deadline is not None and waiter.deadline <= self._context.now:
                queue.waiters.remove(waiter)
                error = receiving.nothing_came(queue, waiter.head.timeout)
                self._context.refuse(waiter.session, waiter.request_id, error)

    def _note_timeout(self, queue: Queue, waiter: Waiter | None = None) -> None:
        """Look at a queue again when the first wait is over: of all its waiters, or of one more.

        Waits that were answered leave nothing behind, however long they might have lasted.
        """
        waiting = queue.waiters if waiter is None else (waiter,)
        deadline = min(
            (each.deadline for each in waiting if each.deadline is not None), default=None
        )
        if deadline is not None and deadline < self._noted.get(queue.number, math.inf):
            self._noted[queue.number] = deadline
            heapq.heappush(self._timeouts, (deadline, queue.number))

    def _serve(self) -> None:
        """Let those go on who waited for what this turn made available."""
        touched = self._context.touched
        while touched:
            number = next(iter(touched))
            queue = touched.pop(number)
            self._tidier.grown(queue)
            if queue.stream is None:
                self._serve_waiters(queue)
            else:
                self._links.grown(queue)

    def _serve_waiters(self, queue: Queue) -> None:
        for waiter in list(queue.waiters):
            if not queue.index.available_count:
                return
            if self._serve_one(waiter):
                queue.waiters.remove(waiter)

    def _serve_one(self, waiter: Waiter) -> bool:
        context, head = self._context, waiter.head
        try:
            if isinstance(head, frames.Receive):
                return receiving.receive_now(context, waiter.session, waiter.request_id, head)
            if isinstance(head, frames.ReceiveTransaction):
                return moving.receive_transaction_now(
                    context, waiter.session, waiter.request_id, head
                )
            return large_messages.large_receive_now(
                context, waiter.session, waiter.request_id, head
            )
        except StorePoisoned:
            raise
        except DrayError as error:
            context.refuse(waiter.session, waiter.request_id, error)
            return True


def _name(state: State, store: Store, config: ManagerConfig, now: float) -> None:
    _record(state, store, ManagerNamed(config.manager_id, config.name))
    for created in created_at_birth():
        born = state.identity.next_birth(int(now * MICROSECONDS))
        _record(state, store, msgspec.structs.replace(created, born=born))


def _begin_life(state: State, store: Store, drawn: int, now: float) -> None:
    """Begin a life of the store, before the manager says a word."""
    identity = state.identity
    life = next_life(identity.lives, drawn, identity.age)
    _record(state, store, LifeBegan(*life, int(now * MICROSECONDS)))


def _record(state: State, store: Store, fact: AnyFact) -> None:
    state.apply(fact)
    store.append(encode_fact(fact))
