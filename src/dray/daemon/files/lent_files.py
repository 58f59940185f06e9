"""The files that a client lends with its frames, on one connection.

A descriptor comes with the first byte of its frame and in the order of the frames. Frames are
passed on in that order too, so behind one whose bytes are still fetched the others wait in line:

    SendFile    [fetching] -> ready -> passed on, with the bytes it had lent behind its own
    CopyPart    passed on; the descriptor waits under the request's number for the answer
    any other   passed on, in its turn

At most `FILES_PER_SESSION` descriptors are held for one connection, fewer when all connections
together hold many. Until one of them is closed, and while other frames wait behind a file, it is
not read from. A descriptor whose frame is not whole is read on for, and has a few seconds.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Callable
from functools import partial

from dray.daemon.files.copying import Copier, CopySource, FileRegion
from dray.daemon.limits import FILES_LENT_MANY, FILES_PER_CALLER_MAX, FILES_PER_SESSION
from dray.errors import DrayError, ProtocolError
from dray.manager.events import Into
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.store.heap.heap import Extent
from dray.store.store import Store
from dray.wire.file_frames import SendFile
from dray.wire.stream import Frame

_FILE_OFFSET_MAX = (1 << 63) - 1
_ONE_DESCRIPTOR = socket.CMSG_LEN(array.array("i").itemsize)
"""Room for one, so that the kernel closes what else comes with the same bytes and says so."""
_WERE_MORE = int(socket.MSG_CTRUNC)
"""The kernel's flag for that; a plain number, which is compared without a detour."""


class _InLine:
    """A frame that waits to be passed on."""

    __slots__ = ("fetched", "frame", "ready")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.ready = True
        self.fetched: memoryview | None = None


