"""One thread that runs one transfer: it waits for sockets, timers and requests of other threads.

Both ends of a transfer share this code: the connection to the queue manager with this end's box,
made again whenever it breaks, and the order of work in a pass: requests, input, timers, news.
Everything but `ask`, `submit` and `stop` happens in the thread.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Final, Generic, TypeVar

from dray.client.connections.runtime import Dialer
from dray.client.transfer.board import Board, settle
from dray.client.transfer.control import ControlSocket, Order
from dray.client.transfer.frame_socket import SOCKET_ERRORS, BoxConnection, FileRange, FrameSocket
from dray.errors import DrayError, ProtocolError
from dray.forks import Process, this_process
from dray.model.callers import Credential
from dray.model.transfer import TransferState
from dray.transfer.consumer import Consumer
from dray.transfer.producer import Producer
from dray.wire import transfer_frames
from dray.wire.stream import Frame

Event = TypeVar("Event")
_RECONNECT_S: Final = 0.1
_RECONNECT_S_MAX: Final = 2.0
_BUFFER_BYTES: Final = 4096
_STOP_WITHIN_S: Final = 20.0
_LAST_WORDS_S: Final = 5.0
"""So long an end that is over waits for a connection over which to say so."""


class Dialled:
    """A connection that was made in another thread, and what is to be done with it."""

    def __init__(self, sock: socket.socket, take: Callable[[socket.socket], None]) -> None:
        self.sock = sock
        self._take = take

    def __call__(self) -> None:
        """Do it."""
        self._take(self.sock)


class Engine(ABC, Generic[Event]):
    """Runs one end of one transfer until it is over or stopped."""

    core: Producer | Consumer
    """Decides what this end does."""

    def __init__(
        self, dialer: Dialer, *, box: str, queue: str, board: Board, control: ControlSocket
    ) -> None:
        """Have `box` attached at the queue manager of `queue`; `start` begins."""
        self.board = board
        self.control = control
        self.relay: BoxConnection | None = None
        self._dialer = dialer
        self._box, self._queue = box, queue
        self._offset = time.time() - time.monotonic()
        self._commands: deque[Callable[[], None]] = deque()
        self._dialling = False
        self._dial_at = 0.0
        self._reconnect_s = _RECONNECT_S
        self._stopping = False
        self.ending = False
        """Whether it goes on no longer here."""
        self._lock = threading.Lock()
        self._over = False
        self._asked: list[Future[None]] = []
        self._last_words: list[tuple[str, transfer_frames.AnyMessage]] = []
        self._last_words_until = 0.0
        self._orders: socket.socket | None = None
        self._connections: dict[FrameSocket, Callable[[Frame], None]] = {}
        self.process: Process = this_process()
        """The process whose thread runs it; a child has none."""
        self._thread = threading.Thread(target=self._run, name="dray-transfer", daemon=True)

    # ---------------------------------------------------------------------- for other threads

    def start(self) -> None:
        """Begin."""
        self._selector = selectors.DefaultSelector()
        self._wake_end, self._woken_end = socket.socketpair()
        self._woken_end.setblocking(False)
        self._orders = self.control.listen()
        self._thread.start()

    def submit(self, act: Callable[[], None]) -> bool:
        """Have the thread do something; false if it is over, and does nothing any more."""
        with self._lock:
            if self._over:
                return False
            self._commands.append(act)
        if self._thread.ident is not None:
            with suppress(OSError):
                self._wake_end.send(b"!")
        return True

    def ask(self, event: Event) -> Future[None]:
        """Have the core take an event, and learn when it has, or that all is over."""
        future: Future[None] = Future()

        def acted() -> None:
            try:
                self._give(event)
                self._tell_board()
            finally:
                settle(future)

        with self._lock:
            self._asked = [each for each in self._asked if not each.done()]
            self._asked.append(future)
        if not self.submit(acted):
            self._answer_all()
        return future

    def stop(self) -> None:
        """End it here; what is kept can be resumed. Waits for the thread."""
        self._stopping = True
        self.submit(lambda: None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_WITHIN_S)
        self.control.settle()

    def ended_within(self, timeout: float) -> bool:
        """Wait so many seconds for the thread to end by itself; whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the thread has begun and has not ended."""
        return self._thread.is_alive()

    # ------------------------------------------------------------------------- for the two ends

    @property
    def now(self) -> float:
        """Seconds since the epoch, by a clock that never jumps."""
        return time.monotonic() + self._offset

    @property
    def state(self) -> TransferState:
        """The state of the core; what goes on no longer here is suspended."""
        state = self.core.state
        return TransferState.SUSPENDED if self.ending and not state.final else state

    @abstractmethod
    def _give(self, event: Event) -> None:
        """Give an event to the core, and do what it says."""

    @abstractmethod
    def _tell_board(self) -> None:
        """Say on the board how it stands."""

    @abstractmethod
    def obey(self, order: Order) -> None:
        """Do what another program asks for; in a thread of its own. Raises what is in the way."""

    @abstractmethod
    def heard(
        self, connection: FrameSocket | None, message: transfer_frames.AnyMessage, body: memoryview
    ) -> None:
        """A message came: over a connection of the two programs, or through the managers."""

    @abstractmethod
    def deadline(self) -> float | None:
        """When to look at the time."""

    @abstractmethod
    def look(self) -> bool:
        """Everything that came was passed on: use the room there is; say whether it is over."""

    @abstractmethod
    def end(self, error: DrayError | None) -> None:
        """The thread ends: for this reason, if something went wrong here."""

    def post(
        self, box: str, message: transfer_frames.AnyMessage, piece: FileRange | None = None
    ) -> None:
        """Send through the queue managers; dropped while there is no connection to ours."""
        relay = self.relay
        if relay is not None and relay.ready:
            relay.connection.post(message, piece, box=box, queue=self._queue)

    def post_at_last(self, box: str, message: transfer_frames.AnyMessage) -> None:
        """The same for what nobody will say again: for some time it is kept until it has gone."""
        if not self._last_words:
            self._last_words_until = self.now + _LAST_WORDS_S
        self._last_words.append((box, message))
        self.post(box, message)

    @property
    def unsaid_until(self) -> float | None:
        """Until when there is something left to say; None if there is nothing any more."""
        return self._last_words_until if self._last_words else None

    def open(self, connection: FrameSocket, take: Callable[[Frame], None]) -> None:
        """Watch a connection."""
        self._connections[connection] = take
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)

    def shut(self, connection: FrameSocket) -> None:
        """Let go of a connection."""
        if self._connections.pop(connection, None) is not None:
            self._selector.unregister(connection.sock)
        connection.close()

    @abstractmethod
    def broken(self, connection: FrameSocket) -> None:
        """A connection that was opened here has ended, and is let go of."""

    def watch(self, sock: socket.socket, readable: Callable[[], None]) -> None:
        """Call when a socket can be read or accepted from."""
        self._selector.register(sock, selectors.EVENT_READ, readable)

    def obey_no_more(self) -> None:
        """Take no more orders: it is over, or the program ends it here."""
        orders, self._orders = self._orders, None
        if orders is not None:
            self._selector.unregister(orders)
        self.control.close()

    @abstractmethod
    def attached(self) -> None:
        """The box is attached: others can reach this end now."""

    @abstractmethod
    def reachable(self, sock: socket.socket) -> None:
        """The connection to the queue manager has just been made."""

    # ------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        error: DrayError | None = None
        try:
            self._selector.register(self._woken_end, selectors.EVENT_READ, None)
            if self._orders is not None:
                self.watch(self._orders, lambda: self.control.accept(self.obey))
            over = False
            while not (over or self._stopping):
                over = self._once()
            self._drain()
        except DrayError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - whoever waits for it has to learn of it
            error = DrayError(f"a file transfer failed unexpectedly: {failure!r}; please report it")
            error.__cause__ = failure
        finally:
            self._let_go(error)

    def _once(self) -> bool:
        while self._commands:
            self._commands.popleft()()
        self._connect()
        over, unsaid = self.look(), bool(self._last_words)
        for connection in list(self._connections):
            self._flush(connection)
        if over:
            return True
        if unsaid and not self._last_words:
            # They have gone, and nothing else may come to wake whoever waited for that.
            return False
        for key, events in self._selector.select(self._patience()):
            if key.data is None:
                with suppress(BlockingIOError):
                    self._woken_end.recv(_BUFFER_BYTES)
            elif not isinstance(key.data, FrameSocket):
                key.data()
            elif key.data in self._connections:
                self._serve(key.data, events)
        return False

    def _patience(self) -> float | None:
        times = [at for at in (self.deadline(),) if at is not None]
        if self.relay is None and not self._dialling:
            times.append(self._dial_at)
        if self._commands:
            return 0.0
        return max(0.0, min(times) - self.now) if times else None

    def _serve(self, connection: FrameSocket, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                for frame in connection.read():
                    take = self._connections.get(connection)
                    if take is None:
                        return
                    take(frame)
        except SOCKET_ERRORS:
            self._lose(connection)

    def _flush(self, connection: FrameSocket) -> None:
        if connection not in self._connections:
            return
        try:
            connection.flush()
        except SOCKET_ERRORS:
            self._lose(connection)
            return
        relay = self.relay
        said = (
            relay is not None
            and relay.connection is connection
            and relay.ready
            and not connection.backlog
        )
        if said and not connection.hung_up:
            self._last_words.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.backlog else 0)
        if self._selector.get_key(connection.sock).events != wanted:
            self._selector.modify(connection.sock, wanted, connection)

    def _lose(self, connection: FrameSocket) -> None:
        self.shut(connection)
        if self.relay is not None and self.relay.connection is connection:
            self.relay = None
            self._dial_at = self.now + self._reconnect_s
            self._reconnect_s = min(2 * self._reconnect_s, _RECONNECT_S_MAX)
        else:
            self.broken(connection)

    def _drain(self) -> None:
        """Let out what was said last, as far as the sockets take it at once."""
        for connection in list(self._connections):
            with suppress(*SOCKET_ERRORS):
                connection.flush()

    def _let_go(self, error: DrayError | None) -> None:
        self.ending = True
        self.obey_no_more()
        try:
            self.end(error)
        except DrayError as failure:
            error = error or failure
        for connection in list(self._connections):
            self.shut(connection)
        self._selector.close()
        with self._lock:
            self._over = True
            late, self._commands = self._commands, deque()
        self._wake_end.close()
        self._woken_end.close()
        for act in late:
            self.lapsed(act)
        self._answer_all()
        self.board.end(error)

    def lapsed(self, act: Callable[[], None]) -> None:
        """Something was asked and will not be done; what it brings is let go of."""
        if isinstance(act, Dialled):
            act.sock.close()

    def _answer_all(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, []
        for future in asked:
            settle(future)

    # --------------------------------------------------------------- the way to our own manager

    def _connect(self) -> None:
        if self.relay is None and not self._dialling and self._dial_at <= self.now:
            self._dialling = True
            threading.Thread(target=self._dial, name="dray-dial", daemon=True).start()

    def _dial(self) -> None:
        try:
            credential = self._dialer.credential()
            sock = self._dialer.dial()
        except DrayError:
            self.submit(self._not_dialled)
            return
        if not self.submit(Dialled(sock, partial(self._dialled, credential))):
            sock.close()

    def _not_dialled(self) -> None:
        self._dialling = False
        self._dial_at = self.now + self._reconnect_s
        self._reconnect_s = min(2 * self._reconnect_s, _RECONNECT_S_MAX)

    def _dialled(self, credential: Credential, sock: socket.socket) -> None:
        self._dialling = False
        connection = FrameSocket(sock)
        self.relay = BoxConnection(connection, self._box, self._queue, credential)
        self.open(connection, self._relayed)
        self.reachable(sock)

    def _relayed(self, frame: Frame) -> None:
        relay = self.relay
        assert relay is not None
        post = relay.take(frame)
        if post is not None:
            self.heard(None, transfer_frames.decode_message(post.message), frame.body)
            relay.connection.give_back(frame.body)
        elif relay.ready:
            self._reconnect_s = _RECONNECT_S
            for box, message in self._last_words:
                self.post(box, message)
            self.attached()

    def message_of(self, frame: Frame) -> transfer_frames.AnyMessage:
        """The message in a frame of the other program; raises `ProtocolError`."""
        if not isinstance(frame.head, transfer_frames.Post):
            raise ProtocolError(f"{type(frame.head).__name__} has no place in a file transfer")
        return transfer_frames.decode_message(frame.head.message)
