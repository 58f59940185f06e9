"""A session of this program: its frames come by calls, and its answers are given back by calls.

To the server it is a connection like any other. It holds no bytes: what it answers is taken at
once. A caller waits before a frame, as a connection is not read, in four cases: the turns are
overfull, a large body has to wait for the disk, a lent file is fetched, or many are held.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from dray.daemon.files.lent_files import LentFiles
from dray.daemon.limits import INTAKE_SMALL_BYTES_MAX
from dray.daemon.roles import FrameOwner
from dray.daemon.sockets.outbox import unpin_all
from dray.daemon.sockets.reasons import uncopied
from dray.daemon.sockets.surroundings import Surroundings
from dray.errors import DrayError
from dray.manager.events import Body, Into
from dray.manager.notices import NoticeKind
from dray.model.callers import OWNER, Caller
from dray.store.heap.heap import Extent
from dray.wire.frames import Done, failure, read_again
from dray.wire.head import Head
from dray.wire.message_frames import Messages
from dray.wire.stream import Frame

_NOTHING: Final = memoryview(b"")
_AS_THEY_ARE: Final = frozenset({Done, Messages})
"""Heads that are made for one answer; others may share what the manager keeps, so they are read
again as from a socket."""

Take = Callable[[Frame], None]
"""Called with each answer, in the turn that gives it."""


class DirectSession:
    """One session; every call of it needs the turn."""

    def __init__(
        self,
        around: Surroundings,
        owner: FrameOwner[DirectSession],
        take: Take,
        hung_up: Callable[[], None],
    ) -> None:
        """Pass frames on to `owner` and answers to `take`; tell `hung_up` once when it ends."""
        self.caller: Caller | None = OWNER
        self.room = threading.Event()
        """Set when a caller that waited for room may try again."""
        self.ended = False
        self._around = around
        self._heap = around.heap
        self._owner = owner
        self._take = take
        self._hung_up = hung_up
        self._lent: LentFiles | None = None

    def start(self) -> None:
        """See `FrameConnection`: frames come when somebody calls."""

    def must_wait(self, frame: Frame) -> bool:
        """Whether a frame has to wait; then `room` is set when it may be tried again."""
        lent = self._lent
        if (
            (lent is not None and bool(lent.full if frame.head.with_file else lent.line))
            or self._owner.overfull
            or (
                len(frame.body) > INTAKE_SMALL_BYTES_MAX
                and not self._around.intake.admits(self.reconsider)
            )
        ):
            self.room.clear()
            return True
        return False

    def came(self, frame: Frame, file: int | None = None) -> None:
        """Pass on a frame, with a descriptor that it lends."""
        self._owner.reads()
        if file is None:
            self._pass_on(frame)
        else:
            lent = self._lent
            if lent is None:
                lent = self._lent = LentFiles(
                    self._around.copier, self._pass_on, self.reconsider, self.abort
                )
            lent.lend(os.dup(file))
            # It may stand in line while the caller goes on.
            lent.take(frame._replace(body=memoryview(bytes(frame.body))))
        self._owner.has_read()

    def send(
        self, head: Head, request_id: int = 0, body: Body = (), *, in_kernel: bool = False
    ) -> None:
        """See `FrameConnection`."""
        del in_kernel
        if self.ended:
            unpin_all(self._heap, body)
            return
        if type(head) not in _AS_THEY_ARE:
            head = read_again(head)
        if self._lent is not None:
            self._lent.answered(request_id)
        if not body:
            self._take(Frame(head, request_id, _NOTHING))
            return
        try:
            taken = self._read(body)
        except DrayError as error:
            sentence = f"{error}; the session of {self.caller} was ended"
            self._around.notices.say(NoticeKind.CONNECTION_ENDED, OWNER.place, sentence)
            self.abort(str(error))
            return
        finally:
            unpin_all(self._heap, body)
        self._take(Frame(head, request_id, taken))

    def copy(self, head: Head, request_id: int, extent: Extent, into: Into) -> None:
        """See `FrameConnection`."""
        if self._lent is None:
            self._heap.unpin(extent.file)
            return

        def copied(error: BaseException | None, before: bytes) -> None:
            if error is None:
                self.send(head, request_id, (before,))
            else:
                self.send(failure(uncopied(error)), request_id)

        self._lent.copy(self._heap, request_id, extent, into=into, told=copied)

    def flush(self) -> None:
        """See `FrameConnection`: everything was taken at once."""

    def finish(self, *, linger: bool = True) -> None:
        """See `FrameConnection`."""
        del linger
        self.abort("it was ended")

    def abort(self, reason: str) -> None:
        """See `FrameConnection`."""
        if self.ended:
            return
        self.ended = True
        self._around.intake.admits_no_more(self.reconsider)
        if self._lent is not None:
            self._lent.close()
        self._owner.connection_closed(self, reason)
        self.reconsider()
        self._hung_up()

    def reconsider(self) -> None:
        """See `FrameConnection`."""
        self.room.set()

    def _pass_on(self, frame: Frame) -> None:
        if not self.ended:
            self._owner.frame_came(self, frame)

    def _read(self, body: Body) -> memoryview:
        pieces = [each if isinstance(each, bytes) else self._heap.read(each) for each in body]
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
