"""The consumer's end of a transfer: writes what its core takes, and checks the whole."""

from __future__ import annotations

import socket
import threading
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from dray.checksum import crc32c
from dray.client.connections.runtime import Dialer
from dray.client.files.partial_file import remove_partial
from dray.client.files.progress import INTERVAL_S
from dray.client.files.steps import reached
from dray.client.transfer.board import Board, Rate
from dray.client.transfer.control import ControlSocket, Order
from dray.client.transfer.direct import connect
from dray.client.transfer.engine import Dialled, Engine
from dray.client.transfer.frame_socket import FrameSocket
from dray.client.transfer.state import KeptIncoming, StateFile, status_of_incoming
from dray.client.transfer.target import TargetFile, boot_id, is_there, whole_fragments
from dray.errors import DrayError, ProtocolError
from dray.machine import Tick
from dray.model.transfer import TransferState
from dray.net.tls import is_tunnel
from dray.transfer import events
from dray.transfer.consumer import Consumer
from dray.wire import transfer_frames
from dray.wire.stream import Frame

_DIRECT_FAILURES_MAX: Final = 2
_DROPPED: Final = (TransferState.CANCELLED, TransferState.FAILED)


def fragments_there(kept: KeptIncoming) -> int:
    """The number of fragments of a kept file that are there."""
    if not kept.path:
        return 0
    return whole_fragments(Path(kept.path), kept.reference.terms, kept.synced, kept.boot)


