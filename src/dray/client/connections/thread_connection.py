"""A connection shared by any number of threads, without a thread of its own.

Theory of operation: whoever waits for an answer while nobody reads becomes the reader. It hands
each frame to the one who waits for it, and when its own answer has come it wakes one of the
others, who reads on. A thread that waits for ever in `receive` therefore reads for all, and never
stops another from sending. Waiting happens in `poll`, where an interrupt loses nothing; once a
request was given up (interrupted, or silence past its time), the connection is given up too,
because an answer that nobody takes could be a message, and so lost.

A signal handler or a finalizer interrupts its thread anywhere. It may close the connection. A call
of it is refused while its thread sends or waits: it would wait for itself.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress

from dray.client.connections.connection import BUFFERS_PER_CALL_MAX, SocketConnection, send_some
from dray.client.connections.session import Pending
from dray.errors import DrayError, Misuse
from dray.forks import Process
from dray.model.message import Buffer
from dray.wire.stream import Frame

_POLL_S_MAX = 86_400.0
"""`poll` counts milliseconds in 31 bits; longer waits are cut into days."""
_NOBODY = 0
"""No thread has this identifier."""


class WakeUp:
    """A signal of threads. It is one lock; an interrupt can leave an `Event` half set."""

    def __init__(self) -> None:
        """Begin unset."""
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """See `Signal`."""
        # Raised if it is set already.
        with suppress(RuntimeError):
            self._unset.release()

    def wait(self, wait_s: float | None) -> bool:
        """Wait until it is set, and unset it; false when the time is over."""
        return self._unset.acquire(timeout=-1 if wait_s is None else wait_s)


class ThreadConnection(SocketConnection):
    """Blocks the thread that waits. Its coroutines never suspend."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        """Own a connected, blocking socket; `peer` names the other end in sentences."""
        super().__init__(sock, peer, threading.RLock())
        self._sending = threading.RLock()
        self._sender = self._reader = _NOBODY
        self._parked: dict[Pending, WakeUp] = {}
        self._parked_threads: set[int] = set()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    async def wait(self, pending: Pending, wait_s: float | None = None) -> Frame:
        """Wait for an answer, reading for all if nobody else does."""
        deadline = None if wait_s is None else time.monotonic() + wait_s
        try:
            while not pending.settled:
                if self._lead_or_park(pending):
                    self._lead(pending, deadline)
                elif not self._parked_until(pending, deadline):
                    raise self._silent()
        except BaseException as error:
            self.fail(error if isinstance(error, DrayError) else self._given_up())
            raise
        frame = pending.frame
        return pending.outcome() if frame is None else frame

    def glance(self) -> None:
        """Take in what has already come, unless somebody reads anyway."""
        me = threading.get_ident()
        try:
            with self._lock:
                if self._reader or self.lost is not None:
                    return
                self._reader = me
            if self._poll.poll(0):
                self._read_on()
            self._pass_on()
        except BaseException:
            if self._reader == me:
                # The bytes that were read may be lost, so the stream cannot be trusted.
                self.fail(self._given_up())
                self._pass_on()
            raise

    def _read_on(self) -> None:
        while self.alive and self._poll.poll(0):
            self._read()

    def close(self) -> None:
        """End the connection and let go of the socket; a thread still reading closes it."""
        self.fail(self._closed_here())
        with self._sending, self._lock:
            if not self._reader:
                self._sock.close()

    def after_fork(self, parent: Process) -> None:
        """See `Connection`; a thread of the parent may have held the locks."""
        self._lock, self._sending = threading.RLock(), threading.RLock()
        self._sender = self._reader = _NOBODY
        self._parked.clear()
        self._parked_threads.clear()
        super().after_fork(parent)

    def check_caller(self) -> None:
        """See `Connection`."""
        me = threading.get_ident()
        busy = me in (self._sender, self._reader) or me in self._parked_threads
        if busy and self.lost is None:
            raise Misuse(
                f"a signal handler or a finalizer interrupted a call to {self.peer} with another"
                " one; use a manager of its own there, or make the call in another thread"
            )

    async def _transmit(self, buffers: list[Buffer], file: int | None = None) -> None:
        me = threading.get_ident()
        # The check of `check_caller`, without a call for each frame.
        if me in (self._sender, self._reader) or me in self._parked_threads:
            self.check_caller()
        with self._sending:
            if self.lost is not None:
                self._check()
            try:
                self._sender = me
                for first in range(0, len(buffers), BUFFERS_PER_CALL_MAX):
                    for rest in send_some(
                        self._sock, buffers[first : first + BUFFERS_PER_CALL_MAX], file
                    ):
                        self._sock.sendall(rest)
                    file = None
                return
            except OSError as error:
                lost = self._broken(error)
            except BaseException:
                # A frame may be half sent, so no other can follow it.
                self.fail(self._given_up())
                raise
            finally:
                self._sender = _NOBODY
        # The manager may have said why before it closed.
        self.glance()
        self.fail(lost)
        self._check()

    def _lead_or_park(self, pending: Pending) -> bool:
        """Whether this thread is to read now; else it has a signal to wait for."""
        with self._lock:
            if self._reader and not pending.settled:
                self._parked_threads.add(threading.get_ident())
                pending.signal = self._parked[pending] = WakeUp()
                return False
            pending.signal = None
            if pending.settled:
                return False
            self._reader = threading.get_ident()
            return True

    def _parked_until(self, pending: Pending, deadline: float | None) -> bool:
        """Wait to be told of the answer, or to read on; false when the time is over."""
        signal = self._parked.get(pending)
        if signal is None:
            return True
        try:
            return signal.wait(_remaining(deadline))
        finally:
            with self._lock:
                # A request that stays here keeps its answer in memory.
                self._parked.pop(pending, None)
                self._parked_threads.discard(threading.get_ident())

    def _lead(self, pending: Pending, deadline: float | None) -> None:
        try:
            while not pending.settled:
                remaining = None if deadline is None else _remaining(deadline)
                if remaining is None or remaining > _POLL_S_MAX:
                    remaining = _POLL_S_MAX
                elif not remaining:
                    raise self._silent()
                if self._poll.poll(remaining * 1000):
                    self._read()
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Stop reading; wake one who waits, to read on."""
        with self._lock:
            self._reader = _NOBODY
            for pending, signal in self._parked.items():
                if not pending.settled:
                    signal.set()
                    break
        if self.lost is not None:
            self.close()


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
