"""One socket that speaks Dray: frames come out of it, frames go into it.

States: OPEN (reads and writes) -> FINISHING (says what is still to be said, reads nothing) ->
LINGERING (everything is said; what still comes is thrown away until the other end hangs up, or the
kernel would throw away our last words) -> CLOSED. A failure of any kind leads straight to CLOSED.

A connection that does not fetch its answers is not read from until it does (backpressure); one that
sends without end is left after its share of a pass (fairness).
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Protocol

from dray.daemon.files.lent_files import LentFiles
from dray.daemon.limits import (
    ENOUGH_TO_READ_ON,
    KEPT_BODY_BYTES_MIN,
    LINGER_S,
    OUTBOX_BYTES_MAX,
    OUTBOX_BYTES_WHILE_TIGHT,
    OUTBOX_ITEMS_MAX,
    READ_BYTES_PER_PASS,
    READ_FRAMES_PER_PASS,
)
from dray.daemon.roles import FrameOwner
from dray.daemon.sockets.outbox import SocketOutbox, size_of, unpin_all
from dray.daemon.sockets.reasons import reason_of, uncopied
from dray.daemon.sockets.surroundings import Surroundings
from dray.daemon.sockets.tuning import tune
from dray.errors import DrayError, ProtocolError
from dray.forks import keep_from_children
from dray.manager.events import Into
from dray.manager.notices import NoticeKind
from dray.model.callers import Caller
from dray.net.tls import carries_files
from dray.store.heap.heap import Extent
from dray.wire.frames import encode_frame, failure
from dray.wire.head import Head
from dray.wire.stream import Frame, FrameStream


class _State(enum.Enum):
    OPEN = "open"
    FINISHING = "finishing"
    LINGERING = "lingering"
    CLOSED = "closed"


class Owner(FrameOwner["FrameConnection"], Protocol):
    """Takes the events of a connection, whose bytes may be no frame."""

    def frame_refused(self, connection: FrameConnection, error: ProtocolError) -> None:
        """The bytes are not a frame, and later ones cannot be understood: `refuse` in due time."""
        ...


class FrameConnection:
    """A non-blocking stream socket in the loop."""

    def __init__(
        self,
        around: Surroundings,
        sock: socket.socket,
        owner: Owner,
        caller: Caller | None = None,
        *,
        caller_says: AbstractSet[int] | None = None,
        dialled: str = "",
    ) -> None:
        """Take over `sock`; nothing is read before `start`.

        A caller says frames of the codes in `caller_says` only, and Hello first.

        Without a `caller` it was dialled, at the address `dialled`. It then leads to another
        manager and goes on reading when memory is tight: were neither end to read before it was rid
        of what it says, both would wait for ever.
        """
        self.caller = caller
        """None on a connection that this manager has dialled."""
        self._dialled = dialled
        self._unsent, self._unsent_place = 0, ""
        keep_from_children(sock)
        tune(sock)
        self._around = around
        self._loop = around.loop
        self._sock = sock
        self._owner = owner
        grant = partial(around.intake.grant, self)
        # A client that says something wrong is told so; managers do not call each other wrongly.
        self._stream = FrameStream(
            around.inlet, grant, lenient=caller is not None, caller_says=caller_says
        )
        self._outbox = SocketOutbox(sock, around.heap, around.scratch, around.loop.time)
        self._state = _State.OPEN
        self._reading = self._writing = False
        self._lingers = True
        self._deaf = False
        self._later: list[Frame] = []
        """Frames that were read and wait for another round of the loop."""
        self._waits_for_files = False
        self._going_on: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lent: LentFiles | None = None
        if carries_files(sock):
            self._lent = LentFiles(
                around.copier, self._pass_on, self._read_if_wanted, self._end, place=self.place
            )

    def start(self) -> None:
        """Begin to read."""
        self._read_if_wanted()

    def send(
        self,
        head: Head,
        request_id: int = 0,
        body: tuple[bytes | Extent, ...] = (),
        *,
        in_kernel: bool = False,
    ) -> None:
        """Queue a frame whose extents are pinned; `flush` makes it go.

        `in_kernel` says that the extents keep their place until the other end has answered for
        them. On a connection that has ended the frame is dropped.
        """
        if self._state is not _State.OPEN:
            unpin_all(self._around.heap, body)
            return
        if self._lent is not None and self._lent.targets:
            self._lent.answered(request_id)
        self._outbox.put(encode_frame(head, request_id, size_of(body) if body else 0))
        for piece in body:
            if isinstance(piece, bytes):
                self._outbox.put(piece)
            else:
                self._outbox.put_extent(piece, in_kernel=in_kernel)

    def send_in_lane(self, lane: int, head: Head, body: tuple[bytes | Extent, ...]) -> None:
        """Queue a frame behind those of its lane only; otherwise as `send`, all in the kernel."""
        if self._state is not _State.OPEN:
            unpin_all(self._around.heap, body)
            return
        self._outbox.put_in_lane(lane, encode_frame(head, 0, size_of(body)), body)

    def copy(self, head: Head, request_id: int, extent: Extent, into: Into) -> None:
        """Copy an extent, which is pinned, into the file that a request lent.

        Then the head is sent with what of the extent is not for the file, or the failure.
        """
        if self._lent is None:
            self._around.heap.unpin(extent.file)
            return

        def copied(error: BaseException | None, before: bytes) -> None:
            if error is None:
                self.send(head, request_id, (before,))
            else:
                self.send(failure(uncopied(error)), request_id)
            self.flush()

        self._lent.copy(self._around.heap, request_id, extent, into=into, told=copied)

    def flush(self) -> None:
        """Let go what the socket takes; the loop sends the rest when it can."""
        if self._state is _State.CLOSED:
            return
        try:
            self._outbox.flush()
        except OSError as error:
            self._close(reason_of(error))
            return
        except DrayError as error:
            self._note_end(f"{error}; the connection was ended in the middle of a frame")
            self._close(str(error))
            return
        outbox = self._outbox
        some = outbox.pieces or outbox.lanes.count or self._writing or self._unsent
        if self._state is _State.OPEN and not some:
            # All of it went at once, as most answers do: nothing is to be watched anew.
            return
        self._write_if_wanted()
        self._read_if_wanted()
        if self._state is _State.FINISHING and not self._outbox:
            if self._lingers:
                self._linger()
            else:
                self._close("it was ended")

    def finish(self, *, linger: bool = True) -> None:
        """Read no more, send what is queued, then end; all of it in bounded time.

        Without `linger` it ends as soon as everything is sent, fetched or not.
        """
        if self._state is _State.OPEN:
            self._state = _State.FINISHING
            self._later = []
            self._lingers = linger
            self._timer = self._loop.call_later(LINGER_S, self._close, "it did not hang up")
            self._read_if_wanted()
            self.flush()

    def abort(self, reason: str) -> None:
        """End at once; what is queued is lost."""
        self._close(reason)

    def reconsider(self) -> None:
        """Stop reading, or go on, as the owner now says."""
        self._read_if_wanted()

    def _readable(self) -> None:
        if self._state is _State.LINGERING:
            self._discard()
            return
        self._owner.reads()
        self._read_share()
        self._owner.has_read()

    def _read_share(self) -> None:
        bytes_left, frames_left = READ_BYTES_PER_PASS, READ_FRAMES_PER_PASS
        while self._reading and bytes_left > 0 and frames_left > 0:
            try:
                buffer = self._stream.buffer(self._around.read_bytes)[:bytes_left]
                count = (
                    self._sock.recv_into(buffer)
                    if self._lent is None
                    else self._lent.receive(self._sock, buffer)
                )
            except BlockingIOError:
                return
            except ProtocolError as error:
                self._refuse(error)
                return
            except OSError as error:
                self._close(reason_of(error))
                return
            if not count:
                why = getattr(self._sock, "reason", "")
                self._close(f"TLS: {why}" if why else "the other end hung up")
                return
            bytes_left -= count
            frames_left -= self._hand_over(partial(self._stream.received, count))
            if count < min(len(buffer), ENOUGH_TO_READ_ON):
                return

    @property
    def place(self) -> str:
        """The caller that has a share of the memory; empty for the owner, and for a peer."""
        return "" if self.caller is None or self.caller.owner else self.caller.place

    @property
    def progress(self) -> float:
        """The part of the incoming frame that is there."""
        return self._stream.progress

    def room_came(self) -> None:
        """Go on with a frame that had to wait for its memory."""
        if self._state is _State.OPEN:
            self._hand_over(self._stream.go_on)

    def _end(self, reason: str) -> None:
        self._note_end(f"a connection has to be ended: {reason}")
        self._close(reason)

    def hold_up(self, reason: str) -> None:
        """End, unless it is this daemon that keeps it from going on."""
        if not (self._owner.overfull or self._stream.waits_for):
            self._end(reason)

    def _hand_over(self, cut: Callable[[], list[Frame]]) -> int:
        """Pass on the frames that are whole now; say how many there were."""
        try:
            frames = cut()
            waiting, self._later = self._later, []
            self._pass_in_time([*waiting, *frames] if waiting else frames)
            if self._lent is not None and self._lent.may_have_unclaimed and not self._later:
                self._lent.check_claimed()
        except ProtocolError as error:
            self._refuse(error)
            return 0
        if self._state is _State.OPEN:
            held, intake = self._stream.held_bytes, self._around.intake
            if held or self in intake.held:
                intake.holds(self, held, anew=bool(frames))
        self._read_if_wanted()
        return len(frames)

    def _pass_in_time(self, frames: list[Frame]) -> None:
        """Pass frames on; those beyond the other end's share of time wait for another round."""
        caller, times, files = self.caller, self._around.times, self._around.heap.queue_files
        place = "" if caller is not None and caller.owner else self.place or self._dialled
        if place and frames:
            times.begin()
        for at, frame in enumerate(frames):
            if self._state is not _State.OPEN:
                return
            if place and times.is_spent(place):
                self._later = frames[at:]
                return
            begun = self._loop.time() if place else 0.0
            stated = 0 if files is None else files.stated
            self._came(frame)
            if place:
                times.spend(place, self._loop.time() - begun)
            changed = files is not None and files.stated != stated
            if changed and not self._around.backlog.admits_files(self._files_written):
                self._waits_for_files, self._later = True, frames[at + 1 :]
                return

    def _files_written(self) -> None:
        self._waits_for_files = False
        self._read_if_wanted()

    def _go_on(self) -> None:
        self._going_on = None
        if self._state is _State.OPEN and self._later:
            self._owner.reads()
            self._hand_over(list)
            self._owner.has_read()

    def _refuse(self, error: ProtocolError) -> None:
        """Read no more; the owner ends it when all that was said before is answered."""
        self._deaf = True
        self._read_if_wanted()
        self._note_end(f"a connection has to be ended: {error}")
        self._owner.frame_refused(self, error)

    def _note_end(self, sentence: str) -> None:
        whose = self._dialled if self.caller is None else self.caller.place
        address = f" ({self.caller or f'the queue manager at {self._dialled}'})"
        self._around.notices.say(NoticeKind.CONNECTION_ENDED, whose, sentence + address)

    def _came(self, frame: Frame) -> None:
        if self._lent is not None and (frame.head.with_file or self._lent.line):
            self._lent.take(frame)
        elif frame.head.with_file:
            raise ProtocolError(
                f"{type(frame.head).__name__} came with a file on a connection that cannot carry"
                " one"
            )
        else:
            self._pass_on(frame)

    def _pass_on(self, frame: Frame) -> None:
        if self._state is not _State.OPEN:
            return
        self._owner.frame_came(self, frame)
        large = len(frame.body) > KEPT_BODY_BYTES_MIN and not frame.head.with_file
        if large and self._state is _State.OPEN:
            self._stream.give_back(frame.body)
            self._around.spares.keep(self.forget_spare)

    def forget_spare(self) -> None:
        """Let go of memory that waits for the next large frame."""
        self._stream.forget_spare()

    def _linger(self) -> None:
        self._state = _State.LINGERING
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._close(reason_of(error))
            return
        self._read_if_wanted()

    def _discard(self) -> None:
        try:
            rest = self._sock.recv_into(self._around.scratch)
        except BlockingIOError:
            return
        except OSError as error:
            self._close(reason_of(error))
            return
        if not rest:
            self._close("it was ended")

    @property
    def _unsent_max(self) -> int:
        """The connection is read while its peer has at most this many bytes to fetch."""
        is_tight = self.caller is not None and self._around.is_tight(self.place)
        return OUTBOX_BYTES_WHILE_TIGHT if is_tight else OUTBOX_BYTES_MAX

    def _count_unsent(self) -> None:
        unsent, place = self._outbox.bytes_in_memory, self.place
        # A caller that proves who it is meanwhile gives back at the place where it took.
        self._around.count_unsent(self._unsent_place, -self._unsent)
        self._around.count_unsent(place, unsent)
        self._unsent, self._unsent_place = unsent, place

    def _read_if_wanted(self) -> None:
        outbox, lent = self._outbox, self._lent
        waits = outbox.pieces or outbox.lanes.count
        if (waits or self._unsent) and outbox.bytes_in_memory != self._unsent:
            self._count_unsent()
        wanted = self._state is _State.LINGERING or (
            self._state is _State.OPEN
            and not self._deaf
            and not self._stream.waits_for
            and not self._owner.overfull
            and not self._waits_for_files
            and not (lent is not None and (lent.held or lent.line) and lent.full)
            and (not self._unsent or self._unsent <= self._unsent_max)
            and (not waits or len(outbox) <= OUTBOX_ITEMS_MAX)
        )
        if wanted and self._later:
            self._going_on = self._going_on or self._loop.call_soon(self._go_on)
            wanted = False
        if wanted and not self._reading:
            self._loop.add_reader(self._sock, self._readable)
        elif self._reading and not wanted:
            self._loop.remove_reader(self._sock)
        self._reading = wanted

    def _write_if_wanted(self) -> None:
        wanted = self._state in (_State.OPEN, _State.FINISHING) and bool(self._outbox)
        if wanted and not self._writing:
            self._loop.add_writer(self._sock, self.flush)
        elif self._writing and not wanted:
            self._loop.remove_writer(self._sock)
        self._writing = wanted

    def _close(self, reason: str) -> None:
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        self._read_if_wanted()
        self._write_if_wanted()
        if self._timer is not None:
            self._timer.cancel()
        # Not when the garbage collector comes by: the intake gives this memory to others now.
        self._stream.close()
        self._later = []
        self._around.spares.closed(self.forget_spare)
        self._around.intake.forget(self)
        self._around.backlog.forget(self._files_written)
        self._outbox.drop()
        self._count_unsent()
        self._sock.close()
        if self._lent is not None:
            self._lent.close()
        self._owner.connection_closed(self, reason)
