"""The unsent bytes of one connection: small ones in memory, message records in heap files.

Two ways lead a record to a socket. *In the kernel*: `sendfile` passes references to pages of the
heap file; they are read when the other end reads them, and until then must not be overwritten.
*Copied*: read into one scratch buffer that a daemon has, then `sendmsg`, after which the
file is free. The first is safe for bytes that stay in their queue until the other end has answered
for them (docs/decisions/0011). Everything else is copied, and so are small records, for which a
call of their own costs more than a copy.

Bytes put by lane (`lanes.py`) wait there until all else has gone, a share at a time.

Every extent here was pinned when its answer was made and is unpinned once, when it has been sent or
dropped.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice

from dray.daemon.limits import PIECES_PER_CALL, WRITE_BYTES_PER_PASS
from dray.daemon.sockets.lanes import HeapRange, Lanes, Part
from dray.errors import StoreCorrupt
from dray.store.heap.heap import Extent
from dray.store.store import Store

_UNREADABLE = 2083

Body = tuple[bytes | Extent, ...]


class SocketOutbox:
    """Sends in order, as much as the socket takes."""

    def __init__(
        self, sock: socket.socket, heap: Store, scratch: memoryview, time: Callable[[], float]
    ) -> None:
        """Send to `sock`, a non-blocking stream socket, from memory and `heap`.

        `scratch` is used within a call only, so that all outboxes of one thread may share it.
        `time` is asked how long the socket took.
        """
        self._time = time
        self._sock = sock
        self._heap = heap
        self._scratch = scratch
        self.pieces: deque[Part] = deque()
        """The pieces that wait, but for those in lanes; asked for many times for each frame."""
        self._bytes = 0
        self.lanes = Lanes()
        self._turn_bytes, self._turn_began = 0, 0.0

    def __len__(self) -> int:
        """Pieces that wait; a frame in its lane counts as one."""
        return len(self.pieces) + self.lanes.count

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.pieces) or self.lanes.count > 0

    @property
    def bytes_in_memory(self) -> int:
        """Waiting bytes that are not in a heap file."""
        return self._bytes + self.lanes.bytes_in_memory

    def put(self, data: bytes) -> None:
        """Send `data` after all else; nothing, if there is none."""
        if data:
            self.pieces.append(memoryview(data))
            self._bytes += len(data)

    def put_extent(self, extent: Extent, *, in_kernel: bool) -> None:
        """Send a pinned `extent` after all else; unpins it in its time."""
        self.pieces.append(HeapRange(extent, in_kernel=in_kernel))

    def put_in_lane(self, lane: int, head: bytes, body: Body) -> None:
        """Send a frame when the turn of its lane comes; its extents go in the kernel."""
        parts = (
            memoryview(each) if isinstance(each, bytes) else HeapRange(each, in_kernel=True)
            for each in body
        )
        self.lanes.put(lane, head, parts)

    def flush(self, most: int = WRITE_BYTES_PER_PASS) -> None:
        """Send until nothing is left, the socket is full or `most` bytes went. Raises OSError."""
        # A turn of a lane that has ended is noted as well.
        while most > 0 and (
            self.pieces or ((self.lanes.count or self._turn_bytes) and self._next_share())
        ):
            head = self.pieces[0]
            try:
                if isinstance(head, HeapRange) and head.in_kernel:
                    sent = self._send_in_kernel(head)
                else:
                    sent = self._send_copied()
            except BlockingIOError:
                return
            most -= sent

    def drop(self) -> None:
        """Forget what was not sent."""
        for piece in (*self.pieces, *self.lanes.drop()):
            if isinstance(piece, HeapRange):
                self._done_with(piece)
        self.pieces.clear()
        self._bytes = 0

    def _next_share(self) -> bool:
        """Fetch what goes next from the lanes; false if nothing waits."""
        if not self.lanes.count:
            self._turn_bytes = 0
            return False
        now = self._time()
        share = self.lanes.share
        # Bytes that the socket takes unsent are a share, too.
        if self._turn_bytes and share.took(self._turn_bytes, now - self._turn_began):
            keep_unsent_below(self._sock, share.size)
        turn = self.lanes.take()
        self.pieces += turn
        self._bytes += sum(len(part) for part in turn if isinstance(part, memoryview))
        self._turn_bytes, self._turn_began = sum(map(len, turn)), now
        return bool(turn)

    def _done_with(self, piece: HeapRange) -> None:
        if piece.pinned:
            self._heap.unpin(piece.file)

    def _send_in_kernel(self, head: HeapRange) -> int:
        descriptor = self._heap.descriptor(head.file)
        sent = os.sendfile(self._sock.fileno(), descriptor, head.offset, head.left)
        if not sent:
            raise _cut_short(head)
        head.offset += sent
        head.left -= sent
        if not head.left:
            self.pieces.popleft()
            self._done_with(head)
        return sent

    def _send_copied(self) -> int:
        head = self.pieces[0]
        if isinstance(head, memoryview) and len(self.pieces) == 1 and not self.lanes.count:
            # Most answers: a head without a body.
            sent = self._sock.send(head)
            if sent < len(head):
                self._advance(sent)
            else:
                self._bytes -= sent
                self.pieces.clear()
            return sent
        buffers = self._buffers()
        # The next item mostly belongs to the same answer: let TCP fill its segments.
        flags = socket.MSG_MORE if len(self) > len(buffers) else 0
        sent = self._sock.sendmsg(buffers, (), flags)
        self._advance(sent)
        return sent

    def _buffers(self) -> list[memoryview]:
        """The buffers for one call: pieces in order, heap bytes read into the scratch buffer."""
        room, buffers = self._scratch, []
        for piece in islice(self.pieces, PIECES_PER_CALL):
            if isinstance(piece, memoryview):
                buffers.append(piece)
                continue
            if piece.in_kernel or not room:
                break
            wanted = min(piece.left, len(room))
            self._read(piece, room[:wanted])
            buffers.append(room[:wanted])
            room = room[wanted:]
            if wanted < piece.left:
                break
        return buffers

    def _read(self, piece: HeapRange, view: memoryview) -> None:
        try:
            got = os.preadv(self._heap.descriptor(piece.file), [view], piece.offset)
        except OSError as error:
            raise _cut_short(piece) from error
        if got < len(view):
            raise _cut_short(piece)

    def _advance(self, sent: int) -> None:
        while sent:
            piece = self.pieces[0]
            if isinstance(piece, memoryview):
                done = min(sent, len(piece))
                self._bytes -= done
                self.pieces[0] = piece[done:]
                finished = done == len(piece)
            else:
                done = min(sent, piece.left)
                piece.offset += done
                piece.left -= done
                finished = not piece.left
                if finished:
                    self._done_with(piece)
            if finished:
                self.pieces.popleft()
            sent -= done


def keep_unsent_below(sock: socket.socket, size: int) -> None:
    """Nothing can overtake bytes that the kernel has taken: let it take little that is not sent."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, size)