class LentFiles:
    """Takes descriptors from a socket and brings frames and files together."""

    def __init__(
        self,
        copier: Copier,
        pass_on: Callable[[Frame], None],
        settled: Callable[[], None],
        end: Callable[[str], None],
        *,
        place: str = "",
    ) -> None:
        """Tell `pass_on` of frames, in order, and `settled` when a file is held no longer.

        `end` ends the connection, for a reason. `place` is the caller that has a share, if one has.
        """
        self._place = place
        self._copier = copier
        self._pass_on = pass_on
        self._settled = settled
        self._end = end
        self._unclaimed: deque[int] = deque()
        self.line: deque[_InLine] = deque()
        """Frames that wait for their turn."""
        self.targets: dict[int, int] = {}
        """By request, the file that its answer is to fill."""
        self.held = 0
        """The number of files that are held."""
        self.may_have_unclaimed = False
        """Whether `check_claimed` has something to look at."""
        self._others_in_line = 0
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether as many files are held as may be.

        While a file waits for the rest of its frame the connection is read: nothing else would free
        the file, or tell that the other end has hung up.
        """
        if not self._others_in_line and (self._unclaimed or not self.held):
            return False
        crowded = self._copier.files_lent >= FILES_LENT_MANY
        # The others in line are in memory, so only frames that were read already may stand there.
        return self.held >= (1 if crowded else FILES_PER_SESSION) or self._others_in_line > 0

    def receive(self, sock: socket.socket, buffer: memoryview) -> int:
        """Read from the socket as `recv_into` does; descriptors that come along are kept.

        Raises `ProtocolError` if there are more than one frame needs, or than the caller may lend.
        """
        count, ancillary, flags, _ = sock.recvmsg_into(
            [buffer], _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                came = array.array("i", data)
                self._unclaimed.extend(came)
                self.may_have_unclaimed = True
                self._count(len(came))
        if flags & _WERE_MORE:
            raise ProtocolError("a frame came with more than one file")
        if self._copier.lent_by[self._place] > FILES_PER_CALLER_MAX:
            raise ProtocolError(
                f"a caller lends at most {FILES_PER_CALLER_MAX} files on all its connections"
            )
        return count

    def take(self, frame: Frame) -> None:
        """Pass a frame on, in its turn. Raises `ProtocolError` for one without its file."""
        if not frame.head.with_file:
            self.line.append(_InLine(frame))
            self._others_in_line += 1
        elif not self._unclaimed:
            raise ProtocolError(f"{type(frame.head).__name__} came without its file")
        elif isinstance(frame.head, SendFile):
            self._fetch(frame, frame.head)
        else:
            if frame.request_id in self.targets or not frame.request_id:
                raise ProtocolError("two requests have the same number")
            self.targets[frame.request_id] = self._unclaimed.popleft()
            self.line.append(_InLine(frame))
        self._advance()

    def check_claimed(self) -> None:
        """After all whole frames were taken: raises `ProtocolError` if a file belongs to none."""
        # The one that is left belongs to the frame of which the rest has still to come.
        if len(self._unclaimed) > 1:
            raise ProtocolError("a file came with a frame that takes no file")
        if self._unclaimed:
            self._copier.unclaimed.came(self.give_up)
        else:
            self._copier.unclaimed.claimed(self.give_up)
            self.may_have_unclaimed = False

    def lend(self, descriptor: int) -> None:
        """Take the descriptor of the next frame from a caller in this process."""
        self._unclaimed.append(descriptor)
        self.may_have_unclaimed = True
        self._count(1)

    def copy(
        self,
        heap: Store,
        request_id: int,
        extent: Extent,
        *,
        into: Into,
        told: Callable[[BaseException | None, bytes], None],
    ) -> None:
        """Copy a pinned extent into the file that a request lent.

        `told` gets the error, or None with what of the extent is not for the file.
        """
        target = self.targets.pop(request_id, None)
        if target is None:
            # Only a connection that has ended lent no file with a request of this kind.
            heap.unpin(extent.file)
            return
        before = bytearray(into.before)

        def freed() -> None:
            heap.unpin(extent.file)

        def copied(error: BaseException | None) -> None:
            self._count(-1)
            self._settled()
            told(error, bytes(before))

        try:
            opener = heap.opener(extent.file)
        except DrayError as error:
            os.close(target)
            freed()
            copied(error)
            return
        source = CopySource(extent.file, opener, extent.offset, before)
        piece = FileRegion(target, into.at, extent.length - into.before)
        self._copier.copy(source, piece, copied, freed)

    def answered(self, request_id: int) -> None:
        """A request was answered without a copy: its file, if it lent one, is closed."""
        target = self.targets.pop(request_id, None)
        if target is not None:
            os.close(target)
            self._count(-1)

    def close(self) -> None:
        """Close all that no thread is at work with; nothing is passed on any more."""
        self._closed = True
        self._copier.unclaimed.claimed(self.give_up)
        for descriptor in (*self._unclaimed, *self.targets.values()):
            os.close(descriptor)
            self._count(-1)
        self._unclaimed.clear()
        self.targets.clear()

    def give_up(self, reason: str) -> None:
        """End the connection, unless its other frames keep it from being read."""
        if self._others_in_line:
            self.may_have_unclaimed = True
            self._copier.unclaimed.came(self.give_up)
        else:
            self._end(reason)

    def _fetch(self, frame: Frame, head: SendFile) -> None:
        length = head.size - len(frame.body)
        if not 0 <= length <= head.size <= FRAME_BODY_BYTES_MAX:
            raise ProtocolError("a record in a lent file is out of bounds")
        if not 0 <= head.offset <= _FILE_OFFSET_MAX - length:
            raise ProtocolError("an offset is beyond the end of a lent file")
        entry = _InLine(frame)
        entry.ready = False
        self.line.append(entry)
        piece = FileRegion(self._unclaimed.popleft(), head.offset, length)
        self._copier.fetch(piece, bytes(frame.body), partial(self._fetched, entry))

    def _fetched(self, entry: _InLine, body: memoryview) -> None:
        self._count(-1)
        entry.frame = entry.frame._replace(body=body)
        entry.fetched, entry.ready = body, True
        self._advance()
        self._settled()

    def _count(self, more: int) -> None:
        self.held += more
        self._copier.files_lent += more
        if self._place:
            self._copier.lent_by.add(self._place, more)

    def _advance(self) -> None:
        while self.line and self.line[0].ready:
            entry = self.line.popleft()
            self._others_in_line -= not entry.frame.head.with_file
            if not self._closed:
                self._pass_on(entry.frame)
            if entry.fetched is not None:
                self._copier.give_back(entry.fetched)
