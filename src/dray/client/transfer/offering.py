"""The producer's end of a transfer: sends what its core decides, over whichever way there is."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dray.client.progress import INTERVAL_S
from dray.client.steps import reached
from dray.client.transfer.board import Board, Told
from dray.client.transfer.engine import Engine
from dray.client.transfer.source import SourceFile, changed
from dray.client.transfer.state import KeptConsumer, Offered, StateFile, status_of_offer
from dray.client.transfer.way import FileRange, Way
from dray.errors import (
    AddressInUse,
    DrayError,
    ProtocolError,
    TransferCancelled,
    TransferSourceChanged,
    TransferTimeout,
)
from dray.model.limits import MIB, RELAY_WINDOW_BYTES
from dray.model.transfer import TransferState, TransferStatus
from dray.tls import is_tunnel
from dray.transfer.discovery import Discovery
from dray.transfer.events import (
    CheckSource,
    Heard,
    Keep,
    ProducerEvent,
    Room,
    SendPiece,
    SourceBroke,
    SourceChecked,
    Tell,
    Tick,
    WayLost,
)
from dray.transfer.producer import Copy, Producer
from dray.wire.frames import Post
from dray.wire.transfer_frames import (
    AnyMessage,
    Farewell,
    Handshake,
    Joined,
    Opening,
    Piece,
    encode_message,
)

if TYPE_CHECKING:
    from dray.client.runtime import Dialer
    from dray.wire.stream import Frame

_BACKLOG_BYTES: Final = 2 * MIB
"""What waits for a socket; more would only wait."""
_LINGER_S: Final = 1.0
"""How long an offer that is over still answers those who have not heard of it."""
_LINGER_RESTORED_S: Final = 5.0
"""One that was over when the program was killed: its consumer asks every other second."""
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - told apart, not listened on
_UNKNOWN_MAX: Final = 16
_UNKNOWN_S: Final = 5.0
_TOKEN_BYTES: Final = 16
_LISTEN_BACKLOG: Final = 64
AUTOMATIC: Final = "auto"


class Offering(Engine):
    """Runs one offer."""

    def __init__(
        self,
        dialer: Dialer,
        kept: Offered,
        *,
        state: StateFile,
        source: SourceFile,
        listener: socket.socket | str | None,
        silence_s: float,
        told: Told | None = None,
    ) -> None:
        """Take up an offer that is kept, with its source and, if there is one, a listener."""
        self.kept = kept
        self._reference = kept.reference
        board = Board(status_of_offer(kept), told)
        super().__init__(dialer, box=self._reference.transfer, queue=kept.queue, board=board)
        self._state = state
        self._source = source
        self._listener = listener
        wait_s = kept.request_timeout
        until = None if wait_s is None else self.now + wait_s
        discovery = Discovery(many=self._reference.consumers == "many", until=until)
        self.core = Producer(self._reference.terms, discovery, silence_s=silence_s)
        for each in kept.consumers:
            self.core.restore(each.key, each.consumer_id, each.acked, each.state)
        self._local_host = "127.0.0.1"
        self._was_over = self.core.state.final
        self._direct: dict[str, Way] = {}
        self._unknown: dict[Way, float] = {}
        self._tokens: dict[str, str] = {}
        self._checking: set[str] = set()
        self._rates: dict[str, Rate] = {}
        self._posted_at = 0.0
        self._over_at: float | None = None

    # ---------------------------------------------------------------------- for other threads

    def do(self, event: ProducerEvent) -> Callable[[], None]:
        """What makes the thread give an event to the core, for `ask`."""
        return lambda: self._give(event)

    def check_source(self) -> None:
        """Read the file again; raises `TransferSourceChanged`, which also ends the offer."""
        reference = self._reference
        try:
            self._source.check(reference.transfer, reference.fragment_size, reference.fingerprint)
        except TransferSourceChanged as error:
            self.ask(self.do(SourceBroke(error))).result()
            raise

    # ------------------------------------------------------------------------------ the thread

    def begin(self) -> None:
        """See `Engine`."""
        if isinstance(self._listener, socket.socket):
            self.watch(self._listener, self._accept)

    def reachable(self, sock: socket.socket) -> None:
        """Listen on the address by which the queue manager is reached, unless another was given.

        Who reaches it through TLS wants nothing to go unencrypted, so that it is not listened then.
        """
        if sock.family != socket.AF_UNIX:
            self._local_host = sock.getsockname()[0]
        if self._listener != AUTOMATIC:
            return
        if is_tunnel(sock):
            self._listener = None
            return
        try:
            self._listener = listen_at(self._local_host)
        except DrayError:
            # Without a listener everything goes through the managers.
            self._listener = None
            return
        self.watch(self._listener, self._accept)

    def attached(self) -> None:
        """See `Engine`; consumers speak first."""

    def heard(self, way: Way | None, message: AnyMessage, body: memoryview) -> None:
        """See `Engine`."""
        del body
        if isinstance(message, Handshake) and way is None:
            # It begins anew, so a connection that it had is of no more use.
            old = self._direct.pop(message.key, None)
            if old is not None:
                self.shut(old)
        self._give(Heard(message))

    def deadline(self) -> float | None:
        """See `Engine`."""
        times = [*self._unknown.values()]
        at = self.core.deadline()
        if at is not None:
            times.append(at)
        if self._over_at is not None:
            times.append(self._over_at)
            times.append(self._over_at - _LINGER_S + INTERVAL_S)
        if self.core.state is TransferState.SENDING:
            times.append(self._posted_at + INTERVAL_S)
        return min(times, default=None)

    def look(self) -> bool:
        """See `Engine`."""
        now = self.now
        at = self.core.deadline()
        if at is not None and at <= now:
            self._give(Tick())
        for way in [way for way, until in self._unknown.items() if until <= now]:
            self._hang_up(way)
        self._pump()
        if now >= self._posted_at + INTERVAL_S or self._news():
            self._tell_board()
        if self.core.state.final:
            return self._finishing(now)
        return False

    def broken(self, way: Way) -> None:
        """See `Engine`."""
        self._unknown.pop(way, None)
        for key, used in list(self._direct.items()):
            if used is way:
                del self._direct[key]
                self._give(WayLost(key))

    def end(self, error: DrayError | None) -> None:
        """See `Engine`."""
        if isinstance(self._listener, socket.socket):
            self._listener.close()
        self._tell_board()
        self._source.close()
        try:
            if self.core.state.final:
                self._state.remove()
            elif error is None:
                self._keep()
        finally:
            self._state.release()
        if error is None and self.core.state.final:
            self.board.end(error_of_offer(self.core, self._reference.transfer, self.kept))

    # ----------------------------------------------------------------------- doing what is said

    def _give(self, event: ProducerEvent) -> None:
        for effect in self.core.handle(event, self.now):
            match effect:
                case Keep():
                    self._keep()
                case Tell(message):
                    self._tell(message)
                case SendPiece(key, number):
                    self._send(key, number)
                case CheckSource(key):
                    self._check_source(key)

    def _keep(self) -> None:
        self.kept.state = self._state_now()
        self.kept.consumers = [
            KeptConsumer(copy.key, copy.consumer_id, copy.window.base, copy.state)
            for copy in self.core.copies.values()
        ]
        self._state.write(self.kept)
        done = any(copy.state is TransferState.DONE for copy in self.core.copies.values())
        reached("done-kept" if done else "joined-kept")

    def _tell(self, message: AnyMessage) -> None:
        way = self._direct.get(message.key)
        if isinstance(message, Joined) and way is None:
            message = self._introduce(message)
        if way is not None:
            way.put(Post("", encode_message(message)))
        else:
            self.post(self._box_of(message.key), message)
        if isinstance(message, Joined):
            reached("joined-told")
        elif isinstance(message, Farewell):
            reached("farewell-told")

    def _introduce(self, joined: Joined) -> Joined:
        """Say where the producer listens, with a token that opens one connection."""
        if not isinstance(self._listener, socket.socket):
            return joined
        token = secrets.token_hex(_TOKEN_BYTES)
        for old in [old for old, key in self._tokens.items() if key == joined.key]:
            del self._tokens[old]
        self._tokens[token] = joined.key
        host, port = self._listener.getsockname()[:2]
        if host in _EVERYWHERE:
            host = self._local_host
        return Joined(
            joined.key, joined.consumer_id, joined.round, joined.start, (host, port, token)
        )

    def _send(self, key: str, number: int) -> None:
        terms = self.core.terms
        if self._source.has_moved_on():
            error = changed(self._source.path, self._reference.transfer)
            self._give(SourceBroke(error))
            return
        head = Piece(key, number, self._source.crcs[number])
        piece = FileRange(self._source.descriptor, terms.bytes_before(number), terms.length(number))
        way = self._direct.get(key)
        if way is not None:
            way.put_range(Post("", encode_message(head)), piece)
        else:
            self.post_range(self._box_of(key), head, piece)
        reached("piece-sent")

    def _pump(self) -> None:
        """One fragment for each consumer in turn, while any way has room."""
        copies = list(self.core.copies.values())
        while copies:
            copies = [copy for copy in copies if self._has_room(copy)]
            for copy in copies:
                self._give(Room(copy.key))

    def _has_room(self, copy: Copy) -> bool:
        if copy.state is not TransferState.SENDING:
            return False
        way = self._direct.get(copy.key)
        if way is not None:
            if way.backlog >= _BACKLOG_BYTES:
                # What the socket takes now makes room at once.
                self._flush(way)
            return way.backlog < _BACKLOG_BYTES
        relay = self.relay
        if relay is None or not relay.ready or relay.way.backlog >= _BACKLOG_BYTES:
            return False
        under_way = copy.window.in_flight * self.core.terms.fragment_size
        return not under_way or under_way < RELAY_WINDOW_BYTES

    def _check_source(self, key: str) -> None:
        if key in self._checking:
            return
        self._checking.add(key)
        threading.Thread(target=self._read_again, args=(key,), daemon=True).start()

    def _read_again(self, key: str) -> None:
        reference = self._reference
        event: ProducerEvent = SourceChecked(key)
        try:
            self._source.check(reference.transfer, reference.fragment_size, reference.fingerprint)
        except DrayError as error:
            event = SourceBroke(error)
        self.submit(lambda: self._checked(key, event))

    def _checked(self, key: str, event: ProducerEvent) -> None:
        self._checking.discard(key)
        self._give(event)

    # --------------------------------------------------------------- connections of consumers

    def _accept(self) -> None:
        assert isinstance(self._listener, socket.socket)
        try:
            sock, _ = self._listener.accept()
        except OSError:
            # Gone before it was accepted, or no descriptor left; the managers are still there.
            return
        if len(self._unknown) >= _UNKNOWN_MAX:
            sock.close()
            return
        way = Way(sock)
        self._unknown[way] = self.now + _UNKNOWN_S
        self.open(way, lambda frame: self._taken(way, frame))

    def _taken(self, way: Way, frame: Frame) -> None:
        message = self.message_of(frame)
        if way in self._unknown:
            self._open(way, message)
        elif self._direct.get(message.key) is way:
            self.heard(way, message, frame.body)

    def _open(self, way: Way, message: AnyMessage) -> None:
        del self._unknown[way]
        key = self._redeem(message.token) if isinstance(message, Opening) else None
        if key is None or key != message.key:
            raise ProtocolError("a connection began without a token that is good")
        old = self._direct.pop(key, None)
        if old is not None:
            self.shut(old)
        self._direct[key] = way

    def _redeem(self, token: str) -> str | None:
        for good in self._tokens:
            if hmac.compare_digest(good.encode(), token.encode()):
                return self._tokens.pop(good)
        return None

    def _hang_up(self, way: Way) -> None:
        del self._unknown[way]
        self.shut(way)

    def _box_of(self, key: str) -> str:
        return f"{self._reference.transfer}/{key}"

    # ---------------------------------------------------------------------------- what is told

    def _finishing(self, now: float) -> bool:
        """Whether everyone has had time to hear how it ended."""
        if self._over_at is None:
            self._over_at = now + (_LINGER_RESTORED_S if self._was_over else _LINGER_S)
            self._tell_board()
        quiet = not any(way.backlog for way in self._ways) and not self._was_over
        told = self._over_at - _LINGER_S + INTERVAL_S <= now and quiet
        return now >= self._over_at or told or self.core.state is TransferState.TIMED_OUT

    def _news(self) -> bool:
        return self.board.status.state is not self.core.state or len(self.board.consumers) != len(
            self.core.copies
        )

    def _state_now(self) -> TransferState:
        state = self.core.state
        return TransferState.SUSPENDED if self.ending and not state.final else state

    def _tell_board(self) -> None:
        self._posted_at = self.now
        consumers = [self._status(copy) for copy in self.core.copies.values()]
        left = [each for each in consumers if not each.state.final] or consumers
        slowest = min(left, key=lambda each: each.bytes_done, default=None)
        whole = self._whole(slowest, sum(each.fragments_resent for each in consumers))
        self.board.post(whole, consumers)

    def _whole(self, slowest: TransferStatus | None, resent: int) -> TransferStatus:
        return TransferStatus(
            state=self._state_now(),
            bytes_done=0 if slowest is None else slowest.bytes_done,
            bytes_total=self.core.terms.size,
            fragments_resent=resent,
            rate_bytes_s=0.0 if slowest is None else slowest.rate_bytes_s,
            transfer_id=self._reference.transfer,
            label=self._reference.label,
            queue=self.kept.queue,
            path=self.kept.path,
            error="" if self.core.error is None else self.core.error.code,
        )

    def _status(self, copy: Copy) -> TransferStatus:
        done = self.core.terms.bytes_before(copy.window.base)
        rate = self._rates.setdefault(copy.key, Rate())
        return TransferStatus(
            state=copy.state,
            consumer_id=copy.consumer_id,
            bytes_done=done,
            bytes_total=self.core.terms.size,
            fragments_resent=copy.window.resent,
            rate_bytes_s=rate.of(done, moving=not copy.state.final),
            transfer_id=self._reference.transfer,
            label=self._reference.label,
            queue=self.kept.queue,
            path=self.kept.path,
            error="" if copy.error is None else copy.error.code,
        )


class Rate:
    """Bytes a second, lately: over the last few looks."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        self._last = 0.0

    def of(self, done: int, *, moving: bool) -> float:
        """The rate, now that `done` bytes are there; when it is over, the last one."""
        if not moving:
            return self._last
        self._seen = [*self._seen[-19:], (time.monotonic(), done)]
        (began, before), (now, _) = self._seen[0], self._seen[-1]
        self._last = max(0.0, (done - before) / (now - began)) if now > began else 0.0
        return self._last


def error_of_offer(core: Producer, transfer_id: str, kept: Offered) -> DrayError | None:
    """What `wait` raises of an offer that is over; None if it is done."""
    if core.error is not None:
        return core.error
    match core.state:
        case TransferState.TIMED_OUT:
            assert kept.request_timeout is not None
            return TransferTimeout(
                f"nobody asked for {kept.path} within {kept.request_timeout:g} s; offer it again"
                " when there is a consumer",
                transfer_id=transfer_id,
            )
        case TransferState.CANCELLED:
            return TransferCancelled(
                f"the offer of {kept.path} was cancelled, here or by its consumer",
                transfer_id=transfer_id,
            )
        case TransferState.FAILED:
            errors = [copy.error for copy in core.copies.values() if copy.error is not None]
            return errors[0] if errors else None
    return None


def listen_at(host: str) -> socket.socket:
    """Listen on a port of the system's choice; raises `AddressInUse`."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, 0), family=family, backlog=_LISTEN_BACKLOG)
    except OSError as error:
        raise AddressInUse(
            f"cannot listen on {host} for consumers: {error.strerror or error}; give another"
            " address, or None to go through the queue managers"
        ) from error
    sock.setblocking(False)
    return sock
