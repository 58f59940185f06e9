"""The queue manager's front: events in, effects out (see ARCHITECTURE.md, The turn).

`handle` finds who is to decide; afterwards receivers that wait are served, and outgoing streams of
queues that have grown go on. Nothing here waits, reads a clock or knows a socket. A refused request
is answered; a breach of the protocol ends that one session; a poisoned store ends everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from dray.delivery.events import DeliverySettings, Paused
from dray.delivery.lineage import next_incarnation
from dray.errors import AccessDenied, DrayError, InvalidArgument, ProtocolError
from dray.machine import Tick
from dray.manager.change import (
    Compactor,
    FileKeeper,
    FilesReport,
    damaged_messages,
    drop_unused_queues,
    end_use_of_queues,
    remove_expired,
    set_aside,
    tell_of_kept_routes,
)
from dray.manager.context import MICROSECONDS, Context
from dray.manager.disk import FollowedFiles, window_of
from dray.manager.dispatch import Subjects
from dray.manager.events import (
    AccessChanged,
    CloseSession,
    Effect,
    Event,
    LinkDown,
    LinkFrame,
    LinkUp,
    ManagerConfig,
    Peer,
    Reachable,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.manager.facts import Fact, IncarnationBegan, ManagerNamed, encode_fact
from dray.manager.notices import Notice, NoticeKind, Notices
from dray.manager.queue import Account, StoredQueue, created_at_birth, find_parts
from dray.manager.rights import (
    begun_act,
    change_access,
    check_frame,
    end_expired_tokens,
    note_act,
    note_refusal,
)
from dray.manager.session import Session
from dray.manager.state import State, replay, soonest, take_snapshots
from dray.manager.transactions import end_purges, take_up_all_prepared
from dray.model.access import Access
from dray.model.ids import ManagerId
from dray.model.limits import UNUSED_QUEUES_A_TURN
from dray.store.heap.heap import Extent
from dray.store.log.checkpoint import Snapshots
from dray.store.recovery.recovery import History, RecoveryReport
from dray.store.store import Store
from dray.wire import frames, large_frames, message_frames
from dray.wire.head import Head

_DISK = "the disk of the data directory"
_WAITING = (message_frames.Receive, large_frames.LargeReceive, message_frames.ReceiveTransaction)


class QueueManager:
    """One queue manager over one store."""

    def __init__(self, state: State, store: Store, config: ManagerConfig, now: float) -> None:
        """Use `load`, which recovers the state first."""
        notices = Notices()
        files = store.queue_files
        followed = FollowedFiles(files, state.queues, notices) if files is not None else None
        context = Context(state, store, config, now, notices=notices, files=followed)
        self._context = context
        self._subjects = Subjects(context)
        self._sessions = self._subjects.rights.sessions
        state.awaiting.look()
        take_up_all_prepared(self._subjects.transactions)
        self._subjects.requests.take_up()
        end_purges(self._subjects.works)
        self._waiters = self._subjects.requests.waiters
        self._compactor = Compactor(context)
        self._files = None if followed is None else FileKeeper(context, followed)
        self._started = False
        self._disk_told = False
        """Whether the operator was told that the disk refuses messages."""

    @property
    def files_report(self) -> FilesReport:
        """Changes of the start to queue files."""
        return FilesReport() if self._files is None else self._files.report

    @classmethod
    def load(cls, store: Store, config: ManagerConfig, now: float) -> QueueManager:
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
        if config.incarnation:
            _begin_incarnation(state, store, config.incarnation, now)
        state.released = store.release
        if state.quotas_set is None:
            state.ledger.limits[Account.COMPUTER] = config.quota
            state.ledger.limits[Account.JOURNAL] = config.journal_quota
        damaged: list[tuple[StoredQueue, list[bytes]]] = []
        for queue in state.queues:
            if queue.stream is None:
                damaged.append((queue, find_parts(store, queue, state.arrival_routes)))
                continue
            queue.stream.began_anew()
            if queue.paused:
                queue.stream.handle(Paused(), now)
        manager = cls(state, store, config, now)
        manager._tell_of_recovery(report)
        for queue, found in damaged:
            if found:
                set_aside(manager._context, queue, found)
        if manager._files is not None:
            manager._files.begin(rebuild_internal=config.rebuild_internal_files)
        store.serve()
        return manager

    def _tell_of_recovery(self, report: RecoveryReport) -> None:
        notices = self._context.notices
        for sentence in report.notices():
            notices.add(NoticeKind.AT_START, "storage", sentence)
        for queue_name, sentence in damaged_messages(self._context.state, report.spoiled):
            notices.add(NoticeKind.AT_START, queue_name, sentence)

    @property
    def id(self) -> ManagerId:
        """The manager's id, for ever."""
        return ManagerId(self._context.state.manager_id)

    @property
    def knows_tokens(self) -> bool:
        """Whether a caller can show a token."""
        return bool(self._context.state.identity.tokens)

    @property
    def name(self) -> str:
        """The name for people."""
        return self._context.state.name

    def hello(self, peer: Peer) -> frames.Hello:
        """The Hello with which this manager begins on a new connection to another one."""
        return self._subjects.links.hello(peer)

    def snapshot(self) -> Snapshots:
        """The durable state, for a checkpoint."""
        return take_snapshots(self._context.state)

    def notices(self) -> list[Notice]:
        """Notices for the operator since the last call."""
        return self._context.notices.take()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Decide about one event."""
        context = self._context
        effects = context.begin_turn(now)
        if not isinstance(event, Tick):
            self._compactor.disturbed()
        match event:
            case Request():
                self._request(event)
            case SessionOpened(session, caller):
                self._sessions[session] = Session(session, caller)
            case SessionClosed(session):
                self._close(self._sessions.pop(session, None))
            case LinkUp(peer, caller):
                self._subjects.links.up(peer, caller)
            case LinkDown(peer, reason, jitter):
                self._subjects.links.down(peer, reason, jitter)
            case LinkFrame(peer, frame):
                self._subjects.links.frame(peer, frame)
            case Reachable(addresses):
                context.state.identity.reached_at(addresses)
                tell_of_kept_routes(context)
            case AccessChanged(access, peer_tokens):
                self._change_access(access, peer_tokens)
            case Tick():
                self._tick()
            case _:
                assert_never(event)
        self._serve()
        if self._concerns_others():
            self._follow_up()
        return effects

    def _concerns_others(self) -> bool:
        """Whether other sessions, sources or the disk have anything of this event."""
        context, subjects = self._context, self._subjects
        follow_up, untold = context.follow_up, context.follow_up.untold_ends
        waiting, missing = subjects.sources.waiting_for_room, subjects.sources.missing_queues
        return bool(
            follow_up.to_tell
            or follow_up.perhaps_unused
            or subjects.holes.wanted
            or context.room.wanted
            or context.state.stream_ends.news
            or waiting.for_quota
            or waiting.for_disk
            or (missing.wanted and missing)
            or (untold.due and untold.is_due(context.now))
        )

    def _follow_up(self) -> None:
        """Do what other sessions, sources and the disk have of this event."""
        context = self._context
        subjects = self._subjects
        if context.room.wanted:
            self._tell_of_disk()
        sources, to_tell = subjects.sources, context.follow_up.to_tell
        if to_tell:
            for key in to_tell:
                sources.tell(key)
            to_tell.clear()
        if context.follow_up.untold_ends.is_due(context.now):
            sources.tell_of_ends()
        subjects.streams.go_on()
        if context.state.stream_ends.news:
            subjects.links.say_ends()
        if len(context.follow_up.perhaps_unused) <= UNUSED_QUEUES_A_TURN:
            # More of them are nobody's turn to wait for: ticks go through them.
            drop_unused_queues(context)
        if subjects.holes.wanted:
            subjects.holes.ask(sources)

    def _tell_of_disk(self) -> None:
        """Say once that the disk refuses messages, and once that it takes them again."""
        room, notices = self._context.room, self._context.notices
        if room.take_refusal():
            self._compactor.room_was_refused()
            if not self._disk_told:
                self._disk_told = True
                told = (
                    f"new messages are refused: {max(0, room.free)} bytes are free and"
                    f" {room.low_water} must stay free; free some space or receive messages"
                )
                notices.add(NoticeKind.DISK_REFUSES, _DISK, told)
        elif room.has_room_again():
            self._disk_told = False
            notices.add(NoticeKind.DISK_ACCEPTS, _DISK, "there is room for messages again")

    def deadline(self) -> float | None:
        """When to send Tick if nothing happens before."""
        context, subjects = self._context, self._subjects
        if not self._started or subjects.works.begun or context.follow_up.perhaps_unused:
            return context.now
        untold = context.follow_up.untold_ends
        transactions = subjects.transactions
        expiries = context.state.expiries.times
        token_expires_us = context.state.identity.token_expires_us
        return soonest(
            subjects.links.deadline(),
            self._compactor.deadline(),
            subjects.streams.deadline(),
            untold.deadline() if untold.due else None,
            expiries[0][0] / MICROSECONDS if expiries else None,
            token_expires_us / MICROSECONDS if token_expires_us else None,
            subjects.requests.deadline(),
            transactions.idle_at() if transactions.used else None,
            transactions.reservations.unused.soonest,
        )

    def _request(self, event: Request) -> None:
        context = self._context
        number, (head, request_id, body) = event
        session = self._sessions.get(number)
        if session is None:
            return
        try:
            self._dispatch(session, request_id, head, body)
        except ProtocolError as error:
            context.refuse(session, request_id, error)
            context.effects.append(CloseSession(session.number))
        except DrayError as error:
            if isinstance(error, AccessDenied):
                note_refusal(self._subjects.rights, session, head)
            context.refuse(session, request_id, error)
        if isinstance(head, _WAITING):
            self._waiters.note_last(head.queue)

    def _dispatch(self, session: Session, request_id: int, head: Head, body: memoryview) -> None:
        kind = type(head)
        if not session.role:
            if not isinstance(head, frames.Hello):
                raise ProtocolError(f"the conversation began with {kind.__name__}, not with Hello")
            self._subjects.requests.hello(session, request_id, head)
            return
        if isinstance(head, frames.Unfit):
            if session.role != "client" or not request_id:
                raise ProtocolError(head.sentence)
            raise InvalidArgument(head.sentence, **head.fields)
        subjects = self._subjects
        check_frame(subjects.rights, session, head, body)
        with_body = subjects.with_body.get((session.role, kind))
        if with_body is not None:
            with_body(session, request_id, head, body=body)
            return
        of_client = session.role == "client"
        handler = (subjects.for_clients if of_client else subjects.for_managers).get(kind)
        if handler is None or len(body):
            raise ProtocolError(f"a {session.role} may not send {kind.__name__} here")
        act = begun_act(subjects.rights, session, head)
        handler(session, request_id, head)
        if act is not None:
            note_act(subjects.rights, session, act)

    def _close(self, session: Session | None) -> None:
        """Let go of everything that a connection had."""
        if session is None:
            return
        subjects = self._subjects
        subjects.requests.closed(session)
        subjects.relay.closed(session)
        end_use_of_queues(self._context, session)
        subjects.streams.closed(session)

    def _change_access(self, access: Access, peer_tokens: dict[Peer, str] | None) -> None:
        change_access(self._subjects.rights, access)
        if peer_tokens is not None:
            self._subjects.links.show(peer_tokens)

    def _tick(self) -> None:
        self._started = True
        subjects = self._subjects
        subjects.works.go_on()
        drop_unused_queues(self._context)
        remove_expired(self._context)
        end_expired_tokens(subjects.rights)
        subjects.transactions.reservations.give_back_unused()
        subjects.streams.tick()
        subjects.transactions.abort_idle()
        subjects.requests.tick()
        subjects.links.tick()
        self._compactor.tick()

    def _serve(self) -> None:
        """Let those go on who waited for what this turn made available."""
        touched = self._context.follow_up.touched
        while touched:
            number = next(iter(touched))
            queue = touched.pop(number)
            self._compactor.grown(queue)
            if queue.stream is None:
                if queue.waiters.places:
                    self._waiters.serve(queue)
            else:
                self._subjects.links.grown(queue)


def _name(state: State, store: Store, config: ManagerConfig, now: float) -> None:
    _record(state, store, ManagerNamed(config.manager_id, config.name, config.key))
    for created in created_at_birth():
        born = state.identity.next_birth(int(now * MICROSECONDS))
        _record(state, store, msgspec.structs.replace(created, born=born))


def _begin_incarnation(state: State, store: Store, drawn: int, now: float) -> None:
    """Begin an incarnation of the store, before the manager says a word."""
    identity = state.identity
    incarnation = next_incarnation(identity.incarnations, drawn, identity.age)
    _record(state, store, IncarnationBegan(*incarnation, int(now * MICROSECONDS)))


def _record(state: State, store: Store, fact: Fact) -> None:
    state.apply(fact)
    store.append(encode_fact(fact))
