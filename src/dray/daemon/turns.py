"""The turn: what the manager decided is released only when everything it rests on is durable.

    event -> manager.handle -> effects           as it comes, many in one pass of the loop
    end of the pass: store.begin_sync            writes the facts so far as one group
    two workers: Sync.halves                     fdatasync; the next turn gathers meanwhile
                                                 (when, and who else: see `syncs`, `pace`)
    store.end_sync, release the effects          in the order in which they were decided

At most one sync is under way, so a busy daemon syncs once for everything that came during the last
one: group commit. Facts that would outgrow a group are written as one, which then waits in line; if
the log has no room for it, what was read already waits undecided (`postponed`). An
effect waits for every fact before it, its own or not, except those that the manager marked
`held=False`. An extent in an effect is pinned from the moment it is decided.

A sync that fails is never tried again: every waiting answer becomes that failure, and the daemon
ends.

Four state tables say what happens when: PASS, SYNC and CHECKPOINT in `pacing`, SERVICE below.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from dray.daemon.delivery_spans import delivery_spans
from dray.daemon.limits import GATHERED_BYTES_MAX, GATHERED_EFFECTS_MAX, GROUP_SHARE
from dray.daemon.notice_log import NoticeLog
from dray.daemon.pacing.alarm import Alarm
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.pacing.checkpoints import Checkpoints
from dray.daemon.pacing.flushing import Flushing
from dray.daemon.pacing.pace import NEVER
from dray.daemon.pacing.passes import DECIDED, READING_BEGAN, READING_ENDED, GivenUp, Pass
from dray.daemon.pacing.postponed import Follow, Postponed
from dray.daemon.pacing.syncs import LOG_FILLED, PASS_ENDED, ROOM_MADE, Syncs
from dray.daemon.pacing.worker import Worker
from dray.daemon.roles import Deciding, Performing
from dray.daemon.sockets.outbox import merged, pin_all, unpin_all
from dray.daemon.timekeeper import Timekeeper, draw_jitter
from dray.errors import DrayError, StorePoisoned
from dray.machine import Machine, Tick, always, nothing, on
from dray.manager.events import (
    Answer,
    CloseSession,
    Effect,
    Event,
    HangUp,
    LinkDown,
    LinkFrame,
    LinkSend,
    Request,
    SessionClosed,
)
from dray.store.limits import HEAP_FILE_BYTES
from dray.store.store import Store
from dray.wire.frames import failure

_log = logging.getLogger(__name__)
_FRAMES: Final = (Request, LinkFrame)
_WITH_BODY: Final = (Answer, LinkSend)
INTERNAL = DrayError(
    "the queue manager failed unexpectedly; its log has the details, please report them"
)


class Stopped(NamedTuple):
    """The daemon ends; everything that could be synced has been."""


class Broken(NamedTuple):
    """Nothing more can be made durable."""

    error: BaseException


class ServiceState(enum.Enum):
    """From the start of the turns to their end."""

    SERVING = "turns go on"
    STOPPING = "the store is closed in a moment"
    FAILED = "a write or a sync failed"


class Turns(Machine[ServiceState, Any, Any]):
    """Drives one manager over one store."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        manager: Deciding,
        *,
        clock: Timekeeper,
        performer: Performing,
        backlog: DiskBacklog,
    ) -> None:
        """Begin with nothing gathered; threads are started here."""
        super().__init__(ServiceState.SERVING)
        self._loop = loop
        self._store = store
        self._manager = manager
        self._spans = delivery_spans()
        self._clock = clock
        self._performer = performer
        self._backlog = backlog
        self._keeper = Worker(loop, "dray-checkpoint")
        self._checkpoints = Checkpoints(
            store,
            self._keeper,
            loop,
            snapshot=manager.snapshot,
            room_made=self._room_made,
            failed=self.fail,
        )
        self.syncs = Syncs(
            loop,
            store,
            backlog=backlog,
            checkpoints=self._checkpoints,
            performer=performer,
            written=self._group_written,
            stepped=self._weigh,
            failed=self.fail,
        )
        self._gathering = self.syncs.gathering
        self._pass = Pass(loop, is_lone=self._is_lone, ended=self._pass_ended)
        self._flushing = Flushing(store, backlog, self._keeper, time=loop.time, failed=self.fail)
        self._alarm = Alarm(loop, clock, self._tick)
        self._notice_log = NoticeLog(loop, clock)
        self._at_once: list[Effect] = []
        # The facts of one group must fit the log, and those of one event come on top.
        self._group_bytes = store.group_bytes_max // GROUP_SHARE
        self._postponed = Postponed()
        self.overfull = self._log_is_full
        """Whether so much waits for the disk that nothing more should be read."""
        self.called = False
        """Whether a caller of this program has the turn: its pass ends with its call."""

    def deliver(self, event: Event) -> None:
        """Let the manager decide about an event: now, or when the log has room for its facts."""
        if self._stage is ServiceState.FAILED:
            return
        # Whenever one of the two holds, so much waits that it is overfull.
        if self.overfull and (self._postponed.line or self._log_is_full):
            self._postponed.add(event)
            self._pass.handle(DECIDED, 0.0)
            return
        self._decide(event)

    @property
    def _log_is_full(self) -> bool:
        """Whether no more facts should be stated: those that wait would be written otherwise."""
        return self._store.waiting_bytes > self._group_bytes

    def _decide(self, event: Event) -> None:
        if isinstance(event, _FRAMES):
            self.syncs.gathered_bytes += len(event.frame.body)
            self._flushing.bytes += len(event.frame.body)
        elif isinstance(event, LinkDown):
            event = event._replace(jitter=draw_jitter())
        elif isinstance(event, SessionClosed):
            self._gathering.left(event.session)
        try:
            effects = self._manager.handle(event, self._clock.now())
        except StorePoisoned as error:
            if isinstance(event, Request):
                answer = Answer(event.session, event.frame.request_id, failure(error))
                self.syncs.gathered.append(answer)
            self.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            effects = self._mishap(event, error)
        if self._spans is not None:
            self._spans.look(event, effects, self._clock.now())
        self._follow(effects)
        if self._store.waiting_bytes > self._group_bytes:
            self.syncs.handle(LOG_FILLED, self._loop.time())
            self._weigh()

    def follow(self, *effects: Effect) -> None:
        """Have these done after everything that came before."""
        if self._postponed.line:
            self._postponed.add(Follow(effects))
        else:
            self._follow(effects)

    def _follow(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, _WITH_BODY) and effect.body:
                if len(effect.body) > 1:
                    effect = effect._replace(body=merged(effect.body))  # noqa: PLW2901 - as pinned
                pin_all(self._store, effect.body)
            if not isinstance(effect, Answer):
                self.syncs.gathered.append(effect)
            elif effect.held:
                self.syncs.gathered.append(effect)
                self._gathering.joined(effect.session, self._loop.time())
            else:
                self._at_once.append(effect)
        if not self._pass.is_due:
            self._pass.handle(DECIDED, 0.0)

    def _take_up(self) -> None:
        """Decide about what came while the log was full."""
        while self._postponed.line and not (
            self._stage is ServiceState.FAILED or self._log_is_full
        ):
            item = self._postponed.take()
            if isinstance(item, Follow):
                self._follow(item.effects)
            else:
                self._decide(item)
        self._weigh()

    def more_comes(self) -> None:
        """A connection is read: the pass does not end before `nothing_more`."""
        if not self._pass.is_due:
            self._pass.handle(READING_BEGAN, 0.0)

    def nothing_more(self) -> None:
        """All that came on a connection was delivered: a lone session's pass ends here and now."""
        if self._pass.is_due and self._gathering.alone_until == NEVER and not self.called:
            return
        self._pass.handle(READING_ENDED, self._loop.time())

    def _is_lone(self, now: float) -> bool:
        return self.called or now <= self._gathering.alone_until

    def _tick(self) -> None:
        self.deliver(Tick())

    def _pass_ended(self) -> None:
        if self._at_once:
            at_once, self._at_once = self._at_once, []
            self._performer.perform(at_once)
        self.syncs.handle(PASS_ENDED, self._loop.time())
        if self._flushing.bytes >= HEAP_FILE_BYTES:
            self._flushing.go_on()
        self._weigh()
        at = self._manager.deadline()
        if at is not None:
            self._alarm.set(at)
        notices = self._manager.notices()
        if notices:
            self._notice_log.write(notices)

    def _group_written(self) -> None:
        if self._postponed.line:
            self._loop.call_soon(self._take_up)

    def _room_made(self) -> None:
        if self._stage is ServiceState.SERVING:
            self.syncs.handle(ROOM_MADE, self._loop.time())
            self._weigh()

    def _weigh(self) -> None:
        """Stop reading when too much waits for the disk, go on when it does no longer."""
        was = self.overfull
        self.overfull = (
            len(self.syncs.gathered) > GATHERED_EFFECTS_MAX
            or self.syncs.gathered_bytes > GATHERED_BYTES_MAX
            or self._store.waiting_bytes > self._group_bytes
            or bool(self.syncs.line)
            or bool(self._postponed.line)
        )
        if was != self.overfull:
            self._performer.reconsider()

    # ---------------------------------------------------------------------------------- ending

    def fail(self, error: BaseException) -> None:
        """Nothing more can be promised: tell everyone who waits, release nothing, once."""
        self.handle(Broken(error), 0.0)

    def broken_off(self, error: BaseException) -> None:
        """A decision was left in the middle: nothing of it is written, nor anything after it."""
        _log.error("a decision was broken off", exc_info=error)
        poisoned = StorePoisoned(
            f"a decision was broken off by {type(error).__name__}, so the queue manager in this"
            " program ends; open it again"
        )
        self._store.poison(poisoned)
        self.fail(poisoned)

    def give_up(self, event: Broken, _now: float) -> list[Any]:
        """Tell everyone who waits for a sync, and release nothing."""
        self._flushing.give_up()
        self._backlog.lift()
        for machine in (self._pass, self._checkpoints):
            machine.handle(GivenUp(), 0.0)
        reason = event.error if isinstance(event.error, DrayError) else INTERNAL
        told, self._at_once = self._at_once, []
        for effect in self.syncs.give_up():
            if isinstance(effect, Answer | LinkSend):
                unpin_all(self._store, effect.body)
            if isinstance(effect, Answer) and effect.request_id:
                told.append(Answer(effect.session, effect.request_id, failure(reason)))
        for session, frame in self._postponed.give_up():
            told.append(Answer(session, frame.request_id, failure(reason)))
        self._performer.perform(told)
        self._performer.failed(reason)
        return []

    async def drain(self) -> None:
        """Sync and release everything that was decided."""
        while self._stage is not ServiceState.FAILED and (
            self._pass.is_open or self._postponed.line or not self.syncs.are_done
        ):
            await self.syncs.come_back()
            for worker in (*self.syncs.workers, self._keeper):
                await worker.idle()

    async def stop(self) -> None:
        """End the threads and close the store, with a last checkpoint. Raises `StoreError`."""
        self.handle(Stopped(), 0.0)
        self._alarm.stop()
        self.syncs.stop()
        self._notice_log.write(self._manager.notices())
        self._notice_log.stop()
        await self.syncs.come_back()
        for worker in (*self.syncs.workers, self._keeper):
            await worker.idle()
            worker.stop()
        failed = self._stage is ServiceState.FAILED
        self._store.close(None if failed else self._manager.snapshot())

    def _mishap(self, event: Event, error: Exception) -> list[Effect]:
        """React to an error of the manager: answer every caller, log the error."""
        known = isinstance(error, DrayError)
        if known:
            _log.error("%s could not be handled: %s", self._told(event), error)
        else:
            _log.error("%s could not be handled", self._told(event), exc_info=error)
        match event:
            case Request(session, frame):
                told = failure(error if isinstance(error, DrayError) else INTERNAL)
                answer = Answer(session, frame.request_id, told)
                return [answer] if known else [answer, CloseSession(session)]
            case LinkFrame(peer, _):
                self._loop.call_soon(self.deliver, LinkDown(peer, "a frame could not be handled"))
                return [HangUp(peer)]
            case Tick():
                self._alarm.pause()
        return []

    def _told(self, event: Event) -> str:
        """An event for the log, with the caller or the peer that it came from."""
        name = type(event).__name__
        match event:
            case Request(session, frame):
                who = self._performer.described(session)
                return f"{type(frame.head).__name__} of session {session} of {who}"
            case LinkFrame(peer, frame):
                return f"{type(frame.head).__name__} of {peer.host}:{peer.port}"
        return name


_SERVING, _STOPPING = ServiceState.SERVING, ServiceState.STOPPING
SERVICE: Final = (
    on(_SERVING, Stopped, always, nothing, _STOPPING),
    on(_STOPPING, Stopped, always, nothing),
    on((_SERVING, _STOPPING), Broken, always, Turns.give_up, ServiceState.FAILED),
)
Turns.run(SERVICE)
