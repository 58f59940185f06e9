"""One connection to a queue manager, shared by everyone who calls: what all kinds have in common.

Requests go out in the order in which they are made, answers find their way by request id. How it
is waited for is for `thread_connection`, `loop_connection` and `direct_connection` to say. Once it
is lost, it is lost for everyone, for the first reason.
"""

from __future__ import annotations

import array
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

from dray.client.connections.lost_answers import Lost, answer_lost
from dray.client.connections.session import ClientSession, Listener, Pending, same_error
from dray.errors import ConnectionLost, DrayError, ProtocolError, StorePoisoned
from dray.forks import (
    Process,
    keep_from_children,
    not_sent,
    tell_of_forks,
    wrong_process,
)
from dray.model.callers import Credential
from dray.model.message import Buffer
from dray.model.words import counted
from dray.net.tls import carries_files
from dray.wire.frames import Lease, Leased
from dray.wire.head import Head
from dray.wire.queue_frames import Opened, OpenQueue
from dray.wire.stream import Frame, FrameStream

WELCOME_TIMEOUT_S = 10.0
"""A queue manager answers Hello from memory; this long is no answer."""
BUFFERS_PER_CALL_MAX = 1_000
"""Under the kernel's IOV_MAX of 1,024."""
_Answer = TypeVar("_Answer", bound=Head)


