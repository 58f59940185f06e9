"""A connection of one asyncio event loop, shared by any number of its tasks.

The loop reads straight into the memory in which a body stays, as the threads do; what the kernel
does not take of a frame at once waits for the socket, and its sender with it, so that nothing is
copied and nothing piles up. A task that gives up waiting leaves its request behind, and the answer
is dropped when it comes.

Small frames that tasks send in one round of the loop go out together, in one call to the kernel at
the end of the round, so that the queue manager finds them together, too. A task that sends alone
does not wait for the end of the round. If the call fails, all that wait for an answer are told.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext

from dray.client.connections.connection import BUFFERS_PER_CALL_MAX, SocketConnection, send_some
from dray.client.connections.session import Pending
from dray.errors import Misuse
from dray.forks import Process
from dray.model.limits import KIB
from dray.model.message import Buffer
from dray.wire.stream import Frame

SMALL_BYTES_MAX = 16 * KIB
"""Longer frames go from the memory in which they are: a copy of them costs more than a call."""
GATHERED_BYTES_MAX = 256 * KIB
"""So much of small frames waits for the end of a round; a task with more waits for the socket."""


class LoopConnection(SocketConnection):
    """Suspends the task that waits."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        """Own a connected socket and watch it in the running loop."""
        super().__init__(sock, peer, nullcontext())
        sock.setblocking(False)
        self._sending = asyncio.Lock()
        self._gathered = bytearray()
        """Small frames, which go ahead of all that is sent after them."""
        self._sent_in_round = 0
        self._crowded = self._writing = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._readable)

    async def wait(self, pending: Pending, wait_s: float | None = None) -> Frame:
        """Wait for an answer while the loop reads."""
        if not pending.settled:
            arrived = asyncio.Event()
            pending.signal = arrived
            # No `asyncio.timeout`: it cancels the task, and some tasks cannot be cancelled.
            alarm = None if wait_s is None else self._loop.call_later(wait_s, arrived.set)
            try:
                await arrived.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()
            if not pending.settled:
                self.fail(self._silent())
                self._let_go()
                raise self._silent()
        return pending.outcome()

    def glance(self) -> None:
        """Take in what has already come."""
        self.check_caller()
        while self.alive and self._read():
            continue
        if not self.alive:
            self._let_go()

    def close(self) -> None:
        """End the connection and let go of the socket."""
        self._send_gathered()
        self.fail(self._closed_here())
        self._let_go()

    def after_fork(self, parent: Process) -> None:
        """See `Connection`; the parent's loop is left alone, as both would wait in one `epoll`."""
        self._sending = asyncio.Lock()
        super().after_fork(parent)

    def check_caller(self) -> None:
        """See `Connection`: a task of another loop can neither wait here nor wake anybody."""
        if self.lost is None and asyncio.get_running_loop() is not self._loop:
            raise Misuse(
                f"the connection to {self.peer} belongs to another event loop; use dray.aio.connect"
                " or dray.aio.open in the loop that calls"
            )

    async def _transmit(self, buffers: list[Buffer], file: int | None = None) -> None:
        self.check_caller()
        size = sum(map(len, buffers))
        small = file is None and size <= SMALL_BYTES_MAX
        if small and size + len(self._gathered) <= GATHERED_BYTES_MAX:
            self._check()
            self._gather(buffers)
            return
        try:
            async with self._sending:
                self._check()
                ahead = self._take_gathered()
                if ahead:
                    await self._send([ahead], None)
                await self._send(buffers, file)
            self._send_gathered()
        except OSError as error:
            # The manager may have said why before it closed.
            self.glance()
            self.fail(self._broken(error))
            self._check()
        finally:
            if not self.alive:
                self._let_go()

    def _gather(self, buffers: list[Buffer]) -> None:
        """Send a small frame with all others of this round; alone in it, at once."""
        self._gathered += b"".join(buffers)
        self._sent_in_round += 1
        if self._sent_in_round == 1:
            self._loop.call_soon(self._round_ended)
            if not self._crowded:
                self._send_gathered()

    def _round_ended(self) -> None:
        self._crowded = self._sent_in_round > 1
        self._sent_in_round = 0
        self._send_gathered()

    def _send_gathered(self) -> None:
        """Send what the kernel takes of the small frames; the rest when it takes more."""
        if not self.alive or self._sending.locked() or self._sock.fileno() < 0:
            return
        try:
            while self._gathered:
                del self._gathered[: self._sock.send(self._gathered)]
        except BlockingIOError:
            if not self._writing:
                self._loop.add_writer(self._sock, self._send_gathered)
                self._writing = True
            return
        except OSError as error:
            # The manager may have said why before it closed.
            self.glance()
            self.fail(self._broken(error))
            self._let_go()
        self._watch_no_more()

    def _take_gathered(self) -> bytearray:
        """Have the small frames go out ahead of a large one."""
        self._watch_no_more()
        gathered, self._gathered = self._gathered, bytearray()
        return gathered

    def _watch_no_more(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock)

    async def _send(self, buffers: list[Buffer], file: int | None) -> None:
        try:
            for first in range(0, len(buffers), BUFFERS_PER_CALL_MAX):
                await self._send_batch(buffers[first : first + BUFFERS_PER_CALL_MAX], file)
                file = None
        except asyncio.CancelledError:
            # A frame may be half sent, so no other can follow it.
            self.fail(self._given_up())
            raise

    async def _send_batch(self, buffers: list[Buffer], file: int | None) -> None:
        try:
            unsent = send_some(self._sock, buffers, file)
        except BlockingIOError:
            if file is not None:
                # It has to go with the first byte.
                await self._writable()
                await self._send_batch(buffers, file)
                return
            unsent = [memoryview(buffer) for buffer in buffers]
        for rest in unsent:
            await self._loop.sock_sendall(self._sock, rest)

    async def _writable(self) -> None:
        """Wait until the kernel takes more."""
        ready = asyncio.Event()
        self._loop.add_writer(self._sock, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        self._read()
        if not self.alive:
            self._let_go()

    def _let_go(self) -> None:
        """Stop watching and close the socket; one who is still sending does it at its end."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._watch_no_more()
            if not self._sending.locked():
                self._sock.close()