def merged(body: Body) -> Body:
    """The same bytes in fewer pieces: extents that lie one behind the other become one."""
    pieces: list[bytes | Extent] = []
    for each in body:
        last = pieces[-1] if pieces else None
        if (
            isinstance(each, Extent)
            and isinstance(last, Extent)
            and last.file == each.file
            and last.offset + last.length == each.offset
        ):
            pieces[-1] = Extent(last.file, last.offset, last.length + each.length)
        else:
            pieces.append(each)
    return tuple(pieces)


def size_of(body: Body) -> int:
    """Its length in bytes."""
    size = 0
    for each in body:
        size += len(each) if isinstance(each, bytes) else each.length
    return size


def pin_all(heap: Store, body: Body) -> None:
    """Keep every extent of a frame to come in its place."""
    for each in body:
        if isinstance(each, Extent):
            heap.pin(each.file)


def unpin_all(heap: Store, body: Body) -> None:
    """Undo `pin_all` for a frame that will not be sent."""
    for each in body:
        if isinstance(each, Extent):
            heap.unpin(each.file)


def _cut_short(piece: HeapRange) -> StoreCorrupt:
    return StoreCorrupt(
        f"heap file {piece.file} cannot be read at {piece.offset}; run `dray check` on the data"
        " directory",
        event=_UNREADABLE,
        file=str(piece.file),
    )
