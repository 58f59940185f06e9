"""The producer's end of a transfer: sends what its core decides, over whichever way there is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dray.client.connections.runtime import Dialer
from dray.client.files.progress import INTERVAL_S
from dray.client.files.steps import reached
from dray.client.transfer.board import Board, Told
from dray.client.transfer.control import ControlSocket, Order
from dray.client.transfer.direct import DirectConnections
from dray.client.transfer.engine import Engine
from dray.client.transfer.frame_socket import FileRange, FrameSocket
from dray.client.transfer.offer_status import OfferStatuses, error_of_offer, no_consumer
from dray.client.transfer.source import SourceFile, changed
from dray.client.transfer.state import KeptConsumer, Offered, StateFile, status_of_offer
from dray.errors import (
    DrayError,
    Misuse,
    TransferSourceChanged,
)
from dray.machine import Tick
from dray.model.limits import MIB, RELAY_WINDOW_BYTES, TRANSFER_SILENCE_S
from dray.model.transfer import TransferState
from dray.transfer import events
from dray.transfer.copies import ConsumerCopy
from dray.transfer.discovery import Discovery
from dray.transfer.producer import Producer
from dray.wire import transfer_frames

_BACKLOG_BYTES: Final = 2 * MIB
"""Bytes that wait for a socket; more would only wait."""
_LINGER_S: Final = 1.0
"""The time for which an offer that is over answers those who have not heard of it."""
_LINGER_TAKEN_S: Final = TRANSFER_SILENCE_S
"""The same if somebody may have taken it who has not asked for anything yet."""
_LINGER_RESTORED_S: Final = 5.0
"""One that was over when the program was killed: its consumer asks every other second."""


class Offering(Engine[events.ProducerEvent]):
    """Runs one offer."""

    core: Producer

    def __init__(
        self,
        dialer: Dialer,
        kept: Offered,
        *,
        state: StateFile,
        source: SourceFile | None,
        listener: socket.socket | str | None,
        silence_s: float,
        withdraw: Callable[[], bool],
        told: Told | None = None,
    ) -> None:
        """Take up an offer that is kept, with a listener if there is one.

        Its source may be missing if it is only to be cancelled.
        `withdraw` takes the reference out of its queue, and says whether it was there.
        """
        self.kept = kept
        self._reference = kept.reference
        board = Board(status_of_offer(kept), told)
        super().__init__(
            dialer,
            box=self._reference.transfer,
            queue=kept.queue,
            board=board,
            control=ControlSocket(state.control_path),
        )
        self._withdraw = withdraw
        self._withdrawing = self._concluded = self._back_again = False
        self._looked_at = 0.0
        self._state = state
        self._source = source
        wait_s = kept.request_timeout
        until = None if wait_s is None else self.now + wait_s
        discovery = Discovery(many=self._reference.consumers == "many", until=until)
        self.core = Producer(self._reference.terms, discovery, silence_s=silence_s)
        for each in kept.consumers:
            self.core.restore(each.key, each.consumer_id, each.acked, each.state)
        self._was_over = self.core.state.final
        self._direct = DirectConnections(self, listener)
        self._checking: set[str] = set()
        self._statuses = OfferStatuses(kept)
        self._posted_at = 0.0
        self._over_at: float | None = None
        self._refused_at: float | None = None

    # ---------------------------------------------------------------------- for other threads

    def resume(self, consumer_id: str = "") -> None:
        """Go on. Reads the file again, and raises `TransferSourceChanged`, which ends the offer."""
        reference = self._reference
        if self.core.state.final:
            raise Misuse(
                f"file transfer {reference.transfer} is over: it is {self.core.state}; offer the"
                " file again"
            )
        try:
            self._check_file()
        except TransferSourceChanged as error:
            self.ask(events.SourceBroke(error)).result()
            raise
        self.ask(events.Resume(consumer_id)).result()

    def cancel(self) -> None:
        """Cancel for all consumers and take back an unused reference.

        Raises `ConnectionLost` if the reference could not be taken back; the offer is cancelled all
        the same.
        """
        if not self.running:
            raise Misuse(
                f"file transfer {self._reference.transfer} no longer runs here; cancel it by its id"
            )
        try:
            if self.core.discovery.open:
                self._back_again = self._withdraw()
        finally:
            self.ask(events.Cancel()).result()

    def obey(self, order: Order) -> None:
        """See `Engine`."""
        known = {copy.consumer_id for copy in self.core.copies.values()}
        if order.consumer and order.consumer not in known:
            raise no_consumer(self._reference.transfer, order.consumer)
        match order.act:
            case "suspend":
                self.ask(events.Suspend(order.consumer)).result()
            case "resume":
                self.resume(order.consumer)
            case "cancel" if order.consumer:
                self.ask(events.Cancel(order.consumer)).result()
            case "cancel":
                self.cancel()

    # ------------------------------------------------------------------------------ the thread

    def reachable(self, sock: socket.socket) -> None:
        """See `Engine`."""
        self._direct.reachable(sock)

    def attached(self) -> None:
        """See `Engine`; consumers speak first."""

    def heard(
        self, connection: FrameSocket | None, message: transfer_frames.AnyMessage, body: memoryview
    ) -> None:
        """See `Engine`."""
        del body
        if isinstance(message, transfer_frames.Handshake) and connection is None:
            # It begins anew, so a connection that it had is of no more use.
            self._direct.drop(message.key)
        self._give(events.Heard(message))

    def deadline(self) -> float | None:
        """See `Engine`."""
        times = self._direct.deadlines()
        at = self.core.deadline()
        if at is not None:
            times.append(at)
        times += [at for at in self._ending_moments() if at > self._looked_at]
        if self.core.state is TransferState.SENDING:
            times.append(self._posted_at + INTERVAL_S)
        return min(times, default=None)

    def look(self) -> bool:
        """See `Engine`."""
        now = self._looked_at = self.now
        at = self.core.deadline()
        if at is not None and at <= now:
            self._give(Tick())
        self._direct.tick(now)
        self._pump()
        if now >= self._posted_at + INTERVAL_S or self._news():
            self._tell_board()
        if self.core.state.final:
            return self._finishing(now)
        return False

    def broken(self, connection: FrameSocket) -> None:
        """See `Engine`."""
        key = self._direct.broken(connection)
        if key is not None:
            self._give(events.Disconnected(key))

    def end(self, error: DrayError | None) -> None:
        """See `Engine`."""
        self._direct.close()
        self._tell_board()
        if self._source is not None:
            self._source.close()
        try:
            if self.core.state.final:
                self._conclude(error)
            elif error is None:
                self._keep()
        finally:
            self._state.release()

    # ----------------------------------------------------------------------- doing what is said

    def _give(self, event: events.ProducerEvent) -> None:
        if isinstance(event, events.SourceBroke) and self.core.discovery.open:
            self._withdrawing = True
            threading.Thread(target=self._take_back, name="dray-withdraw", daemon=True).start()
        for effect in self.core.handle(event, self.now):
            match effect:
                case events.Keep():
                    self._keep()
                case events.Tell(message):
                    self._tell(message)
                case events.SendFragment(key, number):
                    self._send(key, number)
                case events.CheckSource(key):
                    self._check_source(key)

    def _keep(self) -> None:
        self.kept.state = self.state
        self.kept.consumers = [
            KeptConsumer(copy.key, copy.consumer_id, copy.window.base, copy.state)
            for copy in self.core.copies.values()
        ]
        self._state.write(self.kept)
        done = any(copy.state is TransferState.DONE for copy in self.core.copies.values())
        reached("done-kept" if done else "joined-kept")

    def _tell(self, message: transfer_frames.AnyMessage) -> None:
        connection = self._direct.of(message.key)
        if isinstance(message, transfer_frames.Joined) and connection is None:
            message = self._direct.introduce(message)
        if connection is not None:
            connection.post(message)
        elif isinstance(message, transfer_frames.Cancelled):
            self.post_at_last(self._box_of(message.key), message)
        else:
            self.post(self._box_of(message.key), message)
        if isinstance(message, transfer_frames.Joined):
            reached("joined-told")
        elif isinstance(message, transfer_frames.Farewell):
            reached("farewell-told")
        elif message.key not in self.core.copies:
            self._refused_at = self.now

    def _send(self, key: str, number: int) -> None:
        terms = self.core.terms
        assert self._source is not None
        if self._source.has_moved_on():
            error = changed(self._source.path, self._reference.transfer)
            self._give(events.SourceBroke(error))
            return
        head = transfer_frames.Fragment(key, number, self._source.crcs[number])
        piece = FileRange(self._source.descriptor, terms.bytes_before(number), terms.length(number))
        connection = self._direct.of(key)
        if connection is not None:
            connection.post(head, piece)
        else:
            self.post(self._box_of(key), head, piece)
        reached("piece-sent")

    def _pump(self) -> None:
        """One fragment for each consumer in turn, while any way has room."""
        copies = list(self.core.copies.values())
        while copies:
            copies = [copy for copy in copies if self._has_room(copy)]
            for copy in copies:
                self._give(events.Room(copy.key))

    def _has_room(self, copy: ConsumerCopy) -> bool:
        if copy.state is not TransferState.SENDING:
            return False
        connection = self._direct.of(copy.key)
        if connection is not None:
            if connection.backlog >= _BACKLOG_BYTES:
                # Bytes that the socket takes now make room at once.
                self._flush(connection)
            return connection.backlog < _BACKLOG_BYTES
        relay = self.relay
        if relay is None or not relay.ready or relay.connection.backlog >= _BACKLOG_BYTES:
            return False
        under_way = copy.window.in_flight * self.core.terms.fragment_size
        return not under_way or under_way < RELAY_WINDOW_BYTES

    def _check_source(self, key: str) -> None:
        if key in self._checking:
            return
        self._checking.add(key)
        threading.Thread(target=self._read_again, args=(key,), daemon=True).start()

    def _read_again(self, key: str) -> None:
        event: events.ProducerEvent = events.SourceChecked(key)
        try:
            self._check_file()
        except DrayError as error:
            event = events.SourceBroke(error)
        self.submit(lambda: self._checked(key, event))

    def _check_file(self) -> None:
        assert self._source is not None
        reference = self._reference
        self._source.check(reference.transfer, reference.fragment_size, reference.fingerprint)

    def _checked(self, key: str, event: events.ProducerEvent) -> None:
        self._checking.discard(key)
        self._give(event)

    def _box_of(self, key: str) -> str:
        return f"{self._reference.transfer}/{key}"

    # ---------------------------------------------------------------------------- what is told

    def _finishing(self, now: float) -> bool:
        """Whether everyone has had time to hear how it ended."""
        if self._over_at is None:
            self._over_at = now
            self._tell_board()
        if not self._concluded and self._is_told(now):
            self._conclude(None)
        return self._concluded and now >= self._refuses_until()

    def _refuses_until(self) -> float:
        """The time until which somebody may have the reference and has asked for nothing yet."""
        assert self._over_at is not None
        if not self.core.discovery.many:
            if self._back_again or (self.core.copies and not self._unheard()):
                return self._over_at
            if self._refused_at is not None:
                # It was the only one; he asks again if he has not heard it.
                return min(self._refused_at + _LINGER_S, self._over_at + _LINGER_TAKEN_S)
        return self._over_at + _LINGER_TAKEN_S

    def _unheard(self) -> bool:
        """Whether a consumer of an earlier run has not asked yet why it is told nothing."""
        broken = self.core.error is not None
        return broken and not all(each.heard_at for each in self.core.copies.values())

    def _is_told(self, now: float) -> bool:
        assert self._over_at is not None
        if self._withdrawing:
            return False
        if self.unsaid_until is not None and now < self.unsaid_until:
            return False
        if self.core.state is TransferState.TIMED_OUT:
            return True
        quiet = (
            not any(connection.backlog for connection in self._connections) and not self._was_over
        )
        return now >= self._over_at + (INTERVAL_S if quiet else self._linger_s)

    def _ending_moments(self) -> list[float]:
        if self._over_at is None:
            return []
        if self._concluded:
            return [self._refuses_until()]
        times = [self._over_at + INTERVAL_S, self._over_at + self._linger_s]
        return times if self.unsaid_until is None else [*times, self.unsaid_until]

    @property
    def _linger_s(self) -> float:
        return _LINGER_RESTORED_S if self._was_over else _LINGER_S

    def _conclude(self, error: DrayError | None) -> None:
        """End the offer, keep nothing of it and refuse later consumers for some time."""
        if self._concluded:
            return
        self._concluded = True
        self.obey_no_more()
        self._state.remove()
        if error is None:
            self.board.end(error_of_offer(self.core, self._reference.transfer, self.kept))

    def _take_back(self) -> None:
        """In a thread of its own: nobody else is to take a reference to a file that is gone."""
        with suppress(DrayError):
            # Consumers hear why the offer ended; those who take its reference now are refused.
            self._back_again = self._withdraw()
        self.submit(self._taken_back)

    def _taken_back(self) -> None:
        self._withdrawing = False

    def _news(self) -> bool:
        return self.board.status.state is not self.core.state or len(self.board.consumers) != len(
            self.core.copies
        )

    def _tell_board(self) -> None:
        self._posted_at = self.now
        self.board.post(*self._statuses.of(self.core, self.state))
