"""Syncs: facts are written as one group, synced, and then their effects are released.

At most one sync is under way. A group that is written meanwhile stands in line. `pace.py` says
whether to wait for other sessions first, and whether the loop runs the sync itself.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from typing import Any, Final, NamedTuple

from dray.daemon.limits import QUIET_S
from dray.daemon.pacing.backlog import DiskBacklog
from dray.daemon.pacing.checkpoints import Checkpoints
from dray.daemon.pacing.pace import Gathering, SyncPace
from dray.daemon.pacing.passes import GivenUp
from dray.daemon.pacing.worker import SideBySide, Worker
from dray.daemon.roles import Performing
from dray.errors import StoreFull, StorePoisoned
from dray.machine import Machine, always, but, nothing, on
from dray.manager.events import Answer, Effect
from dray.store.store import Store
from dray.store.syncing import Sync


class PassEnded(NamedTuple):
    """The events of a pass are decided."""


class LogFilled(NamedTuple):
    """The facts that wait would outgrow a group."""


class RoomMade(NamedTuple):
    """A checkpoint has ended: the log may have room again."""


class WaitEnded(NamedTuple):
    """Other sessions have had their time to commit."""


class GroupWritten(NamedTuple):
    """A group of facts stands in line for its sync."""


class Synced(NamedTuple):
    """The sync under way has ended."""


class Released(NamedTuple):
    """The effects of a turn are done."""


class QuietCame(NamedTuple):
    """Nothing had to be synced for a while."""


class SyncState(enum.Enum):
    """Syncs, one after another."""

    IDLE = "none is under way"
    WAITING = "one waits for other sessions to commit"
    SYNCING = "one is under way"
    OVER = "there is no other"


PASS_ENDED, LOG_FILLED, ROOM_MADE = PassEnded(), LogFilled(), RoomMade()
_WAIT_ENDED, _WRITTEN, _SYNCED = WaitEnded(), GroupWritten(), Synced()
_RELEASED, _QUIET = Released(), QuietCame()


class _Turn(NamedTuple):
    """A group of facts that was written, its sync, and the effects that rest on it."""

    sync: Sync
    effects: list[Effect]
    is_lone: bool
    """Whether one answer is all that waits."""


_turn_of: Callable[[tuple[Sync, list[Effect], bool]], _Turn] = partial(tuple.__new__, _Turn)


class Syncs(Machine[SyncState, Any, Any]):
    """Writes groups, syncs them and releases effects, by the table at the end of this module."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        *,
        backlog: DiskBacklog,
        checkpoints: Checkpoints,
        performer: Performing,
        written: Callable[[], None],
        stepped: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Begin with nothing gathered; two threads are started here.

        `written` is called when a group was written, `stepped` after each step that came from a
        worker or a timer.
        """
        super().__init__(SyncState.IDLE)
        self._loop = loop
        self._store = store
        self._backlog = backlog
        self._checkpoints = checkpoints
        self._performer = performer
        self._written = written
        self._stepped = stepped
        self._failed = failed
        self.workers = (Worker(loop, "dray-sync-1"), Worker(loop, "dray-sync-2"))
        self.gathering = Gathering()
        self.gathered: list[Effect] = []
        """Effects that wait for the next group."""
        self.gathered_bytes = 0
        self.line: deque[_Turn] = deque()
        """Groups that wait for the sync under way."""
        self._running: _Turn | None = None
        self._began_at = 0.0
        self._pace = SyncPace()
        self._loop_may_sync = True
        self.caller_syncs = False
        """Whether a caller of this program has the turn and runs the next sync itself."""
        self.offered: Sync | None = None
        """A sync for a caller to run, before or instead of the workers."""
        self._is_lent = False
        self._come_back: asyncio.Future[None] | None = None
        self._wait: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None

    @property
    def are_done(self) -> bool:
        """Whether no effect waits for a sync, and none is under way."""
        return self._running is None and not self.gathered

    def stop(self) -> None:
        """Set no timer off any more, and leave what still comes to the workers."""
        self._loop_may_sync = False
        for timer in (self._wait, self._quiet):
            if timer is not None:
                timer.cancel()

    def give_up(self) -> list[Effect]:
        """Begin no other sync; the effects that will never be released, in order."""
        self.handle(GivenUp(), 0.0)
        turns = [self._running] if self._running else []
        waiting = [effect for turn in (*turns, *self.line) for effect in turn.effects]
        waiting += self.gathered
        self._running, self.gathered, self.offered = None, [], None
        self.line.clear()
        return waiting

    # ------------------------------------------------------------------------------ conditions

    def is_worth_waiting(self, _event: object, now: float) -> bool:
        """Many sessions that committed lately are on their way."""
        return bool(self._store.waiting_bytes) and self.gathering.wait_s(now) > 0

    def has_one_in_line(self, _event: object, _now: float) -> bool:
        """A group was written during the last sync."""
        return bool(self.line)

    def has_nothing_gathered(self, _event: object, _now: float) -> bool:
        """No effect waits for the next group."""
        return not self.gathered

    # --------------------------------------------------------------------------------- actions

    def wait(self, _event: object, now: float) -> list[Any]:
        """Give other sessions time to commit; then WaitEnded."""
        self._wait = self._loop.call_later(self.gathering.wait_s(now), self._step, _WAIT_ENDED)
        return []

    def write(self, _event: object, now: float) -> list[Any]:
        """Write the facts as a group, then GroupWritten; without facts, release the effects."""
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
        if self._store.checkpoint_due:
            self._checkpoints.due()
        lone = len(self.gathered) == 1 and isinstance(self.gathered[0], Answer)
        try:
            sync = self._store.begin_sync(lone=lone)
        except StoreFull:
            # The checkpoint that is under way makes room; RoomMade comes here again.
            return []
        except StorePoisoned as error:
            self._failed(error)
            return []
        self._written()
        effects, self.gathered, self.gathered_bytes = self.gathered, [], 0
        if sync is None:
            self.gathering.dismissed(now)
            self._performer.perform(effects)
            return []
        self.gathering.began(now)
        self.line.append(_turn_of((sync, effects, lone)))
        return self.handle(_WRITTEN, now)

    def start(self, _event: object, now: float) -> list[Any]:
        """Run the first sync in line, here or in the workers; then Synced."""
        turn = self._running = self.line.popleft()
        self._began_at = now
        if self.caller_syncs:
            self.offered = turn.sync
            return []
        # One answer is all that waits, for a sync not worth handing over.
        may_sync = turn.is_lone and self._loop_may_sync
        if may_sync and self._pace.is_quick(turn.sync.heap_bytes):
            try:
                turn.sync.run()
            except StorePoisoned as error:
                self._failed(error)
                return []
            return self.handle(_SYNCED, self._loop.time())
        self._submit(turn.sync)
        return []

    def release(self, _event: object, now: float) -> list[Any]:
        """Do the effects that waited for the sync; then Released."""
        turn = self._running
        assert turn is not None, "a sync was under way"
        self._pace.took(now - self._began_at, turn.sync.heap_bytes)
        try:
            self._store.end_sync(turn.sync)
        except StorePoisoned as error:
            self._failed(error)
            return []
        self._running = None
        if self._backlog.waiting or self._backlog.waiting_for_files:
            self._backlog.shrank()
        self._performer.perform(turn.effects)
        return self.handle(_RELEASED, now)

    def rest(self, _event: object, _now: float) -> list[Any]:
        """Look again in a while; then QuietCame."""
        if self._quiet is None:
            self._quiet = self._loop.call_later(QUIET_S, self._quiet_came)
        return []

    def seal(self, _event: object, _now: float) -> list[Any]:
        """Mark the log as written at rest."""
        try:
            self._store.seal()
        except StorePoisoned as error:
            self._failed(error)
        return []

    # ---------------------------------------------------- for callers that run syncs themselves

    def take_offered(self) -> Callable[[], None]:
        """Take over the sync that is offered, to run it without the turn; `ran` follows.

        On a disk that is not quick a worker runs one half of it at the same time. If only the log
        has to be synced, both sync it, unless the disk is slow.
        """
        sync, self.offered = self.offered, None
        assert sync is not None, "a sync is offered"
        self._is_lent = True
        if self._pace.is_quick(sync.heap_bytes):
            return sync.run
        return partial(_run_side_by_side, sync, self._halves(sync), self.workers[0])

    def ran(self, error: BaseException | None) -> None:
        """A caller has run the sync that it took, and has the turn again."""
        self._is_lent = False
        if self._come_back is not None:
            self._come_back.set_result(None)
            self._come_back = None
        if error is not None:
            self._failed(error)
        elif self._running is not None:
            self._step(_SYNCED)

    def leave_to_workers(self) -> None:
        """No caller runs the sync that is offered."""
        sync, self.offered = self.offered, None
        if sync is not None:
            self._submit(sync)

    async def come_back(self) -> None:
        """Wait until no caller runs a sync."""
        if self._is_lent:
            self._come_back = self._come_back or self._loop.create_future()
            await self._come_back

    # ----------------------------------------------------------------- from workers and timers

    def _submit(self, sync: Sync) -> None:
        halves = self._halves(sync)
        beside = SideBySide(len(halves))
        for worker, half in zip(self.workers, halves, strict=False):
            worker.submit(half, self._synced_by_workers, beside)

    def _halves(self, sync: Sync) -> list[Callable[[], None]]:
        halves = sync.halves()
        if self._pace.is_slow:
            return halves
        # One half alone is run by two threads: see the busy machine in docs/decisions/0012.
        return list(islice(cycle(halves), len(self.workers)))

    def _synced_by_workers(self, error: BaseException | None) -> None:
        if error is not None:
            self._failed(error)
        elif self._running is not None:
            self._running.sync.done = True
            self._step(_SYNCED)

    def _quiet_came(self) -> None:
        self._quiet = None
        self._step(_QUIET)

    def _step(self, event: object) -> None:
        self.handle(event, self._loop.time())
        self._stepped()


def _run_side_by_side(sync: Sync, halves: list[Callable[[], None]], worker: Worker) -> None:
    first, *others = halves
    ends = [worker.beside(each) for each in others]
    try:
        first()
    finally:
        for end in ends:
            end()
    sync.done = True


_IDLE, _WAITING, _SYNCING = SyncState.IDLE, SyncState.WAITING, SyncState.SYNCING
_EVERY = but(tuple(SyncState), SyncState.OVER)
SYNC: Final = (
    on(_IDLE, PassEnded, Syncs.is_worth_waiting, Syncs.wait, _WAITING),
    on(_WAITING, PassEnded, Syncs.is_worth_waiting, nothing),
    on((_IDLE, _WAITING), PassEnded, always, Syncs.write, _IDLE),
    on(_SYNCING, PassEnded, always, nothing),
    on((_IDLE, _WAITING), LogFilled, always, Syncs.write, _IDLE),
    on(_SYNCING, LogFilled, always, Syncs.write),
    on((_IDLE, _WAITING), RoomMade, always, Syncs.write, _IDLE),
    on(_SYNCING, RoomMade, always, nothing),
    on(_WAITING, WaitEnded, always, Syncs.write, _IDLE),
    on((_IDLE, _SYNCING), WaitEnded, always, nothing),
    on((_IDLE, _WAITING), GroupWritten, always, Syncs.start, _SYNCING),
    on(_SYNCING, GroupWritten, always, nothing),
    on(_SYNCING, Synced, always, Syncs.release, _IDLE),
    on((_IDLE, _WAITING), Synced, always, nothing),
    on(_IDLE, Released, Syncs.has_one_in_line, Syncs.start, _SYNCING),
    on(_IDLE, Released, Syncs.has_nothing_gathered, Syncs.rest),
    on(_IDLE, Released, Syncs.is_worth_waiting, Syncs.wait, _WAITING),
    on(_IDLE, Released, always, Syncs.write),
    on((_WAITING, _SYNCING), Released, always, nothing),
    on(_IDLE, QuietCame, Syncs.has_nothing_gathered, Syncs.seal),
    on(_EVERY, QuietCame, always, nothing),
    on(_EVERY, GivenUp, always, nothing, SyncState.OVER),
)
Syncs.run(SYNC)
