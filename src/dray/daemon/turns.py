"""The turn: what the manager decided is released only when everything it rests on is durable.

    event -> manager.handle -> effects           as it comes, many in one pass of the loop
    end of the pass: store.begin_sync            writes the facts so far as one group
    two workers: Sync.halves                     fdatasync; the next turn gathers meanwhile
                                                 (when, and who else: see `pace`)
    store.end_sync, release the effects          in the order in which they were decided

At most one sync is under way, so a busy daemon syncs once for everything that came during the last
one: group commit. Facts that would outgrow a group are written as one, which then waits in line; if
the log has no room for it, what was read already waits undecided (`postponed`). An
effect waits for every fact before it, its own or not, except those that the manager marked
`held=False`. An extent in an effect is pinned from the moment it is decided.

A sync that fails is never tried again: every waiting answer becomes that failure, and the daemon
ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import cycle, islice
from typing import NamedTuple

from dray.daemon.limits import (
    CHECKPOINT_RETRY_S,
    GATHERED_BYTES_MAX,
    GATHERED_EFFECTS_MAX,
    GROUP_SHARE,
    QUIET_S,
    TICK_S_AFTER_FAILURE,
    TICK_S_MAX,
    TICK_S_MIN,
)
from dray.daemon.notice_log import NoticeLog
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.pacing.flushing import Flushing
from dray.daemon.pacing.pace import Gathering, SyncPace
from dray.daemon.pacing.postponed import Follow, Postponed
from dray.daemon.pacing.worker import Worker
from dray.daemon.roles import Deciding, Performing
from dray.daemon.sockets.outbox import merged, pin_all, unpin_all
from dray.daemon.timekeeper import Timekeeper, draw_jitter
from dray.errors import DrayError, StoreFull, StorePoisoned
from dray.machine import Tick
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
from dray.store.store import Store
from dray.store.syncing import Checkpoint, Sync
from dray.wire.frames import failure

_log = logging.getLogger(__name__)
INTERNAL = DrayError(
    "the queue manager failed unexpectedly; its log has the details, please report them"
)


class _Turn(NamedTuple):
    """A group of facts that was written, its sync, and what may be said when it has ended."""

    sync: Sync
    effects: list[Effect]


class Turns:
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
        self._loop = loop
        self._store = store
        self._manager = manager
        self._clock = clock
        self._performer = performer
        self._backlog = backlog
        self._syncers = (Worker(loop, "dray-sync-1"), Worker(loop, "dray-sync-2"))
        self._halves_left = 0
        self._pace = SyncPace()
        self._began_at = 0.0
        self._gathering = Gathering()
        self._waits: asyncio.TimerHandle | None = None
        self._keeper = Worker(loop, "dray-checkpoint")
        self._at_once: list[Effect] = []
        self._gathered: list[Effect] = []
        self._gathered_bytes = 0
        self._lined_up: deque[_Turn] = deque()
        self._running: _Turn | None = None
        # The facts of one group must fit the log, and those of one event come on top.
        self._group_bytes = store.group_bytes_max // GROUP_SHARE
        self._postponed = Postponed()
        self._pass_ends: asyncio.Handle | None = None
        # Something was decided since the last pass; while a connection is read nobody looks yet.
        self._pass_is_open = self._more_comes = False
        self._overfull = False
        self._failed = False
        self._checkpointing = False
        self._flushing = Flushing(store, backlog, self._keeper, time=loop.time, failed=self.fail)
        self._quiet: asyncio.TimerHandle | None = None
        self._notice_log = NoticeLog(loop, clock)
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._not_before = 0.0

    @property
    def overfull(self) -> bool:
        """Whether so much waits for the disk that nothing more should be read."""
        return self._overfull

    def deliver(self, event: Event) -> None:
        """Let the manager decide about an event: now, or when the log has room for its facts."""
        if self._failed:
            return
        if self._postponed or self._log_is_full:
            self._postponed.add(event)
            self._end_pass_soon()
            return
        self._decide(event)

    @property
    def _log_is_full(self) -> bool:
        """Whether no more facts should be stated: those that wait would be written otherwise."""
        return self._store.waiting_bytes > self._group_bytes

    def _decide(self, event: Event) -> None:
        if isinstance(event, Request | LinkFrame):
            self._gathered_bytes += len(event.frame.body)
            self._flushing.came(len(event.frame.body))
        elif isinstance(event, LinkDown):
            event = event._replace(jitter=draw_jitter())
        elif isinstance(event, SessionClosed):
            self._gathering.left(event.session)
        try:
            effects = self._manager.handle(event, self._clock.now())
        except StorePoisoned as error:
            if isinstance(event, Request):
                self._gathered.append(Answer(event.session, event.frame.request_id, failure(error)))
            self.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            effects = self._mishap(event, error)
        self._follow(effects)
        if self._log_is_full:
            self._begin()
            self._weigh()

    def follow(self, *effects: Effect) -> None:
        """Have these done after everything that came before."""
        if self._postponed:
            self._postponed.add(Follow(effects))
        else:
            self._follow(effects)

    def _follow(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._gather(effect)
        self._end_pass_soon()

    def _end_pass_soon(self) -> None:
        self._pass_is_open = True
        if self._pass_ends is None and not self._more_comes:
            self._pass_ends = self._loop.call_soon(self._end_pass)

    def _take_up(self) -> None:
        """Decide about what came while the log was full."""
        while self._postponed and not (self._failed or self._log_is_full):
            item = self._postponed.take()
            if isinstance(item, Follow):
                self._follow(item.effects)
            else:
                self._decide(item)
        self._weigh()

    def more_comes(self) -> None:
        """A connection is read: the pass does not end before `nothing_more`."""
        self._more_comes = True

    def nothing_more(self) -> None:
        """All that came on a connection was delivered: a lone session's pass ends here and now."""
        self._more_comes = False
        if not self._pass_is_open:
            return
        if not self._gathering.is_lone(self._loop.time()):
            self._end_pass_soon()
            return
        if self._pass_ends is not None:
            self._pass_ends.cancel()
        self._end_pass()

    def tick(self) -> None:
        """Let the manager look at the time."""
        self._timer = self._timer_at = None
        self.deliver(Tick())

    def _gather(self, effect: Effect) -> None:
        if isinstance(effect, Answer | LinkSend) and effect.body:
            effect = effect._replace(body=merged(effect.body))
            pin_all(self._store, effect.body)
        if isinstance(effect, Answer) and not effect.held:
            self._at_once.append(effect)
            return
        self._gathered.append(effect)
        if isinstance(effect, Answer):
            self._gathering.joined(effect.session, self._loop.time())

    def _end_pass(self) -> None:
        self._pass_ends = None
        self._pass_is_open = False
        if self._failed:
            return
        if self._at_once:
            at_once, self._at_once = self._at_once, []
            self._performer.perform(at_once)
        if self._running is None and not self._more_will_come():
            self._begin()
        self._flushing.go_on()
        self._weigh()
        self._set_timer()
        self._notice_log.write(self._manager.notices())

    # ------------------------------------------------------------------------ sync and release

    def _more_will_come(self) -> bool:
        """Whether the sync had better wait a moment for others; then a timer begins it."""
        if not self._store.waiting_bytes:
            return False
        wait_s = self._gathering.wait_s(self._loop.time())
        if wait_s and self._waits is None:
            self._waits = self._loop.call_later(wait_s, self._waited)
        return wait_s > 0

    def _waited(self) -> None:
        self._waits = None
        if not self._failed and self._running is None:
            self._begin()
            self._weigh()

    def _begin(self) -> None:
        """Begin the sync of what has gathered; release it at once if nothing has to be synced."""
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None
        if self._store.checkpoint_due:
            self._begin_checkpoint()
        try:
            sync = self._store.begin_sync()
        except StoreFull:
            # The log has room again when the checkpoint has ended; `_checkpointed` goes on here.
            return
        except StorePoisoned as error:
            self.fail(error)
            return
        if self._postponed:
            self._loop.call_soon(self._take_up)
        effects, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if sync is None:
            self._gathering.dismissed(self._loop.time())
            self._performer.perform(effects)
        else:
            self._gathering.began(self._loop.time())
            self._lined_up.append(_Turn(sync, effects))
            self._start()

    def _start(self) -> None:
        """Run the next sync that is lined up, if none is under way."""
        if self._running is not None or not self._lined_up:
            return
        self._running = self._lined_up.popleft()
        self._began_at = self._loop.time()
        if self._is_over_soon(self._running):
            self._sync_here(self._running)
            return
        # One half alone is run by both workers: see the busy machine in docs/decisions/0012.
        halves = islice(cycle(self._running.sync.halves()), len(self._syncers))
        self._halves_left = len(self._syncers)
        for worker, half in zip(self._syncers, halves, strict=True):
            worker.submit(half, self._synced)

    def _is_over_soon(self, turn: _Turn) -> bool:
        """Whether one answer is all that waits, for a sync not worth handing over."""
        lone = len(turn.effects) == 1 and isinstance(turn.effects[0], Answer)
        return lone and not self._stopping and self._pace.is_quick(turn.sync.heap_bytes)

    def _sync_here(self, turn: _Turn) -> None:
        try:
            turn.sync.run()
        except StorePoisoned as error:
            self.fail(error)
            return
        self._release(turn)

    def _synced(self, error: BaseException | None) -> None:
        if error is not None:
            self.fail(error)
        if self._failed:
            return
        self._halves_left -= 1
        if self._halves_left:
            return
        assert self._running is not None, "only one sync is under way"
        self._running.sync.done = True
        self._release(self._running)

    def _release(self, turn: _Turn) -> None:
        """The sync of a turn has ended: do what waited for it, and go on."""
        self._pace.took(self._loop.time() - self._began_at, turn.sync.heap_bytes)
        try:
            self._store.end_sync(turn.sync)
        except StorePoisoned as error:
            self.fail(error)
            return
        self._running = None
        self._backlog.shrank()
        self._performer.perform(turn.effects)
        if self._lined_up:
            self._start()
        elif self._gathered and not self._more_will_come():
            self._begin()
        elif not self._gathered:
            self._rest()
        self._weigh()

    def _weigh(self) -> None:
        """Stop reading when too much waits for the disk, go on when it does no longer."""
        was = self._overfull
        self._overfull = (
            len(self._gathered) > GATHERED_EFFECTS_MAX
            or self._gathered_bytes > GATHERED_BYTES_MAX
            or self._log_is_full
            or bool(self._lined_up or self._postponed)
        )
        if was != self._overfull:
            self._performer.reconsider()

    def _begin_checkpoint(self) -> None:
        if self._checkpointing:
            return
        try:
            checkpoint = self._store.begin_checkpoint(self._manager.snapshot())
        except StorePoisoned as error:
            self.fail(error)
            return
        if checkpoint is not None:
            self._checkpointing = True
            self._keeper.submit(checkpoint.run, partial(self._checkpointed, checkpoint))

    def _checkpointed(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        if error is not None:
            self.fail(error)
        if self._failed:
            return
        try:
            self._store.end_checkpoint(checkpoint)
        except StorePoisoned as failed:
            self.fail(failed)
            return
        if checkpoint.refused is None:
            self._checkpointing = False
            self._after_checkpoint()
        else:
            _log.error("there is no room for a checkpoint: %s", checkpoint.refused)
            self._loop.call_later(CHECKPOINT_RETRY_S, self._retry_checkpoint)

    def _retry_checkpoint(self) -> None:
        self._checkpointing = False
        self._after_checkpoint()

    def _after_checkpoint(self) -> None:
        if not (self._failed or self._stopping or self._running):
            self._begin()
            self._weigh()

    def _rest(self) -> None:
        """Everything is said and done: seal the log if it stays quiet."""
        if self._quiet is None:
            self._quiet = self._loop.call_later(QUIET_S, self._seal)

    def _seal(self) -> None:
        self._quiet = None
        if not (self._running or self._gathered or self._failed or self._stopping):
            try:
                self._store.seal()
            except StorePoisoned as error:
                self.fail(error)

    # ---------------------------------------------------------------------------------- ending

    def fail(self, error: BaseException) -> None:
        """Nothing more can be promised: tell everyone who waits, release nothing, once."""
        if self._failed:
            return
        self._failed = True
        self._flushing.give_up()
        self._backlog.lift()
        reason = error if isinstance(error, DrayError) else INTERNAL
        told, self._at_once = self._at_once, []
        turns = [self._running] if self._running else []
        waiting = [effect for turn in (*turns, *self._lined_up) for effect in turn.effects]
        for effect in (*waiting, *self._gathered):
            if isinstance(effect, Answer | LinkSend):
                unpin_all(self._store, effect.body)
            if isinstance(effect, Answer) and effect.request_id:
                told.append(Answer(effect.session, effect.request_id, failure(reason)))
        for session, frame in self._postponed.give_up():
            told.append(Answer(session, frame.request_id, failure(reason)))
        self._running, self._gathered = None, []
        self._lined_up.clear()
        self._performer.perform(told)
        self._performer.failed(reason)

    async def drain(self) -> None:
        """Sync and release everything that was decided."""
        while not self._failed and (
            self._pass_is_open or self._running or self._gathered or self._postponed
        ):
            for worker in (*self._syncers, self._keeper):
                await worker.idle()

    async def stop(self) -> None:
        """End the threads and close the store, with a last checkpoint. Raises `StoreError`."""
        self._stopping = True
        for timer in (self._timer, self._quiet, self._waits):
            if timer is not None:
                timer.cancel()
        self._notice_log.write(self._manager.notices())
        self._notice_log.stop()
        for worker in (*self._syncers, self._keeper):
            await worker.idle()
            worker.stop()
        self._store.close(None if self._failed else self._manager.snapshot())

    # ------------------------------------------------------------------------------------ time

    def _set_timer(self) -> None:
        """Wake up at the manager's deadline."""
        at = self._manager.deadline()
        if at is None or at == self._timer_at or self._stopping:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = min(max(at - self._clock.now(), TICK_S_MIN), TICK_S_MAX)
        delay = max(delay, self._not_before - self._loop.time())
        self._timer_at = at
        self._timer = self._loop.call_later(delay, self.tick)

    def _mishap(self, event: Event, error: Exception) -> list[Effect]:
        """React to an error of the manager: answer every caller, log the error."""
        known = isinstance(error, DrayError)
        if known:
            _log.error("%s could not be handled: %s", type(event).__name__, error)
        else:
            _log.error("%s could not be handled", type(event).__name__, exc_info=error)
        match event:
            case Request(session, frame):
                told = failure(error if isinstance(error, DrayError) else INTERNAL)
                answer = Answer(session, frame.request_id, told)
                return [answer] if known else [answer, CloseSession(session)]
            case LinkFrame(peer, _):
                self._loop.call_soon(self.deliver, LinkDown(peer, "a frame could not be handled"))
                return [HangUp(peer)]
            case Tick():
                self._not_before = self._loop.time() + TICK_S_AFTER_FAILURE
        return []
