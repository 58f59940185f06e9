"""Calls of this program's threads into the queue manager: decide, sync, return.

A caller takes the turn, has its frame decided, and begins the sync of what is to be written. It
gives the turn back while it runs the sync, so that others decide meanwhile: what they wrote waits
together for the next sync, which one of them runs. So one thread alone waits for nothing but the
disk, and many threads share their syncs.

    caller's frame is decided, no sync is under way    it runs the sync, then has its answer
    a sync is under way                                it stands in line
    that sync has ended                                the first in line runs the next one
    nobody stands in line                              the workers run it
    the answer needs no sync, or comes much later      it has it at once, or stands in line

The program's signal handlers wait while a caller has the turn or runs a sync (`held_signals.py`);
they run at once while it stands in line. An exception that comes through all the same, such as one
that a debugger throws into a thread, ends the queue manager as a failed sync does: what was
answered is safe, and what was half decided is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dray.daemon.direct.held_signals import HeldSignals
from dray.daemon.direct.lent_loop import LentLoop
from dray.daemon.direct.session import DirectSession
from dray.daemon.turns import Turns
from dray.errors import Misuse
from dray.wire.stream import Frame


class LineSignal(Protocol):
    """Wakes a thread that stands in line."""

    def set(self) -> None:
        """Wake it."""
        ...


class CalledRequest(Protocol):
    """A request that waits for its answer."""

    signal: LineSignal | None

    @property
    def settled(self) -> bool:
        """Whether its answer, or an error, is there."""
        ...


class CallDoor:
    """Lets callers in, one at a time; one for each queue manager of this program."""

    def __init__(self, loop: LentLoop, turns: Turns) -> None:
        """Decide in the turn of `loop`, as its own thread does."""
        self._loop = loop
        self._turn = loop.turn
        self._turns = turns
        self._syncs = turns.syncs
        self._signals = HeldSignals()
        self._line: dict[CalledRequest, LineSignal] = {}

    def enter(self) -> None:
        """Take the turn. `leave` follows, whatever happens."""
        if self._turn.is_mine:
            raise Misuse(
                "this call came out of the queue manager itself, from a finalizer or a log handler"
                " that ran while it decided; make the call in another thread"
            )
        self._signals.hold()
        try:
            self._turn.acquire()
        except BaseException:
            self._signals.let_go()
            raise
        self._turns.called = True

    def leave(self) -> None:
        """Give the turn back; raises what the program's signal handlers raise."""
        self._turns.called = False
        self._loop.give_back()
        self._signals.let_go()

    @property
    def is_inside(self) -> bool:
        """Whether the calling thread has the turn."""
        return self._turn.is_mine

    def decide(
        self, session: DirectSession, frame: Frame, *, file: int | None, until: CalledRequest | None
    ) -> None:
        """Pass a frame on, and run the sync that its answer waits for."""
        self._syncs.caller_syncs = until is not None
        session.came(frame, file)
        self._syncs.caller_syncs = False
        if until is not None:
            self.run_syncs(until)

    def broken_off(self, error: BaseException) -> None:
        """A decision was left in the middle."""
        self._syncs.caller_syncs = False
        self._turns.broken_off(error)

    def run_syncs(self, until: CalledRequest) -> None:
        """Run what is offered until the request is answered; leave the rest to another one."""
        syncs = self._syncs
        while syncs.offered is not None and not until.settled:
            self._run(syncs.take_offered())
        if syncs.offered is not None:
            self._hand_on()

    def _run(self, sync: Callable[[], None]) -> None:
        error: BaseException | None = None
        self._turns.called = False
        self._loop.give_back()
        try:
            sync()
        except BaseException as raised:  # noqa: BLE001 - told to the turns, which act on it
            error = raised
        self._turn.acquire()
        self._turns.called = True
        self._syncs.caller_syncs = True
        self._syncs.ran(error)
        self._syncs.caller_syncs = False

    def _hand_on(self) -> None:
        for pending, signal in self._line.items():
            if not pending.settled:
                signal.set()
                return
        self._syncs.leave_to_workers()

    def stand_in_line(self, pending: CalledRequest, signal: LineSignal) -> bool:
        """Wait to be told of the answer, or to run a sync; true once the answer is there."""
        # Before the look: it may be settled by a thread that has not the turn.
        pending.signal = signal
        self._line[pending] = signal
        self.run_syncs(pending)
        if pending.settled:
            self._line.pop(pending, None)
        return pending.settled

    def step_out(self, pending: CalledRequest) -> None:
        """Stand in line no longer, and leave to others what was offered."""
        self._line.pop(pending, None)
        if self._syncs.offered is not None:
            self._hand_on()


class DirectCalls:
    """The program's end of a session."""

    def __init__(self, door: CallDoor, session: DirectSession) -> None:
        """Take a session that was opened by the door."""
        self._door = door
        self._session = session

    @classmethod
    def opened(cls, door: CallDoor, make: Callable[[], DirectSession | None]) -> DirectCalls | None:
        """Open a session in the turn; None if `make` gives none."""
        session: DirectSession | None = None
        try:
            door.enter()
            try:
                session = make()
            finally:
                door.leave()
        except BaseException:
            # An interrupt was held back until now; nobody has the session.
            if session is not None:
                cls(door, session).end()
            raise
        return None if session is None else cls(door, session)

    def say(
        self, frame: Frame, file: int | None = None, until: CalledRequest | None = None
    ) -> None:
        """Have a frame decided; with `until`, sync for its answer.

        The frame's body is the caller's again on return. Waits while there is no room for it.
        """
        while not self._said(frame, file, until):
            self._session.room.wait()

    def wait(self, pending: CalledRequest, signal: LineSignal) -> bool:
        """Stand in line for an answer; true once it is there, else `signal` says when to ask."""
        self._door.enter()
        try:
            return self._door.stand_in_line(pending, signal)
        finally:
            self._door.leave()

    def give_up(self, pending: CalledRequest) -> None:
        """Nobody waits for an answer any more."""
        self._door.enter()
        try:
            self._door.step_out(pending)
        finally:
            self._door.leave()

    def end(self) -> None:
        """End the session; harmless when repeated."""
        if self._session.ended:
            return
        self._in_turn(lambda: self._session.abort("the other end hung up"))

    def _in_turn(self, act: Callable[[], None]) -> None:
        if self._door.is_inside:
            act()
            return
        self._door.enter()
        try:
            act()
        finally:
            self._door.leave()

    def _said(self, frame: Frame, file: int | None, until: CalledRequest | None) -> bool:
        door, session = self._door, self._session
        door.enter()
        try:
            if session.ended:
                return True
            if session.must_wait(frame):
                return False
            door.decide(session, frame, file=file, until=until)
        except BaseException as error:
            door.broken_off(error)
            raise
        finally:
            door.leave()
        return True