class Connection(ABC):
    """Requests out, answers in, until it is lost once and for all."""

    def __init__(self, peer: str, lock: AbstractContextManager[object]) -> None:
        """Begin with nothing said; `peer` names the other end in sentences."""
        self.peer = peer
        self.lost: DrayError | None = None
        self._lock = lock
        self._session = ClientSession()
        self.known: dict[str, Opened] = {}
        """Queues whose names are resolved."""
        self._left: deque[Head] = deque()
        self._later: deque[Buffer] = deque()
        self._left_once: set[Head] = set()
        tell_of_forks(self)

    def __reduce__(self) -> NoReturn:
        raise not_sent(f"what is connected to {self.peer}")

    @property
    def manager_id(self) -> str:
        """The queue manager at the other end."""
        return self._session.manager_id

    @property
    def source(self) -> bytes:
        """Its id as 16 bytes, as records carry it."""
        return self._session.source

    @property
    def alive(self) -> bool:
        """Whether requests can still be made."""
        return self.lost is None

    @property
    @abstractmethod
    def takes_files(self) -> bool:
        """Whether a request may lend a file."""

    async def greet(self, credential: Credential | None = None) -> None:
        """Say Hello and who this is, and take the Welcome.

        Raises `ConnectionLost`, `ProtocolError` or `AccessDenied`.
        """
        with self._lock:
            pending, encoded = self._session.hello(*(credential or ()))
        await self._transmit([encoded])
        welcome = await self.wait(pending, WELCOME_TIMEOUT_S)
        with self._lock:
            self._session.welcomed(welcome.head)

    async def ask(self, head: Head, answer: type[_Answer], wait_s: float | None = None) -> _Answer:
        """Send a request, wait for its answer, give the head of it."""
        found = (await self.call(head, answer, wait_s=wait_s)).head
        assert isinstance(found, answer)
        return found

    async def call(
        self,
        head: Head,
        answer: type[Head],
        *,
        wait_s: float | None = None,
        body: Sequence[Buffer] = (),
        before: Sequence[Buffer] = (),
        lost: Lost | None = None,
    ) -> Frame:
        """Send a request and wait for an answer of the kind given; raises what came instead.

        `before` is sent ahead of it in the same call to the kernel. After `wait_s` seconds of
        silence the connection is lost. `lost` makes the error for a lost answer.
        """
        pending = await self._begin(head, body, before)
        return await self.answered(pending, head, answer, wait_s=wait_s, lost=lost)

    async def answered(
        self,
        pending: Pending,
        head: Head,
        answer: type[Head],
        *,
        wait_s: float | None = None,
        lost: Lost | None = None,
    ) -> Frame:
        """Wait for the answer to a request that was started; raises as `call` does."""
        try:
            frame = await self.wait(pending, wait_s)
        except DrayError as error:
            # A sync that fails comes after the decision, so it is no refusal.
            if not (pending.lost or isinstance(error, StorePoisoned)):
                raise
            told = (lost or answer_lost)(head, error)
            if told is error:
                raise
            raise told from error
        if not isinstance(frame.head, answer):
            name, wanted = type(frame.head).__name__, answer.__name__
            wrong = ProtocolError(f"the queue manager answered with {name} instead of {wanted}")
            self.fail(wrong)
            raise (lost or answer_lost)(head, wrong)
        return frame

    async def start(
        self,
        head: Head,
        body: Sequence[Buffer] = (),
        before: Sequence[Buffer] = (),
        *,
        file: int | None = None,
    ) -> Pending:
        """Send a request; `wait` for its answer later. `file` is a descriptor to lend with it."""
        body_bytes = sum(map(len, body))
        with self._lock:
            if self.lost is not None:
                self._check()
            pending, encoded = self._session.request(head, body_bytes)
        if file is not None:
            # Descriptors come with the first byte of their frame and so begin a call of their own.
            if ahead := [*self._said_before(), *before]:
                await self._transmit(ahead)
            await self._transmit([encoded, *body], file)
        else:
            said = self._said_before() if self._left or self._later else ()
            await self._transmit([*said, *before, encoded, *body])
        return pending

    def start_later(self, head: Head, before: Sequence[Buffer] = ()) -> Pending:
        """Begin a request that goes out with the next one, or by `say_left`. Never waits.

        `before` is sent ahead of it.
        """
        with self._lock:
            self._check()
            pending, encoded = self._session.request(head)
            self._later.extend((*before, encoded))
        return pending

    async def say_left(self) -> None:
        """Send what was left for the next request."""
        left: list[Buffer] = [*self._said_before()]
        if left:
            await self._transmit(left)

    async def _begin(
        self, head: Head, body: Sequence[Buffer] = (), before: Sequence[Buffer] = ()
    ) -> Pending:
        """Send a request for which the caller waits at once."""
        return await self.start(head, body, before)

    async def post(self, buffers: list[Buffer]) -> None:
        """Send whole frames that want no answer, and take in what has come meanwhile."""
        await self._transmit(buffers)
        self.glance()

    def leave(self, head: Head) -> None:
        """Say something ahead of the next request, and drop its answer. Never waits."""
        self._left.append(head)

    def leave_once(self, head: Head) -> None:
        """Do the same, unless the same was said before on this connection."""
        if head not in self._left_once:
            self._left_once.add(head)
            self._left.append(head)

    async def numbers(self, count: int = 1) -> int:
        """Take `count` message numbers in a row from the lease; the first one."""
        while True:
            with self._lock:
                first = self._session.numbers(count)
            if first is not None:
                return first
            leased = await self.ask(Lease(), Leased)
            if leased.number_count < count:
                raise ProtocolError(
                    f"the client asked for {counted(count, 'number')} and the queue manager leased"
                    f" {leased.number_count}"
                )
            with self._lock:
                self._session.leased(leased)

    async def open_queue(self, name: str, *, for_status: bool = False) -> Opened:
        """Resolve a queue's name, once per connection; raises `QueueNotFound`.

        `for_status` lets the queue manager create a missing one; raises `StatusQueueMissing`.
        """
        opened = self.known.get(name)
        if opened is None:
            opened = self.known[name] = await self.ask(OpenQueue(name, for_status), Opened)
        return opened

    def forget_queues(self) -> None:
        """Resolve all names anew, because a queue was deleted."""
        self.known.clear()
        self._left_once.clear()

    def listen(self, listener: Listener) -> int:
        """Give a request id for frames whose failure alone is told, to `listener`."""
        with self._lock:
            self._check()
            return self._session.listen(listener)

    def listen_no_more(self, request_id: int) -> None:
        """Let go of an id given by `listen`."""
        with self._lock:
            self._session.listen_no_more(request_id)

    @abstractmethod
    def give_back(self, body: memoryview) -> None:
        """Return the body of an answer, so that its memory serves the next one."""

    @abstractmethod
    async def wait(self, pending: Pending, wait_s: float | None = None) -> Frame:
        """Wait for an answer; after `wait_s` seconds of silence the connection is lost."""

    @abstractmethod
    def check_caller(self) -> None:
        """Raise `Misuse` if the calling thread is in the middle of a call, or of another loop."""

    @abstractmethod
    def glance(self) -> None:
        """Take in what has already come, without waiting."""

    @abstractmethod
    def close(self) -> None:
        """End the connection and let go of the socket."""

    def fail(self, error: DrayError) -> None:
        """End the connection for everyone; the first reason stands."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = error
            for pending in self._session.lost(error):
                if pending.signal:
                    pending.signal.set()
        self._hang_up()

    def after_fork(self, parent: Process) -> None:
        """In a child: leave the connection to the parent, and close what is left of it here."""
        self.lost = wrong_process(parent, f"the connection to {self.peer}", "make another one here")
        # Nobody waits in this process, so nobody is woken.
        self._session.lost(self.lost)

    @abstractmethod
    def _hang_up(self) -> None:
        """End what leads to the other end; nothing is waited for."""

    @abstractmethod
    async def _transmit(self, buffers: list[Buffer], file: int | None = None) -> None:
        """Send whole frames, the first with `file`.

        On return all is sent, or a copy of it is and goes ahead of whatever is sent later.
        """

    def _check(self) -> None:
        if self.lost is not None:
            raise same_error(self.lost)

    def _said_before(self) -> Iterator[Buffer]:
        if not (self._left or self._later):
            return
        with self._lock:
            # Several threads may be here, and each frame goes out once.
            said: list[Buffer] = []
            while self._left:
                said.append(self._session.request(self._left.popleft())[1])
            while self._later:
                said.append(self._later.popleft())
        yield from said

    def _silent(self) -> ConnectionLost:
        return ConnectionLost(
            f"{self.peer} did not answer in time, so the client closed the connection"
        )

    def _given_up(self) -> ConnectionLost:
        return ConnectionLost(
            f"a request to {self.peer} was interrupted, so the client closed the connection"
        )

    def _closed_here(self) -> ConnectionLost:
        return ConnectionLost(f"this program closed the connection to {self.peer}")

    def _ended(self) -> DrayError:
        """Why the other end closed the connection."""
        return self._session.reason or ConnectionLost(f"{self.peer} closed the connection")


class SocketConnection(Connection):
    """A connection over a socket."""

    def __init__(
        self, sock: socket.socket, peer: str, lock: AbstractContextManager[object]
    ) -> None:
        """Own a connected socket; `peer` names the other end in sentences."""
        super().__init__(peer, lock)
        self._sock = sock
        self._stream = FrameStream()
        keep_from_children(sock)

    @property
    def takes_files(self) -> bool:
        """Whether a request may lend a file: on a Unix socket, to a manager that knows of it."""
        return self._session.takes_files and carries_files(self._sock)

    def give_back(self, body: memoryview) -> None:
        """Return the body of an answer, so that its memory serves the next one."""
        self._stream.give_back(body)

    def after_fork(self, parent: Process) -> None:
        """See `Connection`."""
        super().after_fork(parent)
        self._sock.close()

    def _hang_up(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other end was first; there is nothing left to shut down.
            return

    def _read(self) -> bool:
        """Take in one piece of input; false if none was there."""
        try:
            count = self._sock.recv_into(self._stream.buffer())
            frames = self._stream.received(count) if count else []
            with self._lock:
                for frame in frames:
                    settled = self._session.take(frame)
                    if settled is not None and settled.signal:
                        settled.signal.set()
            if not count:
                self.fail(self._ended())
        except BlockingIOError:
            return False
        except OSError as error:
            self.fail(self._broken(error))
        except ProtocolError as error:
            self.fail(error)
        return True

    def _broken(self, error: OSError) -> DrayError:
        why = self._tls_reason or f"{error.strerror or error}"
        return ConnectionLost(f"the connection to {self.peer} is lost: {why}")

    def _ended(self) -> DrayError:
        why = self._tls_reason
        if self._session.reason is not None or not why:
            return super()._ended()
        return ConnectionLost(f"{self.peer} closed the connection: {why}")

    @property
    def _tls_reason(self) -> str:
        """Why TLS ended the connection; empty if it did not."""
        why = getattr(self._sock, "reason", "")
        return f"TLS: {why}" if why else ""


def send_some(
    sock: socket.socket, buffers: Sequence[Buffer], file: int | None = None
) -> list[memoryview]:
    """Send what the kernel takes at once, nothing copied, `file` with it; give the rest of it."""
    if file is None:
        sent = sock.sendmsg(buffers)
    else:
        rights = array.array("i", [file])
        sent = sock.sendmsg(buffers, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    return [] if sent == sum(map(len, buffers)) else list(_rest_of(buffers, sent))


def _rest_of(buffers: Sequence[Buffer], sent: int) -> Iterator[memoryview]:
    for buffer in buffers:
        if sent < len(buffer):
            yield memoryview(buffer)[sent:]
        sent = max(0, sent - len(buffer))