class Accepting(Engine[events.ConsumerEvent]):
    """Receives one file."""

    core: Consumer

    def __init__(
        self,
        dialer: Dialer,
        kept: KeptIncoming,
        *,
        state: StateFile,
        target: Path | None,
        silence_s: float,
        direct: bool | None = None,
    ) -> None:
        """Receive into `target`, behind what is there of it. Raises `TargetUnwritable`.

        Without a target it can only be cancelled.

        `direct` says whether the producer may be connected to; None: unless our queue manager is
        reached through TLS, and that connection would not be.
        """
        self.kept = kept
        self._may_go_direct = direct
        self._through_tls = False
        reference, terms = kept.reference, kept.reference.terms
        known = target if kept.path == str(target) else None
        if known is not None and is_there(known, terms, reference.fingerprint):
            kept.verified = True
        expected = terms.fragment_count if kept.verified else 0
        if known is not None and not kept.verified:
            expected = whole_fragments(known, terms, kept.synced, kept.boot)
        board = Board(status_of_incoming(kept, expected))
        box = f"{reference.transfer}/{kept.key}"
        control = ControlSocket(state.control_path)
        super().__init__(dialer, box=box, queue=kept.queue, board=board, control=control)
        self._state = state
        self.core = Consumer(
            kept.key,
            reference.transfer,
            terms,
            expected=expected,
            verified=kept.verified,
            silence_s=silence_s,
        )
        self._target: TargetFile | None = None
        if target is not None and not kept.verified:
            self._target = TargetFile(
                target,
                terms,
                reference.fingerprint.kind,
                expected=expected,
                more_synced=self._note_synced,
            )
            path_before = kept.path
            kept.path, kept.boot = str(target), boot_id()
            kept.synced = min(kept.synced, expected)
            kept.state = self.core.state
            try:
                state.write(kept)
            except BaseException:
                self._target.close()
                raise
            reached("target-kept")
            if path_before and path_before != kept.path:
                remove_partial(Path(path_before))
        self._direct: FrameSocket | None = None
        self._direct_failures = 0
        self._piece: memoryview | None = None
        self._rate = Rate()
        self._posted_at = 0.0

    # ---------------------------------------------------------------------- for other threads

    def obey(self, order: Order) -> None:
        """See `Engine`; a consumer is one, whatever consumer is named."""
        ordered: dict[str, events.ConsumerEvent] = {
            "suspend": events.Suspend(),
            "resume": events.Resume(),
            "cancel": events.Cancel(),
        }
        self.ask(ordered[order.act]).result()

    # ------------------------------------------------------------------------------ the thread

    def reachable(self, sock: socket.socket) -> None:
        """See `Engine`; a consumer does not listen."""
        self._through_tls = is_tunnel(sock)

    def attached(self) -> None:
        """See `Engine`; the handshake is said when this end can be reached."""
        self._give(events.Begin())

    def heard(
        self, connection: FrameSocket | None, message: transfer_frames.AnyMessage, body: memoryview
    ) -> None:
        """See `Engine`."""
        if message.key != self.kept.key:
            return
        if isinstance(message, transfer_frames.Fragment):
            self._direct_failures = 0 if connection is not None else self._direct_failures
            self._piece = body
            intact = crc32c(body) == message.crc
            self._give(events.FragmentCame(message.number, len(body), intact))
            self._piece = None
        elif isinstance(message, transfer_frames.Joined) and self._may_try(message):
            threading.Thread(target=self._dial_producer, args=(message,), daemon=True).start()
        else:
            self._give(events.Heard(message))

    def deadline(self) -> float | None:
        """See `Engine`."""
        times = [at for at in (self.core.deadline(), self.unsaid_until) if at is not None]
        if self.core.state is TransferState.SENDING:
            times.append(self._posted_at + INTERVAL_S)
        return min(times, default=None)

    def look(self) -> bool:
        """See `Engine`."""
        if any(connection.stirred for connection in self._connections):
            for connection in self._connections:
                connection.stirred = 0
            self._give(events.Stirred())
        now = self.now
        at = self.core.deadline()
        if at is not None and at <= now:
            self._give(Tick())
        if now >= self._posted_at + INTERVAL_S or self.board.status.state is not self.state:
            self._tell_board()
        unsaid = self.unsaid_until
        return self.core.state.final and (unsaid is None or unsaid <= now)

    def broken(self, connection: FrameSocket) -> None:
        """See `Engine`."""
        if connection is self._direct:
            self._direct = None
            self._direct_failures += 1
            self._give(events.Disconnected(self.kept.key))

    def end(self, error: DrayError | None) -> None:
        """See `Engine`."""
        if self.core.error is None:
            self.core.error = error
        if error is not None:
            # The core may be a fragment ahead of what could be written.
            self.core.expected = fragments_there(self.kept)
        self._tell_board()
        dropped = self.core.state in _DROPPED and error is None
        if self._target is not None:
            if dropped:
                self._target.discard()
            else:
                self._target.close()
        try:
            if dropped or (self.core.state is TransferState.DONE and self._may_forget()):
                self._state.remove()
            else:
                self._keep()
        finally:
            self._state.release()
        if error is None and self.core.state.final:
            self.board.end(self.core.error)

    def _may_forget(self) -> bool:
        """Whether the producer knows; one that could not be told twice is not told again."""
        return self.core.farewell or self._target is None

    # ----------------------------------------------------------------------- doing what is said

    def _give(self, event: events.ConsumerEvent) -> None:
        for effect in self.core.handle(event, self.now):
            match effect:
                case events.WriteFragment(number):
                    assert self._target is not None
                    assert self._piece is not None
                    self._target.write(number, self._piece)
                    reached("piece-stored")
                case events.Tell(message):
                    self._tell(message)
                case events.Keep():
                    self._keep()
                case events.Check():
                    threading.Thread(target=self._check, name="dray-check", daemon=True).start()
                case events.StartOver():
                    assert self._target is not None
                    self._target.start_over()
                    self.kept.synced = 0

    def _tell(self, message: transfer_frames.AnyMessage) -> None:
        if self._direct is not None:
            self._direct.post(message)
        if isinstance(message, transfer_frames.Cancelled):
            self.post_at_last(self.kept.reference.transfer, message)
        elif self._direct is None:
            self.post(self.kept.reference.transfer, message)
        if isinstance(message, transfer_frames.Handshake):
            reached("handshake-told")
        elif isinstance(message, transfer_frames.Acked):
            reached("acked")
        elif isinstance(message, transfer_frames.Verified):
            reached("verified-told")

    def _keep(self) -> None:
        self.kept.state = self.state
        self._state.write(self.kept)

    def _note_synced(self) -> None:
        """In the thread that syncs the file."""
        self.submit(self._more_synced)

    def _more_synced(self) -> None:
        assert self._target is not None
        self.kept.synced = self._target.synced
        self._keep()
        reached("synced-kept")

    def _check(self) -> None:
        """Compare the digest, and put the file under its name; in a thread of its own."""
        try:
            good = self._is_good()
        except Exception as error:  # noqa: BLE001 - whoever waits for the file has to learn of it
            self.submit(partial(self._fail, error))
            return
        self.submit(partial(self._checked, good))

    def _is_good(self) -> bool:
        target = self._target
        if target is None:
            return True
        if target.digest() != self.kept.reference.fingerprint:
            return False
        reached("checked")
        target.finish()
        reached("renamed")
        return True

    def _checked(self, good: bool) -> None:  # noqa: FBT001 - the result of the check
        if good:
            self.kept.verified = True
            self._keep()
            reached("verified-kept")
        self._give(events.Checked(good))

    def _fail(self, error: Exception) -> None:
        raise error

    # --------------------------------------------------------------- straight to the producer

    def _may_try(self, joined: transfer_frames.Joined) -> bool:
        """Whether a connection is allowed and worth a try: not after two that brought nothing."""
        if joined.direct is None or self._direct is not None:
            return False
        allowed = self._may_go_direct
        if allowed is None:
            allowed = bool(joined.certificate) or not self._through_tls
        return allowed and self._direct_failures < _DIRECT_FAILURES_MAX

    def _dial_producer(self, joined: transfer_frames.Joined) -> None:
        try:
            sock = connect(joined)
        except (OSError, UnicodeError, OverflowError):
            # Another machine's loopback, a wall between, another one than it should be: there is
            # another way.
            self.submit(lambda: self._give(events.Heard(joined)))
            return
        if not self.submit(Dialled(sock, partial(self._go_direct, joined))):
            sock.close()

    def _go_direct(self, joined: transfer_frames.Joined, sock: socket.socket) -> None:
        if self._direct is not None:
            sock.close()
            return
        assert joined.direct is not None
        _, _, token = joined.direct
        connection = FrameSocket(sock)
        self._direct = connection
        self.open(connection, lambda frame: self._taken(connection, frame))
        connection.post(transfer_frames.DirectOpening(self.kept.key, token))
        self._give(events.Heard(joined))

    def _taken(self, connection: FrameSocket, frame: Frame) -> None:
        if connection is not self._direct:
            raise ProtocolError("a message came on a connection that is no longer in use")
        self.heard(connection, self.message_of(frame), frame.body)
        connection.give_back(frame.body)

    # ---------------------------------------------------------------------------- what is told

    def _tell_board(self) -> None:
        self._posted_at = self.now
        kept = status_of_incoming(self.kept, self.core.expected)
        status = msgspec.structs.replace(
            kept,
            state=self.state,
            consumer_id=self.core.consumer_id,
            rate_bytes_s=self._rate.of(kept.bytes_done, moving=not self.core.state.final),
            error="" if self.core.error is None else self.core.error.code,
        )
        self.board.post(status, [])
